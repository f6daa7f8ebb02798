"""Whether it is fixed, said by checks that the fixer has no hand in.

What failed before must pass, what passed before must still pass, for a window as long as the
symptom's own rhythm, and after the trigger was set off again: that tells a cure from relief. One of
the checks must have seen the symptom before, and must not depend on what the fixer did; without
such evidence nothing is called fixed or recovered.
"""

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from hermes.core.events.incidents import AlertRaised, IncidentChecked, IncidentVerified, Moment
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.skills.playbook.ending import ended
from hermes.skills.playbook.schema import Check
from hermes.sre.by_the_book import ByTheBook
from hermes.sre.case import Case
from hermes.sre.eyes import Eyes
from hermes.sre.ground import Ground
from hermes.sre.looking import Seen, look_at_all
from hermes.sre.rhythm import (
    MARGIN,
    OUTLIVED_S,
    UNHELPED_WINDOWS,
    Rhythm,
    Runs,
    earlier_runs,
    period_s,
    share_of,
)

TOOL = "terminal"
NO_EVIDENCE = "no check that saw the symptom before can show that it is gone"


@dataclass(frozen=True)
class Baseline:
    """How everything was before anything was changed, and the eyes that saw it."""

    eyes: Eyes
    failing: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    """Checks that failed and would pass after a restart or an edit, whatever the cause."""
    counters: frozenset[str] = frozenset()
    """Those of them that count restarts."""
    unseen: frozenset[str] = frozenset()
    """What could not be asked then tells nothing later."""
    samples: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """How often each check failed, and how often it was asked."""
    proposed: tuple[Check, ...] = ()
    """Checks of models; they count because they were seen to fail."""
    symptoms: tuple[Check, ...] = ()
    """The same of playbooks, written by their authors."""

    @property
    def evidence(self) -> frozenset[str]:
        """Checks that saw the symptom and do not depend on what a fixer does."""
        return self.failing - self.weak

    def plus(self, check: Check) -> "Baseline":
        failing = self.failing | {check.name}
        return replace(self, proposed=(*self.proposed, check), failing=failing)

    def with_symptoms(self, checks: Sequence[Check]) -> "Baseline":
        failing = self.failing | {check.name for check in checks}
        return replace(self, symptoms=(*self.symptoms, *checks), failing=failing)

    def after_look(self, seen: Sequence[Seen]) -> "Baseline":
        """With one look more, still before anything was changed."""
        failed = {each.check for each in seen if not each.ok and not each.unknown}
        samples = dict(self.samples)
        for each in seen:
            times, looks = samples.get(each.check, (0, 0))
            samples[each.check] = (times + (each.check in failed), looks + 1)
        weak = {each.check for each in seen if each.check in failed and not each.proves}
        return replace(
            self,
            failing=self.failing | failed,
            weak=self.weak | (weak - (self.failing - self.weak)),
            counters=self.counters | {each.check for each in seen if each.counter},
            unseen=self.unseen | {each.check for each in seen if each.unknown},
            samples=samples,
        )


class Proof(Value, kw_only=True, frozen=True):
    ok: bool
    """All is well, and evidence shows it."""
    helped: bool = False
    """What this attempt was about passes now, by evidence, and nothing is worse: it stays."""
    regressed: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    """What still fails: the name of each check, and what it saw."""
    evidence: tuple[str, ...] = ()
    """Checks that failed before, pass now, and do not depend on what the fixer did."""
    unseen: bool = False
    """All that was asked passes, but nothing that was asked saw the symptom."""
    why: str = ""


class Watched(Value, kw_only=True, frozen=True):
    """What came of watching a host on which nothing was changed."""

    well: bool
    checks: tuple[str, ...] = ()
    """Those that observe the symptom and passed all the time."""
    evidence: tuple[int, ...] = ()
    """Numbers of the events that show it."""
    seconds: float = 0.0
    returned: bool = False
    """A check failed, or the alert fired, while it was watched."""
    why: str = ""
    """What could not be seen, or failed again."""


