"""Replaces secrets in text: our own in common encodings, and others by patterns."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from hermes.policy.redaction import secret_heuristics
from hermes.policy.redaction.secret_patterns import (
    ISSUED_KEY,
    LONG_TOKEN,
    PUBLIC_BLOCK,
    SECRET_CONTEXTS,
    WRAPPED_PREFIX,
    SecretSpan,
    block_spans,
    fold_all,
    fold_invisible,
    fold_line_breaks,
)

MIN_SECRET_LENGTH = 6
MIN_ENCODED_LENGTH = 8
"""Encodings of shorter values occur by chance."""
MIN_KEY_LINE_LENGTH = 20
_MARKUP_ESCAPES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)
"""As in the module `html`, which loads the names of all characters."""
_ORDINARY_VALUE = re.compile(
    r"(?:true|false|yes|no|on|off|none|null|localhost|\d{1,7})", re.IGNORECASE
)


class OwnSecrets:
    """Finds the values of our own secrets."""

    def __init__(self, values: Mapping[str, str]) -> None:
        secrets = {
            name: value
            for name, given in values.items()
            if len(value := given.strip()) >= MIN_SECRET_LENGTH
            and not _ORDINARY_VALUE.fullmatch(value)
        }
        self._exact = _longest_first(_exact_forms(secrets))
        self._folded = _longest_first(_encoded_forms(secrets))

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """Start, end and name of each secret in the text."""
        found = [span for value, name in self._exact for span in _find_all(text, value, name)]
        if self._folded:
            view = fold_all(text).lower()
            found += (
                view.original(span)
                for value, name in self._folded
                for span in _find_all(view.text, value, name)
            )
        return found


def _exact_forms(secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in secrets.items():
        yield value, name
        for line in value.splitlines():  # a key of several lines is often quoted partly
            if len(line) >= MIN_KEY_LINE_LENGTH and not line.startswith("-----"):
                yield line, name


def _encoded_forms(secrets: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """In lower case, to be searched in lower-case text."""
    for name, value in secrets.items():
        if len(value) < MIN_ENCODED_LENGTH:
            continue
        forms = {
            value,
            value[::-1],
            quote(value, safe=""),
            quote_plus(value),
            json.dumps(value)[1:-1],
            value.translate(_MARKUP_ESCAPES),
            value.replace("'", "'\\''"),
            *_base64_forms(value.encode()),
            *_hex_forms(value.encode()),
        }
        yield from ((form.lower(), name) for form in forms)


def _base64_forms(value: bytes) -> Iterable[str]:
    """The characters that depend only on the value, for each of the three alignments."""
    for shift in range(3):
        encoded = b64encode(b"\0" * shift + value).decode()
        first = (0, 2, 3)[shift]
        last = len(encoded) - (0, 3, 2)[(shift + len(value)) % 3]
        form = encoded[first:last]
        if len(form) >= MIN_ENCODED_LENGTH:
            yield form
            yield form.replace("+", "-").replace("/", "_")


def _hex_forms(value: bytes) -> Iterable[str]:
    """As written by `xxd`, `hexdump`, `od` and escapes in source code."""
    digits = value.hex()
    yield digits
    for separator in (" ", ":", ", 0x"):
        yield (
            value.hex(separator) if len(separator) == 1 else value.hex(",").replace(",", separator)
        )
    yield "".join(f"\\x{byte:02x}" for byte in value)
    for first in (4, 2):  # two bytes per word, from an even or an odd offset
        words = [digits[:first], *(digits[at : at + 4] for at in range(first, len(digits), 4))]
        yield " ".join(words)


def _longest_first(forms: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    once = {form: name for form, name in reversed(list(forms))}
    return sorted(once.items(), key=lambda form: -len(form[0]))


def _find_all(text: str, value: str, name: str) -> Iterable[tuple[int, int, str]]:
    position = text.find(value)
    while position >= 0:
        yield position, position + len(value), name
        position = text.find(value, position + len(value))


REDACTION_MARK = "«redacted:"
MIN_WRAPPED_LENGTH, MAX_WRAPPED_LENGTH = 8, 600
MAX_ENCODED_LENGTH = 8_000
_ORDINARY_TOKEN = re.compile(
    r"(?:\w{1,16}[:=])?[0-9a-f-]+|[0-9TZ:.,+-]+|/?[a-z0-9.-]+(?:/[a-z0-9.-]+)+"
)
"""Hashes, identifiers and paths: most long words. No issuer uses these forms."""
_LONG_OPTION = re.compile(r"--[a-z-]*")
_LOWERCASE_TABLE = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def redaction_marker(name: str) -> str:
    return f"{REDACTION_MARK}{name}»"


class Redactor:
    """Replaces the values of our own `.env`, and secrets that match known patterns."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._own_secrets = OwnSecrets(values or {})

    def clean(self, text: str) -> str:
        """The text without secrets. Idempotent."""
        if own := self._own_secrets.spans(text):
            text = _replace_spans(text, sorted(own))
        spans = [*_secret_spans(text), *_wrapped_token_spans(text), *block_spans(text)]
        view = fold_invisible(text)
        if view is not None:
            spans += (view.original(span) for span in _secret_spans(view.text))
        return _replace_spans(text, sorted(spans)) if spans else text


