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


def signs(story: Story, given: Sequence[Given], seen: Sequence[Contrast]) -> list[Sign]:
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


def _differing(look: Deed, given: Sequence[Given], seen: Sequence[Contrast]) -> Sign | None:
    """True of the run itself, true again of fresh broken places, and of no mended one."""
    before = [each.before[look.command] for each in seen if look.command in each.before]
    after = [each.after[look.command] for each in seen if look.command in each.after]
    if not seen or len(before) < len(seen) or len(after) < len(seen):
        return None
    for line in _ranked(before[0].output):
        pattern = _pattern(line, given)
        if (
            pattern
            and all(_shows(pattern, text) for text in (look.output, *(b.output for b in before)))
            and not any(_shows(pattern, each.output) for each in after)
        ):
            return Sign(command=look.command, pattern=pattern, changes=True)
    broken, mended = {each.code for each in before}, {each.code for each in after}
    if look.code is not None and broken == {look.code} and look.code not in mended:
        return Sign(command=look.command, code=look.code, changes=True)
    return None


def _shows(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.MULTILINE) is not None


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