async def take_baseline(
    ground: Ground, case: Case, earlier: frozenset[str] | None, weak: frozenset[str] = frozenset()
) -> Baseline:
    """`earlier` are the checks that failed when a life of ours that ended too soon looked."""
    eyes = await ground.eyes(case)
    if earlier is not None:
        return Baseline(eyes=eyes, failing=earlier, weak=weak)
    seen = await eyes()
    await _publish(ground, case, seen, "before", 0)
    return Baseline(eyes=eyes).after_look(seen)


async def look_once_more(ground: Ground, case: Case, baseline: Baseline) -> Baseline:
    """A further sample: a symptom that comes and goes is seen by some looks only."""
    more = baseline.after_look(seen := await baseline.eyes())
    fresh = more.failing - baseline.failing
    await _publish(ground, case, [each for each in seen if each.check in fresh], "before", 0)
    return more


async def verify(
    ground: Ground,
    case: Case,
    baseline: Baseline,
    attempt: int,
    *,
    triggers: Sequence[str] = (),
    why_not: str = "",
    concerns: str = "",
    restarted: Sequence[str] = (),
) -> Proof:
    """`why_not`: the fixer itself found that it did not help; then one look is enough. `concerns`:
    the component that the attempt was about. `restarted`: units that the fixer restarted."""
    began, settings = time.monotonic(), ground.settings.verify
    seen = await _until_well(ground, case, baseline, 0.0 if why_not else settings.patience)
    await _publish(ground, case, seen, "after", attempt)
    trigger = ""
    if not why_not and _well(seen) and settings.trigger and triggers:
        trigger = await _set_off(ground, case, triggers)
        seen = await _until_well(ground, case, baseline, settings.patience)
        await _publish(ground, case, seen, "trigger", attempt)
    if not why_not and _well(seen):
        runs = await _earlier_runs(ground, case, restarted)
        rhythm = await _rhythm(ground, case, baseline, runs.onset_s)
        seen = await _hold(ground, case, baseline, rhythm.window_s(settings))
        if runs.life_s and _well(seen) and baseline.counters and not _evidence(baseline, seen):
            # It ended again and again: that it lives longer than before is what can be seen.
            seen = await _hold(ground, case, baseline, MARGIN * runs.life_s + settings.every)
            baseline = replace(baseline, weak=baseline.weak - baseline.counters)
        await _publish(ground, case, [each for each in seen if not each.ok], "after", attempt)
    proof = _proof(baseline, seen, why_not, concerns)
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


async def watch_recovery(ground: Ground, case: Case, baseline: Baseline) -> Watched:
    """Nothing was changed, and it may be over: do checks that observe the symptom pass for as long
    as it takes to see it come back?"""
    settings = ground.settings.verify
    rhythm = await _rhythm(ground, case, baseline)
    needed = rhythm.unhelped_s(settings)
    first = await _look(ground, case, baseline)
    observing = _observing(case, baseline, first)
    if not observing:
        return Watched(well=False, why="no check observes what the alert is about")
    if not _well(first):
        return Watched(well=False, returned=True, why=_words(first))
    if needed > max(settings.longest_window, UNHELPED_WINDOWS * settings.window):
        why = f"the symptom returns after up to {rhythm.period_s:.0f} s: longer than it is watched"
        return Watched(well=False, checks=observing, why=why)
    heard, began = await ground.bus.journal.last(), time.monotonic()
    seen = await _hold(ground, case, baseline, needed)
    numbers = await _publish(ground, case, seen, "after", 0)
    why = _words(seen) or await _rang_again(ground, case, heard)
    return Watched(
        well=not why,
        returned=bool(why),
        checks=observing,
        evidence=tuple(
            number for number, each in zip(numbers, seen, strict=True) if each.check in observing
        ),
        seconds=time.monotonic() - began,
        why=why,
    )


def _observing(case: Case, baseline: Baseline, seen: Sequence[Seen]) -> tuple[str, ...]:
    """Checks that saw the symptom; where none did, those of the service that the alert names."""
    passing = [each for each in seen if each.proves and not each.unknown]
    if baseline.failing:
        return tuple(each.check for each in passing if each.check in baseline.evidence)
    return tuple(each.check for each in passing if concerns(each, case.service))


def concerns(seen: Seen, component: str) -> bool:
    """Whether a check is about this component: by its service, or by its name."""
    name = component.removesuffix(".service")
    if not name:
        return False
    return seen.service == name or seen.check == name or seen.check.endswith(f"-{name}")