def _secret_spans(text: str) -> Iterator[SecretSpan]:
    lower = text.lower()
    if len(lower) != len(text):  # some letters are longer in lower case
        lower = text.translate(_LOWERCASE_TABLE)
    yield from _pattern_spans(text, lower)
    yield from _guessed_spans(text, lower)
    yield from _issued_spans(text)


def _wrapped_token_spans(text: str) -> Iterator[SecretSpan]:
    """Tokens that continue in the next line, wrapped by a terminal, a mail or a column."""
    end = text.find("\n")
    while end >= 0:
        word = max(text.rfind(" ", 0, end), text.rfind("\n", 0, end), end - MAX_WRAPPED_LENGTH) + 1
        begun = WRAPPED_PREFIX.search(text[word:end]) if end - word >= MIN_WRAPPED_LENGTH else None
        if begun is not None and not ISSUED_KEY.match(begun.group()):
            yield from _joined_token_spans(text, end - len(begun.group()))
        end = text.find("\n", end + 1)


def _joined_token_spans(text: str, start: int) -> Iterator[SecretSpan]:
    view = fold_line_breaks(text[start : start + 2 * MAX_WRAPPED_LENGTH])
    whole = ISSUED_KEY.match(view.text) if view is not None else None
    if view is not None and whole is not None:
        _, end, name = view.original((0, whole.end(), _issuer_name(whole)))
        yield start, start + end, name


def _find_word(lower: str, word: str) -> Iterator[int]:
    position = lower.find(word)
    while position >= 0:
        yield position
        position = lower.find(word, position + len(word))


def _pattern_spans(text: str, lower: str) -> Iterator[SecretSpan]:
    for context in SECRET_CONTEXTS:
        for anchor in context.anchors:
            done = 0
            for position in _find_word(lower, anchor):
                found = context.regex.match(text, position) if position >= done else None
                if found is None:
                    continue
                done = found.end()
                whole = "secret" not in found.re.groupindex
                start, end = found.span(0 if whole else "secret")
                if whole or not _is_placeholder(text[start:end]):
                    yield _unquoted_span(text, start, end, context.name)


def _unquoted_span(text: str, start: int, end: int, name: str) -> SecretSpan:
    quoted = end - start > 2 and text[start] in "\"'" and text[end - 1] == text[start]
    return (start + 1, end - 1, name) if quoted else (start, end, name)


def _is_placeholder(secret: str) -> bool:
    """Variables and placeholders are no secrets."""
    bare = secret.strip("\"'")
    return bare.startswith(("$", "<", "{", "%", "*", "«")) or set(bare) <= set("xX*.-_")


def _guessed_spans(text: str, lower: str) -> Iterator[SecretSpan]:
    for stem in secret_heuristics.SECRET_WORD_STEMS:
        done = 0
        for position in _find_word(lower, stem):
            if position < done or (stem == "key" and not _is_qualified_key(lower, position)):
                continue
            found = secret_heuristics.ASSIGNED_VALUE.match(text, position)
            span = _assigned_span(found) if found else _unassigned_span(text, lower, position)
            if span is not None:
                done = span[1]  # a value may contain more of these words
                yield span


def _unassigned_span(text: str, lower: str, position: int) -> SecretSpan | None:
    """The value after a secret word without a sign of assignment."""
    for pattern in (
        secret_heuristics.XML_VALUE,
        secret_heuristics.NAME_VALUE_PAIR,
        secret_heuristics.PASSWORD_IN_PROSE,
    ):
        found = pattern.match(text, position)
        if found is not None and _is_secret_word(
            found, spoken=pattern is secret_heuristics.PASSWORD_IN_PROSE
        ):
            return _unquoted_span(text, *found.span("value"), _secret_kind(found.group().lower()))
    if (
        '"' in text[position : position + 40]
        and "value" in lower[max(0, position - 300) : position]
    ):
        start = max(0, position - 300)
        found = secret_heuristics.VALUE_NAME_PAIR.search(text[start:position])
        if found is not None and _is_secret_word(found, spoken=False):
            first, last = found.span("value")
            return start + first, start + last, "password"
    return _option_span(text, lower, position)


