"""Which line of which look says that it is this trouble, and no other."""

import re
from collections.abc import Sequence

from hermes.core.messages import Value
from hermes.skills.distill.deeds import Deed, Story
from hermes.skills.distill.literals import Given, general
from hermes.skills.distill.rehearsal import Contrast

_TROUBLE = re.compile(
    r"error|fail|fatal|invalid|refus|denied|cannot|unable|missing|no such|not found|traceback|"
    r"exception|panic|full|exceeded|timed? ?out|unknown|corrupt|expired|must be",
    re.IGNORECASE,
)
_STAMP = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+|[A-Z][a-z]{2} +\d+ [\d:]+)\s*(?:\S+ \S+\[\d+\]:)?\s*"
)
_LONGEST = 220
MOST = 3


class Sign(Value, kw_only=True, frozen=True):
    command: str
    pattern: str = ""
    """A line that must be there; empty when the exit code tells."""
    code: int | None = None
    changes: bool = False
    """It is gone when the trouble is."""


def signs(story: Story, given: Sequence[Given], seen: Contrast | None) -> list[Sign]:
    """Looks that the diagnosis rests on, and looks that differ between broken and mended."""
    found: list[Sign] = []
    evidence = set(story.diagnosis.evidence) if story.diagnosis else set()
    for look in story.before:
        sign = _telling(look, story, given) if look.seq in evidence or not evidence else None
        sign = sign or _differing(look, given, seen)
        if sign is not None and all(sign.command != other.command for other in found):
            found.append(sign)
    cause = [sign for sign in found if not sign.changes][:MOST]
    gone = [sign for sign in found if sign.changes][:MOST]
    kept = [*cause, *gone]
    return [sign for sign in found if sign in kept]


def _differing(look: Deed, given: Sequence[Given], seen: Contrast | None) -> Sign | None:
    """True of the run itself, true again of a fresh broken place, and not of a mended one."""
    if seen is None or look.command not in seen.before or look.command not in seen.after:
        return None
    before, after = seen.before[look.command], seen.after[look.command]
    for line in _ranked(before.output):
        pattern = _pattern(line, given)
        if (
            pattern
            and re.search(pattern, look.output, re.MULTILINE)
            and not re.search(pattern, after.output, re.MULTILINE)
        ):
            return Sign(command=look.command, pattern=pattern, changes=True)
    if look.code is not None and look.code == before.code != after.code:
        return Sign(command=look.command, code=before.code, changes=True)
    return None


def _telling(look: Deed, story: Story, given: Sequence[Given]) -> Sign | None:
    """The line with the value, or the words, that the diagnosis names."""
    diagnosis = story.diagnosis
    named = [diagnosis.value, *diagnosis.mechanism.split()] if diagnosis else []
    words = [word for word in named if len(word) >= 4]
    lines = _ranked(look.output)
    for line in sorted(lines, key=lambda line: -sum(word in line for word in words)):
        if _TROUBLE.search(line) and (pattern := _pattern(line, given)):
            return Sign(command=look.command, pattern=pattern)
    return None


def _ranked(output: str) -> list[str]:
    """Lines that speak of trouble first, the latest of them first."""
    lines = [_STAMP.sub("", line).strip() for line in output.splitlines()]
    usable = [line for line in lines if 4 <= len(line) <= _LONGEST]
    return sorted(reversed(usable), key=lambda line: not _TROUBLE.search(line))


def _pattern(line: str, given: Sequence[Given]) -> str:
    """Empty for a line that is nothing but this case's own values."""
    pattern = general(line, given)
    plain = re.sub(r"\\S\+\?|\[.*?\]\+?|\\s\+|[^A-Za-z]", "", pattern)
    return pattern if len(plain) >= 4 and len(pattern) <= 480 else ""
