"""How finds are named, and what is noted on them about the moment they were found."""

import hashlib
import re

NOW = "now"
"""The label that says how it was when it was found: `fine`, `failing`, or a disk `full`."""
SUPPOSED = "supposed"
"""The label of what should be there by what a service once said of itself."""

PROVISIONAL = "provisional"
"""The label of what runs now and may end at any time: its end is no alert."""
MARKS = (NOW, SUPPOSED, PROVISIONAL)
"""Labels about the moment of the survey, which say nothing about the probe."""


def now(fine: bool) -> dict[str, str]:
    return {NOW: "fine" if fine else "failing"}


def name_of(kind: str, what: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "-", what.lower()).strip("-")
    name = f"{kind}-{plain or 'root'}" if what else kind
    if len(name) <= 48:
        return name
    return f"{name[:41]}-{hashlib.sha256(what.encode()).hexdigest()[:6]}"
