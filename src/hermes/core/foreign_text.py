"""Cleans untrusted text: limits its size and removes invisible characters."""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping

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

LabelValue = str | int | float | bool | None


def clean_line(text: str, max_chars: int) -> str:
    """Cleans text to one line."""
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
    """Without characters that a model would see but a person would not."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in text if char in "\n\t" or not _is_hidden(char))


def _is_hidden(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn", "Cs")
        or "\U000e0100" <= char <= "\U000e01ef"
    )