async def _rang_again(ground: Ground, case: Case, heard: int) -> str:
    async for recorded in ground.bus.journal.read(after=heard, kinds=("alert.raised",)):
        event = recorded.event
        same = isinstance(event, AlertRaised) and event.fingerprint == case.fingerprint
        if case.fingerprint and same and not getattr(event, "resolved", False):
            return "the alert fired again while it was watched"
    return ""


async def _earlier_runs(ground: Ground, case: Case, restarted: Sequence[str]) -> Runs:
    longest = max(ground.settings.verify.longest_window, OUTLIVED_S)
    return await earlier_runs(ground.road(case.run), restarted, longest)


async def _rhythm(ground: Ground, case: Case, baseline: Baseline, onset: float = 0.0) -> Rhythm:
    found = [baseline.samples[name] for name in baseline.evidence if name in baseline.samples]
    steady = any(check.name in baseline.evidence for check in baseline.symptoms)
    share = 1.0 if steady and not found else share_of(found)
    if share >= 1.0:
        return Rhythm(share=share, onset_s=onset)
    period = await period_s(ground.bus.journal, case.fingerprint)
    return Rhythm(share=share, period_s=period, onset_s=onset)


def _proof(baseline: Baseline, seen: Sequence[Seen], why_not: str, component: str) -> Proof:
    bad = [each for each in seen if not each.ok]
    lost = baseline.failing - {each.check for each in seen} - baseline.unseen
    worse = tuple(each.check for each in bad if each.check not in baseline.failing)
    evidence = _evidence(baseline, seen)
    own = _own(baseline, seen, component)
    still = any(concerns(each, component) or each.check in own for each in bad)
    helped = bool(own & set(evidence)) and not still and not worse and not why_not
    failing = tuple(f"{each.check}: {each.detail}" for each in bad)
    words = [*failing[:5], *(f"{name}: it could not be asked again" for name in sorted(lost))]
    if not words and not why_not:
        if evidence:
            return Proof(ok=True, evidence=evidence)
        return Proof(ok=False, unseen=True, why=NO_EVIDENCE)
    return Proof(
        ok=False,
        helped=helped,
        regressed=worse,
        failing=failing,
        evidence=evidence,
        why="; ".join([why_not, *words]).strip("; "),
    )


def _evidence(baseline: Baseline, seen: Sequence[Seen]) -> tuple[str, ...]:
    passing = {each.check for each in seen if each.ok and each.proves}
    return tuple(sorted(baseline.evidence & passing))


def _own(baseline: Baseline, seen: Sequence[Seen], component: str) -> set[str]:
    """Of what failed before: checks of the component, and those that the fixer's author wrote."""
    mine = {check.name for check in (*baseline.proposed, *baseline.symptoms)}
    about = {each.check for each in seen if concerns(each, component)}
    return set(baseline.evidence & (mine | about))


def _well(seen: Sequence[Seen]) -> bool:
    return all(each.ok for each in seen)


def _words(seen: Sequence[Seen]) -> str:
    return "; ".join(f"{each.check}: {each.detail}" for each in seen if not each.ok)[:500]


async def _until_well(
    ground: Ground, case: Case, baseline: Baseline, patience: float
) -> tuple[Seen, ...]:
    settings, deadline = ground.settings.verify, time.monotonic() + patience
    pause = min(0.2, settings.every)
    while True:
        seen = await _look(ground, case, baseline)
        shown = not baseline.evidence or _evidence(baseline, seen)
        if (_well(seen) and shown) or time.monotonic() >= deadline:
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
    timeout = ground.settings.verify.timeout
    if baseline.proposed:
        seen += await look_at_all(baseline.proposed, ground.road(case.run), timeout=timeout)
    if baseline.symptoms:
        executor = ground.executor.under(ByTheBook(ground.executor.policy))
        road = ground.road(case.run, executor)
        seen += await look_at_all(baseline.symptoms, road, timeout=timeout)
    return tuple(seen)


async def _publish(
    ground: Ground, case: Case, seen: Sequence[Seen], when: Moment, attempt: int
) -> Sequence[int]:
    return await ground.bus.publish(*(_checked(case, each, when, attempt) for each in seen))


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
        proves=seen.proves,
    )
