"""Takes secrets out of text before it is kept, shown, sent or exported. «redacted:…» stays."""

import re
from collections.abc import Iterator, Mapping

from hermes.policy import secret_guesses
from hermes.policy.folded_text import Span, fold_invisible, fold_line_breaks
from hermes.policy.own_secrets import OwnSecrets
from hermes.policy.secret_blocks import block_spans
from hermes.policy.secret_patterns import CONTEXTS, ISSUED_REGEX, LONG, WRAPPED_PREFIX

MARK = "«redacted:"
MIN_WRAPPED_LENGTH, MAX_WRAPPED_LENGTH = 8, 600
MAX_ENCODED_LENGTH = 8_000
_PUBLIC = re.compile(
    r"-----BEGIN (?:CERTIFICATE|[A-Z ]*PUBLIC KEY)[^-]*-----.*?-----END [^-]+-----", re.DOTALL
)
_DULL = re.compile(r"(?:\w{1,16}[:=])?[0-9a-f-]+|[0-9TZ:.,+-]+|/?[a-z0-9.-]+(?:/[a-z0-9.-]+)+")
"""Hashes, identifiers, paths: most of the long words there are. No issuer makes such."""
_OPTION = re.compile(r"--[a-z-]*")
_LOWER = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def marker(name: str) -> str:
    return f"{MARK}{name}»"


class Redactor:
    """Knows the values of our own `.env`, and what secrets of others look like."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._own = OwnSecrets(values or {})

    def clean(self, text: str) -> str:
        """The text without secrets; cleaning twice changes nothing more."""
        if own := self._own.spans(text):
            text = _without(text, sorted(own))
        spans = [*_spans(text), *_wrapped(text), *block_spans(text)]
        view = fold_invisible(text)
        if view is not None:
            spans += (view.original(span) for span in _spans(view.text))
        return _without(text, sorted(spans)) if spans else text


def _spans(text: str) -> Iterator[Span]:
    lower = text.lower()
    if len(lower) != len(text):  # some letters grow when they become small
        lower = text.translate(_LOWER)
    yield from _known(text, lower)
    yield from _guessed(text, lower)
    yield from _issued(text)


def _wrapped(text: str) -> Iterator[Span]:
    """Tokens that go on in the next line: wrapped by a terminal, a mail or a column."""
    end = text.find("\n")
    while end >= 0:
        word = max(text.rfind(" ", 0, end), text.rfind("\n", 0, end), end - MAX_WRAPPED_LENGTH) + 1
        begun = WRAPPED_PREFIX.search(text[word:end]) if end - word >= MIN_WRAPPED_LENGTH else None
        if begun is not None and not ISSUED_REGEX.match(begun.group()):
            yield from _joined(text, end - len(begun.group()))
        end = text.find("\n", end + 1)


def _joined(text: str, start: int) -> Iterator[Span]:
    view = fold_line_breaks(text[start : start + 2 * MAX_WRAPPED_LENGTH])
    whole = ISSUED_REGEX.match(view.text) if view is not None else None
    if view is not None and whole is not None:
        _, end, name = view.original((0, whole.end(), _issuer(whole)))
        yield start, start + end, name


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
            span = _assigned(found) if found else _elsewhere(text, lower, place)
            if span is not None:
                done = span[1]  # a value may be full of such words
                yield span


def _elsewhere(text: str, lower: str, place: int) -> Span | None:
    """The value of a telling word that no sign of assignment follows."""
    for pattern in (secret_guesses.TAGGED, secret_guesses.PAIRED, secret_guesses.SPOKEN):
        found = pattern.match(text, place)
        if found is not None and _telling(found, spoken=pattern is secret_guesses.SPOKEN):
            return _bare(text, *found.span("value"), _kind(found.group().lower()))
    if '"' in text[place : place + 40] and "value" in lower[max(0, place - 300) : place]:
        start = max(0, place - 300)
        found = secret_guesses.PAIRED_BEFORE.search(text[start:place])
        if found is not None and _telling(found, spoken=False):
            first, last = found.span("value")
            return start + first, start + last, "password"
    return _option(text, lower, place)


def _telling(found: re.Match[str], *, spoken: bool) -> bool:
    value = found.group("value").strip("\"'")
    if _spared(value) or MARK in value:
        return False
    if spoken and not (any(c.isdigit() for c in value) and any(c.isalpha() for c in value)):
        return False
    return secret_guesses.assigned("password", value, quoted=not spoken)


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
    if name in secret_guesses.SHORT_NAMES and not _has_prefix(found, name, bare):
        return None
    if not secret_guesses.assigned(
        name, bare, quoted=quoted, shouting=shouting and found.group("gap") == "="
    ):
        return None
    return start, end, _kind(name)


def _has_prefix(found: re.Match[str], name: str, value: str) -> bool:
    """`DB_PASS`, `smtp-pass` or `dbPass`, not `pass: 12` nor `bypass=1`."""
    before = found.string[found.start() - 1 : found.start()]
    if name == "psk":
        return not before.isalnum() and len(value) >= 8
    if name == "_pw" or (before and before in "_-."):
        return True
    return before.islower() and found.string[found.start()].isupper()


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
            yield found.start(), found.end(), _issuer(found)
        if not issued and _hides_secret(word.group()):
            yield word.start(), word.end(), "encoded"
        elif not issued and word.end() - word.start() >= 32:
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


def _issuer(found: re.Match[str]) -> str:
    return (found.lastgroup or "telegram-token").replace("_", "-")


def _hides_secret(word: str) -> bool:
    """Whether a word is the base64 of a text with a secret in it."""
    if len(word) > MAX_ENCODED_LENGTH:
        return False
    inner = secret_guesses.decoded(word)
    return inner is not None and any(True for _ in _spans(inner))


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
