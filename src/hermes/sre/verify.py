"""Whether it is fixed, said by checks that the fixer has no hand in.

What failed before must pass, what passed before must still pass, for a whole window, and after
what set the trouble off was set off again: that tells a cure from relief.
"""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from hermes.core.events.incidents import IncidentChecked, IncidentVerified, Moment
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import ended
from hermes.skills.playbook.schema import Check
from hermes.sre.case import Case
from hermes.sre.eyes import Eyes
from hermes.sre.ground import Ground
from hermes.sre.looking import Seen, look_at_all

TOOL = "terminal"


@dataclass(frozen=True)
class Baseline:
    """How everything was before anything was changed, and the eyes that saw it."""

    eyes: Eyes
    failing: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    """What could not be asked then tells nothing later."""
    proposed: tuple[Check, ...] = ()
    """Checks of those who mend it; they count because they were seen to fail."""

    def plus(self, check: Check) -> "Baseline":
        failing = self.failing | {check.name}
        return replace(self, proposed=(*self.proposed, check), failing=failing)


class Proof(Value, kw_only=True, frozen=True):
    ok: bool
    helped: bool = False
    """Some of what failed passes now, and nothing is worse: worth keeping, not yet enough."""
    regressed: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    """What still fails: the name of each check, and what it saw."""
    why: str = ""


async def take_baseline(ground: Ground, case: Case, earlier: frozenset[str] | None) -> Baseline:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked."""
    eyes = await ground.eyes(case)
    if earlier is not None:
        return Baseline(eyes=eyes, failing=earlier)
    seen = await eyes()
    await _tell(ground, case, seen, "before", 0)
    return Baseline(
        eyes=eyes,
        failing=frozenset(each.check for each in seen if not each.ok and not each.unknown),
        unseen=frozenset(each.check for each in seen if each.unknown),
    )


async def verify(
    ground: Ground,
    case: Case,
    baseline: Baseline,
    attempt: int,
    *,
    triggers: Sequence[str] = (),
    why_not: str = "",
) -> Proof:
    """`why_not`: the fixer itself found that it did not help; then one look is enough."""
    began, settings = time.monotonic(), ground.settings.verify
    seen = await _until_well(ground, case, baseline, 0.0 if why_not else settings.patience)
    await _tell(ground, case, seen, "after", attempt)
    trigger = ""
    if not why_not and _well(seen) and settings.trigger and triggers:
        trigger = await _set_off(ground, case, triggers)
        seen = await _until_well(ground, case, baseline, settings.patience)
        await _tell(ground, case, seen, "trigger", attempt)
    if not why_not and _well(seen):
        seen = await _hold(ground, case, baseline, settings.window)
        await _tell(ground, case, [each for each in seen if not each.ok], "after", attempt)
    proof = _proof(baseline, seen, why_not)
    await ground.bus.publish(
        IncidentVerified(
            run=case.run,
            incident=case.incident,
            ok=proof.ok,
            checks=tuple(f"{each.check}: {each.detail}" for each in seen),
            seconds=round(time.monotonic() - began, 3),
            attempt=attempt,
            trigger=trigger,
            kept=proof.helped,
        )
    )
    return proof


async def healed(ground: Ground, case: Case, baseline: Baseline) -> bool:
    """What failed passes by itself, and goes on to for a whole window."""
    if not baseline.failing or not _well(await _look(ground, case, baseline)):
        return False
    seen = await _hold(ground, case, baseline, ground.settings.verify.window)
    await _tell(ground, case, seen, "after", 0)
    return _well(seen)


def _proof(baseline: Baseline, seen: Sequence[Seen], why_not: str) -> Proof:
    bad = [each for each in seen if not each.ok]
    worse = tuple(each.check for each in bad if each.check not in baseline.failing)
    passing = {each.check for each in seen if each.ok}
    helped = bool(baseline.failing & passing) and not worse and not why_not
    if not bad and not why_not:
        return Proof(ok=True)
    words = [f"{each.check}: {each.detail}" for each in bad[:5]]
    return Proof(
        ok=False, helped=helped, regressed=worse, why="; ".join([why_not, *words]).strip("; ")
    )


def _well(seen: Sequence[Seen]) -> bool:
    return all(each.ok for each in seen)


async def _until_well(
    ground: Ground, case: Case, baseline: Baseline, patience: float
) -> tuple[Seen, ...]:
    settings, deadline = ground.settings.verify, time.monotonic() + patience
    pause = min(0.2, settings.every)
    while True:
        seen = await _look(ground, case, baseline)
        if _well(seen) or time.monotonic() >= deadline:
            return seen
        await anyio.sleep(pause)
        pause = min(pause * 1.5, settings.every)


async def _hold(ground: Ground, case: Case, baseline: Baseline, window: float) -> tuple[Seen, ...]:
    every, deadline = ground.settings.verify.every, time.monotonic() + window
    while True:
        seen = await _look(ground, case, baseline)
        left = deadline - time.monotonic()
        if not _well(seen) or left <= 0:
            return seen
        await anyio.sleep(min(every, left))


async def _look(ground: Ground, case: Case, baseline: Baseline) -> tuple[Seen, ...]:
    seen = [each for each in await baseline.eyes() if each.check not in baseline.unseen]
    if baseline.proposed:
        timeout = ground.settings.verify.timeout
        seen += await look_at_all(baseline.proposed, ground.road(case.run), timeout=timeout)
    return tuple(seen)


async def _tell(
    ground: Ground, case: Case, seen: Sequence[Seen], when: Moment, attempt: int
) -> None:
    await ground.bus.publish(*(_checked(case, each, when, attempt) for each in seen))


async def _set_off(ground: Ground, case: Case, triggers: Sequence[str]) -> str:
    """What was set off, and what may not be: a rule that says no is no reason to call it cured."""
    said = []
    for command in triggers:
        call = ToolCall(new_id("trigger"), TOOL, {"command": command, "timeout": 30.0})
        end = ended(await ground.road(case.run)(call), command, 0.0)
        said.append(command if end.status == "ok" else f"not set off: {command}")
    return "; ".join(said)


def restarts(units: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"systemctl restart {shlex.quote(unit)}" for unit in units)


def _checked(case: Case, seen: Seen, when: Moment, attempt: int) -> IncidentChecked:
    return IncidentChecked(
        run=case.run,
        incident=case.incident,
        check=seen.check,
        ok=seen.ok,
        detail=seen.detail,
        when=when,
        attempt=attempt,
        unknown=seen.unknown,
    )