def _is_secret_word(found: re.Match[str], *, spoken: bool) -> bool:
    value = found.group("value").strip("\"'")
    if _is_placeholder(value) or REDACTION_MARK in value:
        return False
    if spoken and not (any(c.isdigit() for c in value) and any(c.isalpha() for c in value)):
        return False
    return secret_heuristics.is_assigned_secret("password", value, quoted=not spoken)


def _option_span(text: str, lower: str, position: int) -> SecretSpan | None:
    """`--db-password hunter2`, with or without an equals sign."""
    dashes = lower.rfind("--", max(0, position - 30), position)
    if dashes < 0 or not _LONG_OPTION.fullmatch(lower, dashes, position):
        return None
    found = secret_heuristics.OPTION_VALUE.match(text, position)
    if found is None or _is_placeholder(found.group("value")):
        return None
    start, end, name = _unquoted_span(text, *found.span("value"), "argument")
    secret = text[start:end]
    return (
        (start, end, name)
        if secret_heuristics.is_assigned_secret("password", secret, quoted=True)
        else None
    )


def _is_qualified_key(lower: str, position: int) -> bool:
    return (
        secret_heuristics.KEY_QUALIFIER.search(lower[max(0, position - 12) : position]) is not None
    )


def _assigned_span(found: re.Match[str]) -> SecretSpan | None:
    value = found.group("value")
    start, end, _ = _unquoted_span(found.string, *_unquoted_range(found), "")
    bare = found.string[start:end]
    name = found.string[found.start() : found.start("quote")].lower()
    quoted = len(bare) < len(value)
    shouting = name.upper() == found.string[found.start() : found.start("quote")]
    if REDACTION_MARK in value or found.string[found.start() - 1 : found.start()] == "$":
        return None
    if name in secret_heuristics.AMBIGUOUS_SECRET_NAMES and not _has_prefix(found, name, bare):
        return None
    if not secret_heuristics.is_assigned_secret(
        name,
        bare,
        quoted=quoted,
        shouting=shouting and found.group("gap") == "=",
        setting=secret_heuristics.is_setting(found, quoted=quoted),
    ):
        return None
    return start, end, _secret_kind(name)


def _has_prefix(found: re.Match[str], name: str, value: str) -> bool:
    """`DB_PASS`, `smtp-pass` or `dbPass`, not `pass: 12` nor `bypass=1`."""
    before = found.string[found.start() - 1 : found.start()]
    if name == "psk":
        return not before.isalnum() and len(value) >= 8
    if name == "_pw" or (before and before in "_-."):
        return True
    return before.islower() and found.string[found.start()].isupper()


def _unquoted_range(found: re.Match[str]) -> tuple[int, int]:
    """The range of the value without `b` and backslashes around its quotes."""
    start, end = found.span("value")
    text = found.string
    if text[start : start + 2] in ('b"', "b'", '\\"'):
        start += 1
    if text[end - 2 : end] == '\\"':
        return start + 1, end - 2
    return start, end


def _secret_kind(name: str) -> str:
    for word, kind in (("passphrase", "passphrase"), ("pass", "password"), ("pwd", "password")):
        if word in name:
            return kind
    return next((word for word in ("token", "key", "credential") if word in name), "secret")


def _issued_spans(text: str) -> Iterator[SecretSpan]:
    """Long words with the prefix of an issuer, and random ones, in one pass."""
    chances: list[SecretSpan] = []
    for word in LONG_TOKEN.finditer(text):
        if _ORDINARY_TOKEN.fullmatch(text, *word.span()):
            continue
        issued = False
        for found in ISSUED_KEY.finditer(text, word.start(), word.end()):
            issued = True
            yield found.start(), found.end(), _issuer_name(found)
        if not issued and _hides_secret(word.group()):
            yield word.start(), word.end(), "encoded"
        elif not issued and word.end() - word.start() >= 32:
            chances += [
                (found.start(), found.end(), "random")
                for found in secret_heuristics.RANDOM_TOKEN.finditer(text, word.start(), word.end())
                if secret_heuristics.is_random_token(text, found.start(), found.group())
            ]
    if chances:
        public = [match.span() for match in PUBLIC_BLOCK.finditer(text)]
        for span in chances:
            if not any(first <= span[0] < last for first, last in public):
                yield span


def _issuer_name(found: re.Match[str]) -> str:
    return (found.lastgroup or "telegram-token").replace("_", "-")


def _hides_secret(word: str) -> bool:
    """Return whether a word is base64 of a text with a secret."""
    if len(word) > MAX_ENCODED_LENGTH:
        return False
    inner = secret_heuristics.decode_base64_text(word)
    return inner is not None and any(True for _ in _secret_spans(inner))


def _replace_spans(text: str, spans: list[SecretSpan]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, name in spans:
        if end <= done:
            continue
        if start >= done:
            pieces += (text[done:start], redaction_marker(name))
        done = end
    return "".join([*pieces, text[done:]])
