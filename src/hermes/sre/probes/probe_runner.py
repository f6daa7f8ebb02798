"""Runs many probes at once, each with its own timeout: natively on this host, else in one shell."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from shlex import quote

import anyio

from hermes.core.actions import BlockedAccess, ConfinementProfile
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.messages import Value
from hermes.core.protocols import ConfinesCommands, Environment
from hermes.sre.probes.admission import AdmittedProbe
from hermes.sre.probes.answer_facts import AnswerFacts
from hermes.sre.probes.kinds import native_services
from hermes.sre.probes.native import (
    LOCAL_ENVIRONMENT,
    NativeProbes,
    can_run_natively,
    overload_factor,
)
from hermes.sre.probes.probe import Probe, shell_command_of

_TIMEOUT_GRACE_S = 3.0
_UNITS_TIMEOUT_S = 3.0
_TIMEOUT_EXIT_CODES = (124, 137)
_MAX_OUTPUT_CHARS = 800
_NOT_ADMITTED = "it is not run: the policy has not admitted it as read-only"
_LINE_SEPARATOR = "\x1f"
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]"
)

# A subshell, so that nothing remains in the shared session. Each answer is one write of less than
# the atomic size of a pipe, so that answers cannot mix; the mark is random, so that no log line can
# look like an answer.
_SCRIPT = r"""(
p() {
  o=$(timeout -k 1 "$2" bash -c "$3" 2>&1 </dev/null); c=$?
  o=${o:0:LONGEST}; printf 'MARK %s %s %s\n' "$1" "$c" "${o//$'\n'/$'\x1f'}"
}
n=0
s() { p "$@" & n=$((n + 1)); if [ "$n" -ge SEATS ]; then wait -n; n=$((n - 1)); fi; }
LOOKS
wait
) 2>/dev/null
"""


class ProbeResult(Value, kw_only=True, frozen=True):
    """The result of one probe. `code` is None when there was no answer."""

    probe: str
    code: int | None
    text: str = ""
    value: float | None = None
    keep: str = ""
    not_run_reason: str = ""
    """Why it was not run."""
    facts: AnswerFacts | None = None
    """http, on this host: what the answer looked like."""

    @property
    def timed_out(self) -> bool:
        return (self.code is None and not self.not_run_reason) or self.code in _TIMEOUT_EXIT_CODES


class KernelRefusal(Value, kw_only=True, frozen=True):
    """What the kernel refused to one shell of probes."""

    probes: tuple[str, ...]
    judged: str
    blocked: BlockedAccess


async def run_probes(
    environment: Environment,
    probes: Sequence[Probe],
    before: Mapping[str, str] | None = None,
    *,
    max_timeout_s: float = 600.0,
    concurrency: int = 16,
    native: NativeProbes | None = None,
    refused: list[KernelRefusal] | None = None,
) -> dict[str, ProbeResult]:
    """The results by name. `before`: what each probe kept from its last run. `native` runs probes
    that need no shell on this host; the others run in one shell for each profile. Accesses that the
    kernel refused are added to `refused`.

    Raises `EnvironmentFailed`.
    """
    kept = {each.name: None if before is None else before.get(each.name, "") for each in probes}
    found = {
        each.name: ProbeResult(probe=each.name, code=None, not_run_reason=_NOT_ADMITTED)
        for each in probes
        if each.runs_foreign_command and not isinstance(each, AdmittedProbe)
    }
    native_probes = native or NativeProbes()

    async def run_natively(probe: Probe) -> None:
        seconds = min(probe.timeout, max_timeout_s)
        code, text, value, keep = await native_probes.run(probe, kept[probe.name] or "", seconds)
        text = _CONTROL_CHARACTERS.sub(" ", text)[:_MAX_OUTPUT_CHARS]
        found[probe.name] = ProbeResult(
            probe=probe.name,
            code=code,
            text=text,
            value=value,
            keep=keep,
            facts=native_probes.answers.pop(probe.name, None),
        )

    here = [each for each in probes if can_run_natively(environment, each, kept[each.name])]
    blocked: list[KernelRefusal] = [] if refused is None else refused
    found |= await _run_unit_probes(environment, probes)
    rest = [each for each in probes if each.name not in found and each not in here]
    failures: list[EnvironmentFailed] = []

    async def ask_group(profile: ConfinementProfile | None, group: Sequence[Probe]) -> None:
        try:
            async with _confined_environment(environment, profile, group, blocked) as within:
                found.update(await _run_in_shell(within, group, kept, max_timeout_s, concurrency))
        except EnvironmentFailed as error:
            failures.append(error)
        except ToolError as error:  # refused, such as for a path that leads elsewhere now
            for each in group:
                found[each.name] = ProbeResult(
                    probe=each.name, code=None, not_run_reason=f"it was not run: {error}"
                )

    async with anyio.create_task_group() as tasks:
        for each in here:
            tasks.start_soon(run_natively, each)
        for profile, group in _by_profile(rest).items():
            tasks.start_soon(ask_group, profile, group)
    if failures:
        raise failures[0]
    return found


def _by_profile(probes: Sequence[Probe]) -> dict[ConfinementProfile | None, list[Probe]]:
    found: dict[ConfinementProfile | None, list[Probe]] = {}
    for each in probes:
        found.setdefault(_profile(each), []).append(each)
    return found


def _profile(probe: Probe) -> ConfinementProfile | None:
    return probe.profile if isinstance(probe, AdmittedProbe) else None


@asynccontextmanager
async def _confined_environment(
    environment: Environment,
    profile: ConfinementProfile | None,
    probes: Sequence[Probe],
    refused: list[KernelRefusal],
) -> AsyncIterator[Environment]:
    if profile is None or not isinstance(environment, ConfinesCommands):
        yield environment
        return
    names = tuple(each.name for each in probes)
    async with environment.confined(profile) as within:
        yield within
        refused += [
            KernelRefusal(probes=names, judged=profile.describe, blocked=each)
            for each in within.collect()
        ]


async def _run_unit_probes(
    environment: Environment, probes: Sequence[Probe]
) -> dict[str, ProbeResult]:
    """Query all units of this host at once; without an answer they are probed one by one."""
    units = [each for each in probes if each.kind == "unit"]
    if environment.name != LOCAL_ENVIRONMENT or len(units) < 2:
        return {}
    question, profiles = native_services.units_command(units), {_profile(each) for each in units}
    profile = profiles.pop() if len(profiles) == 1 else None
    try:
        async with _confined_environment(environment, profile, units, []) as within:
            result = await within.run(question, timeout=_UNITS_TIMEOUT_S, cwd="/")
    except ToolError:
        return {}
    return {
        name: ProbeResult(probe=name, code=code, text=text[:_MAX_OUTPUT_CHARS], value=value)
        for name, (code, text, value, _) in native_services.judge_units(
            units, result.output
        ).items()
    }


async def _run_in_shell(
    environment: Environment,
    probes: Sequence[Probe],
    kept: Mapping[str, str | None],
    max_timeout_s: float,
    concurrency: int,
) -> dict[str, ProbeResult]:
    mark = secrets.token_hex(8)
    commands, longest = [], 0.0
    factor = overload_factor() if environment.name == LOCAL_ENVIRONMENT else 1.0
    for number, probe in enumerate(probes):
        seconds = min(probe.timeout, max_timeout_s) * factor
        longest = max(longest, seconds)
        commands.append(
            f"s {number} {seconds:g} {quote(shell_command_of(probe, kept[probe.name]))}"
        )
    script = _SCRIPT.replace("MARK", mark).replace("SEATS", str(concurrency))
    script = script.replace("LONGEST", str(_MAX_OUTPUT_CHARS)).replace("LOOKS", "\n".join(commands))
    waves = 1 + len(probes) // concurrency
    result = await environment.run(script, timeout=longest * waves + _TIMEOUT_GRACE_S, cwd="/")
    found = dict(_parse_answers(result.output, mark, probes))
    if not found and len(probes) > 1:
        raise EnvironmentFailed(f"{environment.target} ran no probe: {result.output[-200:]}")
    return {
        probe.name: found.get(probe.name, ProbeResult(probe=probe.name, code=None))
        for probe in probes
    }


def _parse_answers(
    output: str, mark: str, probes: Sequence[Probe]
) -> list[tuple[str, ProbeResult]]:
    found = []
    for line in re.findall(rf"^{mark} (\d+ \d+ .*)$", output, re.MULTILINE):
        number, code, text = line.split(" ", 2)
        probe = probes[int(number)]
        found.append((probe.name, _parse_result(probe.name, int(code), text)))
    return found


def _parse_result(name: str, code: int, text: str) -> ProbeResult:
    value, keep, words = None, "", []
    for line in text.split(_LINE_SEPARATOR):
        if line.startswith("keep="):
            keep = line.removeprefix("keep=")
            continue
        if number := re.match(r"value=(-?\d+(?:\.\d+)?)\b", line):
            value = float(number[1])
            line = line.removeprefix("value=")
        words.append(_CONTROL_CHARACTERS.sub(" ", line).strip())
    joined = "; ".join(filter(None, words))
    return ProbeResult(probe=name, code=code, text=joined, value=value, keep=keep)
