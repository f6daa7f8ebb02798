"""Replaces secrets by made-up values, the same value everywhere by the same made-up one."""

import hashlib
import re
import secrets
import string
from collections.abc import Callable, Iterable

MIN_LENGTH = 4
_MARK = re.compile(r"«[^«»]*»")
_CODE = re.compile(r"[()\[\]{}$\s]")


class MadeUpSecrets:
    """`redact` marks secrets in a text. Values are learned from all texts first: a secret may stand
    in another file in a form that no pattern recognizes."""

    def __init__(self, redact: Callable[[str], str], texts: Iterable[str]) -> None:
        self._redact, self._key = redact, secrets.token_bytes(16)
        found = {value for text in texts for value in self._secrets_in(text)}
        self._values = {each: self._make_up(each) for each in found}

    @property
    def count(self) -> int:
        return len(self._values)

    def __call__(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, self._values[value])
        return text

    def _secrets_in(self, text: str) -> Iterable[str]:
        """What the redacted text has marks for."""
        cleaned = self._redact(text)
        if cleaned == text:
            return
        pieces = _MARK.split(cleaned)
        matched = re.fullmatch("(.*?)".join(map(re.escape, pieces)), text, re.DOTALL)
        for value in matched.groups() if matched else ():
            plain = value.strip("'\"")
            if len(plain) >= MIN_LENGTH and not _CODE.search(plain):
                yield plain

    def _make_up(self, value: str) -> str:
        """As long as the secret, with letters for letters and digits for digits."""
        numbers = hashlib.shake_256(self._key + value.encode()).digest(len(value))
        return "".join(map(_similar, value, numbers))


def _similar(letter: str, number: int) -> str:
    for letters in (string.ascii_lowercase, string.ascii_uppercase, string.digits):
        if letter in letters:
            return letters[number % len(letters)]
    return letter
