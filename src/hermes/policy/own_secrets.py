"""Finds the secrets that Hermes itself holds, in every encoding in which they travel."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from urllib.parse import quote, quote_plus

from hermes.policy.folded_text import fold_everything

MIN_SECRET_LENGTH = 6
MIN_ENCODED_LENGTH = 8
"""A shorter value has encodings that occur by chance."""
MIN_KEY_LINE_LENGTH = 20
_NOT_SECRET = re.compile(r"(?:true|false|yes|no|on|off|none|null|localhost|\d{1,7})", re.IGNORECASE)


class OwnSecrets:
    """Knows the values, not where they may appear."""

    def __init__(self, values: Mapping[str, str]) -> None:
        secrets = {
            name: value
            for name, given in values.items()
            if len(value := given.strip()) >= MIN_SECRET_LENGTH and not _NOT_SECRET.fullmatch(value)
        }
        self._exact = _longest_first(_exact_forms(secrets))
        self._folded = _longest_first(_encoded_forms(secrets))

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Where a secret stands, from its first to behind its last character, and its name."""
        found = [span for value, name in self._exact for span in _all(text, value, name)]
        if self._folded:
            view = fold_everything(text).lower()
            found += (
                view.original(span)
                for value, name in self._folded
                for span in _all(view.text, value, name)
            )
        return found


def _exact_forms(secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in secrets.items():
        yield value, name
        for line in value.splitlines():  # a key of many lines is often quoted in part
            if len(line) >= MIN_KEY_LINE_LENGTH and not line.startswith("-----"):
                yield line, name


def _encoded_forms(secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """In lower case: they are looked for in text that was made lower, too."""
    for name, value in secrets.items():
        if len(value) < MIN_ENCODED_LENGTH:
            continue
        forms = {
            value,
            value[::-1],
            quote(value, safe=""),
            quote_plus(value),
            json.dumps(value)[1:-1],
            html.escape(value),
            value.replace("'", "'\\''"),
            *_base64_forms(value.encode()),
            *_hex_forms(value.encode()),
        }
        yield from ((form.lower(), name) for form in forms)


def _base64_forms(value: bytes) -> Iterable[str]:
    """The characters that depend on the value alone, for each of the three alignments."""
    for shift in range(3):
        encoded = b64encode(b"\0" * shift + value).decode()
        first = (0, 2, 3)[shift]
        last = len(encoded) - (0, 3, 2)[(shift + len(value)) % 3]
        form = encoded[first:last]
        if len(form) >= MIN_ENCODED_LENGTH:
            yield form
            yield form.replace("+", "-").replace("/", "_")


def _hex_forms(value: bytes) -> Iterable[str]:
    """As `xxd`, `hexdump`, `od` and escapes in source code write it."""
    digits = value.hex()
    yield digits
    for separator in (" ", ":", ", 0x"):
        yield (
            value.hex(separator) if len(separator) == 1 else value.hex(",").replace(",", separator)
        )
    yield "".join(f"\\x{byte:02x}" for byte in value)
    for first in (4, 2):  # two bytes a word, from an even or an odd offset
        words = [digits[:first], *(digits[at : at + 4] for at in range(first, len(digits), 4))]
        yield " ".join(words)


def _longest_first(forms: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    once = {form: name for form, name in reversed(list(forms))}
    return sorted(once.items(), key=lambda form: -len(form[0]))


def _all(text: str, value: str, name: str) -> Iterable[tuple[int, int, str]]:
    place = text.find(value)
    while place >= 0:
        yield place, place + len(value), name
        place = text.find(value, place + len(value))
