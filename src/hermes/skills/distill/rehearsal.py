"""Repeats a fix in fresh places: drops what did not matter, sees what tells broken from well."""

import re
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.messages import Value
from hermes.skills.distill.literals import DistilledParameter, generalize_text
from hermes.skills.distill.verified_run import DistillationError, RunCommand, VerifiedRun

SETTLE_COMMAND = "sleep 1"
"""Between the last change and the looks that follow: services take a moment to come up."""
REQUIRED_REHEARSALS, MAX_REHEARSALS = 2, 3
"""Rehearsals that have to agree, and how many are tried for that."""


class CommandOutput(Value, frozen=True):
    code: int | None
    output: str


class RehearsalResult(Value, kw_only=True, frozen=True):
    solved: bool
    """As whoever judges the place says, and not the commands."""
    outputs: tuple[CommandOutput, ...] = ()


RunRehearsal = Callable[[Sequence[str]], Awaitable[RehearsalResult]]
"""Runs commands one after the other in a fresh place, broken as it was."""


class RehearsalContrast(Value, frozen=True):
    """What each look shows in the broken place and in the mended one."""

    before: dict[str, CommandOutput]
    after: dict[str, CommandOutput]


async def reduce_changes(
    changes: Sequence[RunCommand], run_rehearsal: RunRehearsal
) -> list[RunCommand]:
    """The changes without which it does not hold. Raises `DistillationError` when all do not either.

    A restart after another change stays: that a unit came up by itself in time, once, is luck.
    """
    kept = list(changes)
    if not await check_fix_holds(kept, run_rehearsal):
        raise DistillationError(
            "repeated in a fresh place the fix does not hold: something else mattered too"
        )
    for deed in list(kept):
        fewer = [other for other in kept if other is not deed]
        if deed.restarts and fewer and fewer[0].seq < deed.seq:
            continue
        if fewer and await check_fix_holds(fewer, run_rehearsal):
            kept = fewer
    return kept


async def check_fix_holds(changes: Sequence[RunCommand], rehearse: RunRehearsal) -> bool:
    """What two rehearsals agree on; where they do not, a third decides: hosts have their moods."""
    commands = [deed.command for deed in changes]
    first = (await rehearse(commands)).solved
    second = (await rehearse(commands)).solved
    return first if first == second else (await rehearse(commands)).solved


async def compare_before_after(
    looks: Sequence[str], changes: Sequence[RunCommand], rehearse: RunRehearsal
) -> list[RehearsalContrast]:
    """The same looks on the broken and on the mended place, in two rehearsals that ended well.

    What a look tells has to be told in both: a unit that was just starting, once, tells nothing.
    Raises `DistillationError` when the fix holds only now and then.
    """
    wanted = list(dict.fromkeys(looks))
    commands = [*wanted, *(deed.command for deed in changes), SETTLE_COMMAND, *wanted]
    found: list[RehearsalContrast] = []
    for _ in range(MAX_REHEARSALS):
        rehearsed = await rehearse(commands)
        if rehearsed.solved:
            found.append(_build_contrast(wanted, len(changes), rehearsed.outputs))
        if len(found) == REQUIRED_REHEARSALS:
            return found
    raise DistillationError(
        f"of {MAX_REHEARSALS} rehearsals in fresh places the fix held in {len(found)}: that is too much luck"
    )


def _build_contrast(
    wanted: Sequence[str], changes: int, seen: Sequence[CommandOutput]
) -> RehearsalContrast:
    return RehearsalContrast(
        dict(zip(wanted, seen, strict=False)),
        dict(zip(wanted, seen[len(wanted) + changes + 1 :], strict=False)),
    )


_ERROR_WORDS = re.compile(
    r"error|fail|fatal|invalid|refus|denied|cannot|unable|missing|no such|not found|traceback|"
    r"exception|panic|full|exceeded|timed? ?out|unknown|corrupt|expired|must be",
    re.IGNORECASE,
)
_LOG_TIMESTAMP = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+|[A-Z][a-z]{2} +\d+ [\d:]+)\s*(?:\S+ \S+\[\d+\]:)?\s*"
)
_MAX_LINE_CHARS = 220
MAX_SIGNS_PER_KIND = 3


