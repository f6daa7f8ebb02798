"""What others say in an alert is data: cut to a size, without characters that nobody can see."""

import hashlib
from collections.abc import Iterable, Mapping

TITLE, TEXT, SHORT = 200, 4000, 200
LABELS = 40
"""Labels of one alert that are kept."""
FIRST = ("alertname", "severity", "service", "job", "instance", "host", "namespace", "pod")
"""Kept before the others when there are too many: triage reads these."""

Scalar = str | int | float | bool | None


def plain(text: str, most: int) -> str:
    """One line."""
    return " ".join(_visible(text[: 4 * most]).split())[:most]


def prose(text: str, most: int) -> str:
    """Lines stay lines."""
    return _visible(text[: 2 * most]).strip()[:most]


def labels_of(given: Mapping[str, Scalar], *needed: str) -> tuple[tuple[str, str], ...]:
    order = sorted(given, key=lambda name: (name not in (*FIRST, *needed), name))
    kept = sorted(order[:LABELS])
    return tuple((plain(name, SHORT), plain(word(given[name]), SHORT)) for name in kept)


def word(value: Scalar) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def digest(*parts: str, labels: Iterable[tuple[str, str]] = ()) -> str:
    """A fingerprint for a sender that gave none: the same for the same words."""
    whole = "\0".join((*parts, *(f"{name}\1{value}" for name, value in labels)))
    return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()[:16]


def _visible(text: str) -> str:
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(text: str) -> str:
    if text.isprintable():  # in C, and nearly always so
        return text
    return "".join(each if each.isprintable() else " " for each in text)
