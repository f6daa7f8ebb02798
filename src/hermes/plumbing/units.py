"""Lengths of time and sizes of data: read from a text such as 1h30m, and printed for people."""

import re

_SECONDS_PER_UNIT = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern})+")


def parse_duration(text: str) -> float:
    """Seconds. Raises `ValueError` unless the text consists of numbers with units."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a length of time; write it like 30s, 10m, 1h30m or 7d")
    return sum(
        float(number) * _SECONDS_PER_UNIT[unit] for number, unit in _DURATION_PART.findall(text)
    )


def format_duration(seconds: float | None) -> str:
    """0.4 s, 42 s, 3 min 5 s, 2 h 4 min, 3 d 2 h; `unknown` without a number."""
    if seconds is None:
        return "unknown"
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole // 60} min {whole % 60} s"


def format_size(size_bytes: float) -> str:
    """900 KiB, 3.2 GiB: powers of 1024, with one decimal below 10."""
    size, unit = size_bytes / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.1f} {unit}" if 0 < size < 9.95 and unit != "KiB" else f"{size:.0f} {unit}"


def ordinal(number: int) -> str:
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