class DiagnosticSign(Value, kw_only=True, frozen=True):
    command: str
    pattern: str = ""
    """A line that must be there; empty when the exit code tells."""
    code: int | None = None
    gone_after_fix: bool = False
    """It is gone when the trouble is."""


def find_diagnostic_signs(
    story: VerifiedRun, given: Sequence[DistilledParameter], seen: Sequence[RehearsalContrast]
) -> list[DiagnosticSign]:
    """Looks that the diagnosis rests on, and looks that differ between broken and mended."""
    found: list[DiagnosticSign] = []
    evidence = set(story.diagnosis.evidence) if story.diagnosis else set()
    for look in story.checks_before:
        sign = (
            _find_diagnosed_sign(look, story, given)
            if look.seq in evidence or not evidence
            else None
        )
        sign = sign or _find_differing_sign(look, given, seen)
        if sign is not None and all(sign.command != other.command for other in found):
            found.append(sign)
    cause = [sign for sign in found if not sign.gone_after_fix][:MAX_SIGNS_PER_KIND]
    gone = [sign for sign in found if sign.gone_after_fix][:MAX_SIGNS_PER_KIND]
    kept = [*cause, *gone]
    return [sign for sign in found if sign in kept]


def _find_differing_sign(
    look: RunCommand, given: Sequence[DistilledParameter], seen: Sequence[RehearsalContrast]
) -> DiagnosticSign | None:
    """True of the run itself, true again of fresh broken places, and of no mended one."""
    before = [each.before[look.command] for each in seen if look.command in each.before]
    after = [each.after[look.command] for each in seen if look.command in each.after]
    if not seen or len(before) < len(seen) or len(after) < len(seen):
        return None
    for line in _rank_lines(before[0].output):
        pattern = _build_line_pattern(line, given)
        if (
            pattern
            and all(
                _pattern_matches(pattern, text)
                for text in (look.output, *(b.output for b in before))
            )
            and not any(_pattern_matches(pattern, each.output) for each in after)
        ):
            return DiagnosticSign(command=look.command, pattern=pattern, gone_after_fix=True)
    broken, mended = {each.code for each in before}, {each.code for each in after}
    if look.code is not None and broken == {look.code} and look.code not in mended:
        return DiagnosticSign(command=look.command, code=look.code, gone_after_fix=True)
    return None


def _pattern_matches(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.MULTILINE) is not None


def _find_diagnosed_sign(
    look: RunCommand, story: VerifiedRun, given: Sequence[DistilledParameter]
) -> DiagnosticSign | None:
    """The line with the value, or the words, that the diagnosis names."""
    diagnosis = story.diagnosis
    named = [diagnosis.value, *diagnosis.mechanism.split()] if diagnosis else []
    words = [word for word in named if len(word) >= 4]
    lines = _rank_lines(look.output)
    for line in sorted(lines, key=lambda line: -sum(word in line for word in words)):
        if _ERROR_WORDS.search(line) and (pattern := _build_line_pattern(line, given)):
            return DiagnosticSign(command=look.command, pattern=pattern)
    return None


def _rank_lines(output: str) -> list[str]:
    """Lines that speak of trouble first, the latest of them first."""
    lines = [_LOG_TIMESTAMP.sub("", line).strip() for line in output.splitlines()]
    usable = [line for line in lines if 4 <= len(line) <= _MAX_LINE_CHARS]
    return sorted(reversed(usable), key=lambda line: not _ERROR_WORDS.search(line))


def _build_line_pattern(line: str, given: Sequence[DistilledParameter]) -> str:
    """Empty for a line that is nothing but this case's own values."""
    pattern = generalize_text(line, given)
    plain = re.sub(r"\\S\+\?|\[.*?\]\+?|\\s\+|[^A-Za-z]", "", pattern)
    return pattern if len(plain) >= 4 and len(pattern) <= 480 else ""
