"""Repeats a fix on fresh hosts, to drop unneeded changes and find signs of the problem."""

import errno
import os
import re
from collections.abc import Awaitable, Callable, Sequence

from hermes.core.messages import Value
from hermes.skills.distill.literals import DistilledParameter, generalize_text
from hermes.skills.distill.verified_run import DistillationError, RunCommand, VerifiedRun

SETTLE_COMMAND = "sleep 1"
"""Runs between the last change and the checks: services need a moment to start."""
REQUIRED_REHEARSALS, MAX_REHEARSALS = 2, 3
"""Rehearsals in which the fix must hold, and how many are run at most."""


class CommandOutput(Value, frozen=True):
    code: int | None
    output: str


class RehearsalResult(Value, kw_only=True, frozen=True):
    solved: bool
    """According to the checks of the host, not to the commands."""
    outputs: tuple[CommandOutput, ...] = ()


RunRehearsal = Callable[[Sequence[str]], Awaitable[RehearsalResult]]
"""Runs commands in sequence on a fresh host with the same problem."""


class RehearsalContrast(Value, frozen=True):
    """The output of each check on the broken and on the fixed host."""

    before: dict[str, CommandOutput]
    after: dict[str, CommandOutput]


async def reduce_changes(
    changes: Sequence[RunCommand], run_rehearsal: RunRehearsal
) -> list[RunCommand]:
    """The changes without which the fix does not hold.

    A restart after another change stays: the unit may have come up in time only by chance.
    Raises `DistillationError` when the fix does not hold with all changes.
    """
    kept = list(changes)
    if not await check_fix_holds(kept, run_rehearsal):
        raise DistillationError(
            "the fix does not hold when it is repeated on a fresh host: something else mattered too"
        )
    for change in list(kept):
        fewer = [other for other in kept if other is not change]
        if change.restarts and fewer and fewer[0].seq < change.seq:
            continue
        if fewer and await check_fix_holds(fewer, run_rehearsal):
            kept = fewer
    return kept


async def check_fix_holds(changes: Sequence[RunCommand], run_rehearsal: RunRehearsal) -> bool:
    """Two rehearsals decide; when they differ, a third one."""
    commands = [change.command for change in changes]
    first = (await run_rehearsal(commands)).solved
    second = (await run_rehearsal(commands)).solved
    return first if first == second else (await run_rehearsal(commands)).solved


async def compare_before_after(
    checks: Sequence[str], changes: Sequence[RunCommand], run_rehearsal: RunRehearsal
) -> list[RehearsalContrast]:
    """The same checks on the broken and on the fixed host, in two successful rehearsals.

    A sign must appear in both: a unit that is just starting may look broken once.
    Raises `DistillationError` when the fix holds too rarely.
    """
    checks = list(dict.fromkeys(checks))
    commands = [*checks, *(change.command for change in changes), SETTLE_COMMAND, *checks]
    found: list[RehearsalContrast] = []
    for _ in range(MAX_REHEARSALS):
        rehearsal = await run_rehearsal(commands)
        if rehearsal.solved:
            outputs = rehearsal.outputs
            after = outputs[len(checks) + len(changes) + 1 :]
            pairs = (dict(zip(checks, each, strict=False)) for each in (outputs, after))
            found.append(RehearsalContrast(*pairs))
        if len(found) == REQUIRED_REHEARSALS:
            return found
    raise DistillationError(
        f"the fix held in {len(found)} of {MAX_REHEARSALS} rehearsals on fresh hosts; "
        f"it has to hold in {REQUIRED_REHEARSALS}"
    )


_ERROR_WORDS = re.compile(
    r"error|fail|fatal|invalid|refus|denied|cannot|unable|missing|no such|not found|traceback|"
    r"exception|panic|full|exceeded|timed? ?out|unknown|corrupt|expired|must be",
    re.IGNORECASE,
)
_LOG_TIMESTAMP = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+|[A-Z][a-z]{2} +\d+ [\d:]+)\s*(?:\S+ \S+\[\d+\]:)?\s*"
)
_LOG_DECORATION = re.compile(
    r"^(?:[\[<(|\s]*(?:level=|severity=)?(?:FATAL|CRITICAL|ERROR|WARN(?:ING)?|INFO|DEBUG)\b[\]>):|\s]*"
    r"|[\[(]?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?[\])]?[|:\s]*"
    r"|(?:ts|time)=\S*(?: [\d:.,]+\")?\s*|(?:msg|message)=\"?)+"
    r"|\"$|\s*\(\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\)$"
)
"""Level and time around a message: other services write them in another form."""
_SYSTEM_ERROR = re.compile(
    "|".join(sorted({re.escape(os.strerror(n)) for n in errno.errorcode if " " in os.strerror(n)}))
)
"""The words of the system are the same in all programs, unlike what stands around them."""
_MAX_LINE_CHARS = 220
MAX_SIGNS_PER_KIND = 3


