"""What others say in an alert is data: cut to a size, without characters that nobody can see."""

import hashlib
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
    """One line."""
    return " ".join(_without_invisible(text[: 4 * max_chars]).split())[:max_chars]


def clean_text(text: str, max_chars: int) -> str:
    """Lines stay lines."""
    return _without_invisible(text[: 2 * max_chars]).strip()[:max_chars]


def clean_labels(given: Mapping[str, LabelValue], *needed: str) -> tuple[tuple[str, str], ...]:
    order = sorted(given, key=lambda name: (name not in (*PRIORITY_LABELS, *needed), name))
    kept = sorted(order[:MAX_LABELS])
    return tuple(
        (clean_line(name, MAX_FIELD_CHARS), clean_line(scalar_text(given[name]), MAX_FIELD_CHARS))
        for name in kept
    )


def scalar_text(value: LabelValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def alert_fingerprint(*parts: str, labels: Iterable[tuple[str, str]] = ()) -> str:
    """A fingerprint for a sender that gave none: the same for the same words."""
    whole = "\0".join((*parts, *(f"{name}\1{value}" for name, value in labels)))
    return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]


def _without_invisible(text: str) -> str:
    return "\n".join(_join_line(line) for line in text.split("\n"))


def _join_line(text: str) -> str:
    if text.isprintable():  # in C, and nearly always so
        return text
    return "".join(each if each.isprintable() else " " for each in text)
