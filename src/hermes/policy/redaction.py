"""Takes secrets out of text before it is kept, shown, sent or exported. «redacted:…» stays."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from hermes.policy import secret_guesses
from hermes.policy.secret_patterns import CONTEXTS, ISSUED_REGEX, LONG

MARK = "«redacted:"
_SHORTEST = 6
_PLAIN = re.compile(r"(?:true|false|yes|no|on|off|none|null|localhost|\d{1,7})", re.IGNORECASE)
_PUBLIC = re.compile(
    r"-----BEGIN (?:CERTIFICATE|[A-Z ]*PUBLIC KEY)[^-]*-----.*?-----END [^-]+-----", re.DOTALL
)
_DULL = re.compile(r"(?:\w{1,16}[:=])?[0-9a-f-]+|[0-9TZ:.,+-]+|/?[a-z0-9.-]+(?:/[a-z0-9.-]+)+")
"""Hashes, identifiers, paths: most of the long words there are. No issuer makes such."""
_OPTION = re.compile(r"--[a-z-]*")
_LOWER = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}

Span = tuple[int, int, str]
"""From where to where, and what kind of secret."""


def marker(name: str) -> str:
    return f"{MARK}{name}»"


class Redactor:
    """Knows the values of our own `.env`, and what secrets of others look like."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._own = _forms(values or {})

    def clean(self, text: str) -> str:
        """The text without secrets; cleaning twice changes nothing more."""
        for value, name in self._own:
            if value in text:
                text = text.replace(value, marker(name))
        lower = text.lower()
        if len(lower) != len(text):  # some letters grow when they become small
            lower = text.translate(_LOWER)
        spans = sorted([*_known(text, lower), *_guessed(text, lower), *_issued(text)])
        return _without(text, spans) if spans else text


def _forms(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each value as it is, and as it travels in addresses and headers; the longest first."""
    forms: dict[str, str] = {}
    for name, given in values.items():
        value = given.strip()
        if len(value) < _SHORTEST or _PLAIN.fullmatch(value):
            continue
        encoded = b64encode(value.encode()).decode().rstrip("=")
        for form in (value, quote(value, safe=""), encoded if len(value) >= 8 else value):
            forms.setdefault(form, name)
        for line in value.splitlines():  # a key of many lines is often quoted in part
            if len(line) >= 20 and not line.startswith("-----"):
                forms.setdefault(line, name)
    return sorted(forms.items(), key=lambda form: -len(form[0]))


def _places(lower: str, word: str) -> Iterator[int]:
    place = lower.find(word)
    while place >= 0:
        yield place
        place = lower.find(word, place + len(word))


def _known(text: str, lower: str) -> Iterator[Span]:
    for context in CONTEXTS:
        whole = "secret" not in context.regex.groupindex
        for anchor in context.anchors:
            done = 0
            for place in _places(lower, anchor):
                found = context.regex.match(text, place) if place >= done else None
                if found is None:
                    continue
                done = found.end()
                start, end = found.span(0 if whole else "secret")
                if whole or not _spared(text[start:end]):
                    yield _bare(text, start, end, context.name)


def _bare(text: str, start: int, end: int, name: str) -> Span:
    quoted = end - start > 2 and text[start] in "\"'" and text[end - 1] == text[start]
    return (start + 1, end - 1, name) if quoted else (start, end, name)


def _spared(secret: str) -> bool:
    """Variables and blanks to fill in are no secrets."""
    bare = secret.strip("\"'")
    return bare.startswith(("$", "<", "{", "%", "*", "«")) or set(bare) <= set("xX*.-_")


def _guessed(text: str, lower: str) -> Iterator[Span]:
    for stem in secret_guesses.STEMS:
        done = 0
        for place in _places(lower, stem):
            if place < done or (stem == "key" and not _is_key_of_something(lower, place)):
                continue
            found = secret_guesses.KEYED.match(text, place)
            span = _assigned(found) if found else _option(text, lower, place)
            if span is not None:
                done = span[1]  # a value may be full of such words
                yield span


def _option(text: str, lower: str, place: int) -> Span | None:
    """`--db-password hunter2`, with or without an equals sign."""
    dashes = lower.rfind("--", max(0, place - 30), place)
    if dashes < 0 or not _OPTION.fullmatch(lower, dashes, place):
        return None
    found = secret_guesses.FLAGGED.match(text, place)
    if found is None or _spared(found.group("value")):
        return None
    start, end, name = _bare(text, *found.span("value"), "argument")
    secret = text[start:end]
    return (start, end, name) if secret_guesses.assigned("password", secret, quoted=True) else None


def _is_key_of_something(lower: str, place: int) -> bool:
    return secret_guesses.KEY_OF.search(lower[max(0, place - 12) : place]) is not None


def _assigned(found: re.Match[str]) -> Span | None:
    value = found.group("value")
    start, end, _ = _bare(found.string, *_inner(found), "")
    bare = found.string[start:end]
    name = found.string[found.start() : found.start("quote")].lower()
    quoted = len(bare) < len(value)
    shouting = name.upper() == found.string[found.start() : found.start("quote")]
    if MARK in value or found.string[found.start() - 1 : found.start()] == "$":
        return None
    if not secret_guesses.assigned(
        name, bare, quoted=quoted, shouting=shouting and found.group("gap") == "="
    ):
        return None
    return start, end, _kind(name)


def _inner(found: re.Match[str]) -> tuple[int, int]:
    """Where the value stands without `b` and backslashes around its quotes."""
    start, end = found.span("value")
    text = found.string
    if text[start : start + 2] in ('b"', "b'", '\\"'):
        start += 1
    if text[end - 2 : end] == '\\"':
        return start + 1, end - 2
    return start, end


def _kind(name: str) -> str:
    for word, kind in (("passphrase", "passphrase"), ("pass", "password"), ("pwd", "password")):
        if word in name:
            return kind
    return next((word for word in ("token", "key", "credential") if word in name), "secret")


def _issued(text: str) -> Iterator[Span]:
    """One walk over the long words: those with an issuer's mark, and those of pure chance."""
    chances: list[Span] = []
    for word in LONG.finditer(text):
        if _DULL.fullmatch(text, *word.span()):
            continue
        issued = False
        for found in ISSUED_REGEX.finditer(text, word.start(), word.end()):
            issued = True
            yield (
                found.start(),
                found.end(),
                (found.lastgroup or "telegram-token").replace("_", "-"),
            )
        if not issued and word.end() - word.start() >= 32:
            chances += [
                (found.start(), found.end(), "random")
                for found in secret_guesses.RANDOM.finditer(text, word.start(), word.end())
                if secret_guesses.random(text, found.start(), found.group())
            ]
    if chances:
        public = [match.span() for match in _PUBLIC.finditer(text)]
        for span in chances:
            if not any(first <= span[0] < last for first, last in public):
                yield span


def _without(text: str, spans: list[Span]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, name in spans:
        if end <= done:
            continue
        if start >= done:
            pieces += (text[done:start], marker(name))
        done = end
    return "".join([*pieces, text[done:]])