class DiagnosticSign(Value, kw_only=True, frozen=True):
    command: str
    pattern: str = ""
    """A line that must match; empty when the exit code is the sign."""
    code: int | None = None
    gone_after_fix: bool = False
    """It disappears with the problem."""


def find_diagnostic_signs(
    run: VerifiedRun,
    parameters: Sequence[DistilledParameter],
    contrasts: Sequence[RehearsalContrast],
) -> list[DiagnosticSign]:
    """Checks that support the diagnosis, and checks that differ between broken and fixed."""
    found: list[DiagnosticSign] = []
    states = {check.command for check in run.checks_before if _is_state(check)}
    evidence = set(run.diagnosis.evidence) if run.diagnosis else set()
    for check in run.checks_before:
        relevant = check.seq in evidence or not evidence
        sign = _find_diagnosed_sign(check, run, parameters) if relevant else None
        sign = sign or _find_differing_sign(check, parameters, contrasts)
        if sign is not None and all(sign.command != other.command for other in found):
            found.append(sign)
    lines = [sign for sign in found if sign.command not in states]
    found = lines or found
    cause = [sign for sign in found if not sign.gone_after_fix][:MAX_SIGNS_PER_KIND]
    gone = [sign for sign in found if sign.gone_after_fix][:MAX_SIGNS_PER_KIND]
    kept = [*cause, *gone]
    return [sign for sign in found if sign in kept]


def _find_differing_sign(
    check: RunCommand,
    parameters: Sequence[DistilledParameter],
    contrasts: Sequence[RehearsalContrast],
) -> DiagnosticSign | None:
    """True in the run itself and on fresh broken hosts, but on no fixed one."""
    before = [each.before[check.command] for each in contrasts if check.command in each.before]
    after = [each.after[check.command] for each in contrasts if check.command in each.after]
    if not contrasts or len(before) < len(contrasts) or len(after) < len(contrasts):
        return None
    broken_texts = [check.output, *(each.output for each in before)]
    broken, fixed = {each.code for each in before}, {each.code for each in after}
    by_code = check.code is not None and broken == {check.code} and check.code not in fixed
    for line in () if by_code and _is_state(check) else _rank_lines(before[0].output):
        text = _build_line_pattern(line, parameters)
        pattern = re.compile(text, re.MULTILINE)
        fixed_too = any(pattern.search(each.output) for each in after)
        if text and not fixed_too and all(map(pattern.search, broken_texts)):
            return DiagnosticSign(command=check.command, pattern=text, gone_after_fix=True)
    if by_code:
        return DiagnosticSign(command=check.command, code=check.code, gone_after_fix=True)
    return None


def _is_state(check: RunCommand) -> bool:
    """A single word, which may be another one while a service is restarted."""
    return bool(check.code) and len(check.output.split()) == 1


def _find_diagnosed_sign(
    check: RunCommand, run: VerifiedRun, parameters: Sequence[DistilledParameter]
) -> DiagnosticSign | None:
    """The line with the value or the words of the diagnosis."""
    diagnosis = run.diagnosis
    named = [diagnosis.value, *diagnosis.mechanism.split()] if diagnosis else []
    words = [word for word in named if len(word) >= 4]
    lines = [] if _is_state(check) else _rank_lines(check.output)
    for line in sorted(lines, key=lambda line: -sum(word in line for word in words)):
        if _ERROR_WORDS.search(line) and (pattern := _build_line_pattern(line, parameters)):
            return DiagnosticSign(command=check.command, pattern=pattern)
    return None


def _rank_lines(output: str) -> list[str]:
    """Lines with words of the system first, then those with error words, the latest of them
    first."""
    lines = [_LOG_TIMESTAMP.sub("", line).strip() for line in output.splitlines()]
    usable = [line for line in lines if 4 <= len(line) <= _MAX_LINE_CHARS]
    return sorted(
        reversed(usable),
        key=lambda line: (not _SYSTEM_ERROR.search(line), not _ERROR_WORDS.search(_message(line))),
    )


def _message(line: str) -> str:
    return _LOG_DECORATION.sub("", line)


def _build_line_pattern(line: str, parameters: Sequence[DistilledParameter]) -> str:
    """Empty for a line that has only values of this incident."""
    if system := _SYSTEM_ERROR.search(line):
        return re.escape(system[0])
    message = _message(line)
    pattern = generalize_text(message if _ERROR_WORDS.search(message) else line, parameters)
    plain = re.sub(r"\\S\+\?|\[.*?\]\+?|\\s\+|[^A-Za-z]", "", pattern)
    return pattern if len(plain) >= 4 and len(pattern) <= 480 else ""
