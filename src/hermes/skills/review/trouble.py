"""What went wrong in a run, without what differs from run to run."""

import re

_CHANGES = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "·"),
    (re.compile(r"https?://\S+"), "·"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"), "·"),
    (re.compile(r"(?<![\w.])/[\w./@%+~-]+"), "·"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{6,}\b", re.I), "·"),
    (re.compile(r"\b\w*\d[\w.:-]*"), "·"),
    (re.compile(r"\s+"), " "),
)
_SAYS = re.compile(
    r"error|fail|denied|refused|not found|no such|cannot|exception|timed out|invalid|unknown", re.I
)
LONGEST = 160


def error_signature(text: str) -> str:
    """Of the line that says most; empty when there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _SAYS.search(line)]
    line = (telling or lines or [""])[-1]
    for pattern, stand_in in _CHANGES:
        line = pattern.sub(stand_in, line)
    return line.strip().lower()[:LONGEST]
