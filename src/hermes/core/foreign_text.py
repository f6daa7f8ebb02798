"""Cuts and cleans text, trusted or not: limits its size and removes invisible characters."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

MAX_TITLE_CHARS, MAX_TEXT_CHARS, MAX_FIELD_CHARS = 200, 4000, 200
MAX_LABELS = 40
"""Labels of one alert that are kept."""
PRIORITY_LABELS = (
    "alertname",
    "severity",
    "service",
    "job",
    "instance",
    "host",
    "namespace",
    "pod",
)
"""Kept before the others when there are too many: triage reads these."""

_READ_FACTOR = 8
"""Only this many times the wanted length of a text is read: it may have megabytes."""
_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})

LabelValue = str | int | float | bool | None


def one_line(text: str, max_chars: int) -> str:
    """Put the text on one line; an ellipsis marks a cut."""
    line = " ".join(text[: _READ_FACTOR * max_chars].split())
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def cut_words(text: str, max_chars: int) -> str:
    """A text that is too long ends with a whole word and an ellipsis."""
    if len(text) <= max_chars:
        return text
    kept = text[: max_chars - 2]
    if not text[max_chars - 2].isspace():
        kept = kept.rpartition(" ")[0] or kept
    return f"{kept.rstrip(' ,;:')} …"


def visible_line(text: str, max_chars: int = MAX_TITLE_CHARS) -> str:
    """Put the text on one line, without control sequences and invisible characters."""
    return one_line(visible_text(text[: _READ_FACTOR * max_chars]), max_chars)


def visible_text(text: str) -> str:
    """Remove control sequences and invisible characters; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        each
        for each in _ESCAPE_SEQUENCES.sub("", text)
        if each in "\n\t" or unicodedata.category(each) not in (*_HIDDEN_CATEGORIES, "Zl", "Zp")
    )


def escape_invisible(text: str) -> str:
    """Show invisible characters as escapes and remove nothing: for people who decide about the
    text."""
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if character == "\n":
        return "\n"
    if character == "\t":
        return "\\t"
    if unicodedata.category(character) not in (*_HIDDEN_CATEGORIES, "Zl", "Zp"):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shorten_middle(text: str, max_chars: int, note: str = "characters left out") -> str:
    """Head and tail of a text that is too long, with the length of the missing part."""
    if len(text) <= max_chars:
        return text
    head = max(max_chars // 2, 1)
    tail = max(max_chars - head, 1)
    return f"{text[:head]}\n[… {len(text) - head - tail:,} {note} …]\n{text[-tail:]}"


def clean_line(text: str, max_chars: int) -> str:
    return " ".join(_replace_unprintable(text[: 4 * max_chars]).split())[:max_chars]


def clean_text(text: str, max_chars: int) -> str:
    """Cleans text and keeps its lines."""
    return _replace_unprintable(text[: 2 * max_chars]).strip()[:max_chars]


def clean_labels(labels: Mapping[str, LabelValue], *needed: str) -> tuple[tuple[str, str], ...]:
    order = sorted(labels, key=lambda name: (name not in (*PRIORITY_LABELS, *needed), name))
    kept = sorted(order[:MAX_LABELS])
    return tuple(
        (clean_line(name, MAX_FIELD_CHARS), clean_line(scalar_text(labels[name]), MAX_FIELD_CHARS))
        for name in kept
    )


def scalar_text(value: LabelValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def alert_fingerprint(*parts: str, labels: Iterable[tuple[str, str]] = ()) -> str:
    """A fingerprint for a sender that gave none: the same for the same text."""
    text = "\0".join((*parts, *(f"{name}\1{value}" for name, value in labels)))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _replace_unprintable(text: str) -> str:
    return "\n".join(_printable_line(line) for line in text.split("\n"))


def _printable_line(text: str) -> str:
    if text.isprintable():  # nearly always true, and fast
        return text
    return "".join(each if each.isprintable() else " " for each in text)


def strip_hidden_characters(text: str) -> str:
    """Remove characters that a model would see but a person would not."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or not _is_hidden(char))


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN_CATEGORIES or "\U000e0100" <= char <= "\U000e01ef"


def replace_surrogates(value: Any) -> Any:
    """The value, in whose texts halves of characters are replaced, as UTF-8 has none."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {
                replace_surrogates(key): replace_surrogates(inner) for key, inner in value.items()
            }
        case list() | tuple():
            return [replace_surrogates(inner) for inner in value]
    return value
