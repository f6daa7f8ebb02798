"""Many looks at once, each with a deadline of its own: in one shell, or, on this host, in none."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from shlex import quote

import anyio

from hermes.core.actions import Blocked, Profile
from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value
from hermes.core.protocols import ConfinesCommands, Environment
from hermes.sre.probes.admission import Vouched
from hermes.sre.probes.command import command_of
from hermes.sre.probes.kinds import native_units
from hermes.sre.probes.native import LOCAL, NativeLooks, can_ask
from hermes.sre.probes.probe import Probe

_GRACE = 3.0
_UNITS_TIMEOUT_S = 3.0
_TIMED_OUT = (124, 137)
_LONGEST = 800
_UNSEEN = "it is not run: the policy has not yet said that it only reads"
_BREAK = "\x1f"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")

# A subshell: nothing of it stays in the session that others share. Each answer is one write of
# less than a pipe takes at once, so that those of many cannot mix; the mark is new for each round,
# so that no log line can pass for an answer.
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


class Reading(Value, kw_only=True, frozen=True):
    """What one look brought. `code` is None when nothing came back."""

    probe: str
    code: int | None
    text: str = ""
    value: float | None = None
    keep: str = ""
    unasked: str = ""
    """Why it was not asked at all."""

    @property
    def timed_out(self) -> bool:
        return (self.code is None and not self.unasked) or self.code in _TIMED_OUT


class Refused(Value, kw_only=True, frozen=True):
    """What the kernel refused to one shell of probes."""

    probes: tuple[str, ...]
    judged: str
    what: Blocked


async def ask(
    environment: Environment,
    probes: Sequence[Probe],
    before: Mapping[str, str] | None = None,
    *,
    patience: float = 600.0,
    seats: int = 16,
    native: NativeLooks | None = None,
    refused: list[Refused] | None = None,
) -> dict[str, Reading]:
    """All of them, by name. `before`: what each kept the last time. `native` asks what needs no
    shell where the environment is this host; what it does not take goes through one shell for
    each profile. What the kernel refused them is added to `refused`.

    Raises `PlaceFailed`.
    """
    kept = {each.name: None if before is None else before.get(each.name, "") for each in probes}
    found = {
        each.name: Reading(probe=each.name, code=None, unasked=_UNSEEN)
        for each in probes
        if each.kind == "command" and not isinstance(each, Vouched)
    }
    looks = native or NativeLooks()

    async def look(probe: Probe) -> None:
        seconds = min(probe.timeout, patience)
        code, text, value, keep = await looks.ask(probe, kept[probe.name] or "", seconds)
        said = _CONTROL.sub(" ", text)[:_LONGEST]
        found[probe.name] = Reading(probe=probe.name, code=code, text=said, value=value, keep=keep)

    here = [each for each in probes if can_ask(environment, each, kept[each.name])]
    blocked: list[Refused] = [] if refused is None else refused
    found |= await _units_together(environment, probes)
    rest = [each for each in probes if each.name not in found and each not in here]
    failures: list[PlaceFailed] = []

    async def ask_group(profile: Profile | None, group: Sequence[Probe]) -> None:
        try:
            async with _held(environment, profile, group, blocked) as within:
                found.update(await _ask_shell(within, group, kept, patience, seats))
        except PlaceFailed as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        for each in here:
            tasks.start_soon(look, each)
        for profile, group in _by_profile(rest).items():
            tasks.start_soon(ask_group, profile, group)
    if failures:
        raise failures[0]
    return found


def _by_profile(probes: Sequence[Probe]) -> dict[Profile | None, list[Probe]]:
    found: dict[Profile | None, list[Probe]] = {}
    for each in probes:
        found.setdefault(_profile(each), []).append(each)
    return found


def _profile(probe: Probe) -> Profile | None:
    return probe.profile if isinstance(probe, Vouched) else None


@asynccontextmanager
async def _held(
    environment: Environment,
    profile: Profile | None,
    probes: Sequence[Probe],
    refused: list[Refused],
) -> AsyncIterator[Environment]:
    """The environment, held to the profile."""
    if profile is None or not isinstance(environment, ConfinesCommands):
        yield environment
        return
    names = tuple(each.name for each in probes)
    async with environment.confined(profile) as within:
        yield within
        refused += [
            Refused(probes=names, judged=profile.judged, what=each) for each in within.collect()
        ]


async def _units_together(environment: Environment, probes: Sequence[Probe]) -> dict[str, Reading]:
    """Several units of this host are one question; a manager that hangs leaves them to the rest."""
    units = [each for each in probes if each.kind == "unit"]
    if environment.name != LOCAL or len(units) < 2:
        return {}
    question, profiles = native_units.question(units), {_profile(each) for each in units}
    profile = profiles.pop() if len(profiles) == 1 else None
    async with _held(environment, profile, units, []) as within:
        result = await within.run(question, timeout=_UNITS_TIMEOUT_S, cwd="/")
    return {
        name: Reading(probe=name, code=code, text=text[:_LONGEST], value=value)
        for name, (code, text, value, _) in native_units.judged(units, result.output).items()
    }


async def _ask_shell(
    environment: Environment,
    probes: Sequence[Probe],
    kept: Mapping[str, str | None],
    patience: float,
    seats: int,
) -> dict[str, Reading]:
    mark = secrets.token_hex(8)
    looks, longest = [], 0.0
    for number, probe in enumerate(probes):
        seconds = min(probe.timeout, patience)
        longest = max(longest, seconds)
        looks.append(f"s {number} {seconds:g} {quote(command_of(probe, kept[probe.name]))}")
    script = _SCRIPT.replace("MARK", mark).replace("SEATS", str(seats))
    script = script.replace("LONGEST", str(_LONGEST)).replace("LOOKS", "\n".join(looks))
    waves = 1 + len(probes) // seats
    result = await environment.run(script, timeout=longest * waves + _GRACE, cwd="/")
    found = dict(_answers(result.output, mark, probes))
    if not found and len(probes) > 1:
        raise PlaceFailed(f"{environment.target} did not run a single look: {result.output[-200:]}")
    return {
        probe.name: found.get(probe.name, Reading(probe=probe.name, code=None)) for probe in probes
    }


def _answers(output: str, mark: str, probes: Sequence[Probe]) -> list[tuple[str, Reading]]:
    found = []
    for line in re.findall(rf"^{mark} (\d+ \d+ .*)$", output, re.MULTILINE):
        number, code, text = line.split(" ", 2)
        probe = probes[int(number)]
        found.append((probe.name, _reading(probe.name, int(code), text)))
    return found


def _reading(name: str, code: int, text: str) -> Reading:
    value, keep, words = None, "", []
    for line in text.split(_BREAK):
        if line.startswith("keep="):
            keep = line.removeprefix("keep=")
            continue
        if number := re.match(r"value=(-?\d+(?:\.\d+)?)\b", line):
            value = float(number[1])
            line = line.removeprefix("value=")
        words.append(_CONTROL.sub(" ", line).strip())
    said = "; ".join(filter(None, words))
    return Reading(probe=name, code=code, text=said, value=value, keep=keep)
