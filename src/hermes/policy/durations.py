"""Lengths of time as people write them in a policy: 30s, 10m, 1h30m, 7d."""

import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds(text: str) -> float:
    """Raises `ValueError` for anything but numbers with a unit."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a length of time; write it like 30s, 10m, 1h30m or 7d")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
