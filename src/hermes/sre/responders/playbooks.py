"""Sees the whole host for the reflexes: whether what was mended is all that was wrong."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.skills.library import Skill
from hermes.skills.playbook.commands import ExecuteCall, PlaybookContext
from hermes.skills.playbook.parameters import AlertFacts
from hermes.skills.playbook.runner import (
    PlaybookRunner,
    PlaybookRunResult,
    ProbeCache,
    SignatureResult,
)
from hermes.skills.playbook.schema import Playbook
from hermes.sre.assessment.all_clear import alert_units
from hermes.sre.assessment.assess import observe_host
from hermes.sre.assessment.host_state import HostObservation
from hermes.sre.assessment.symptoms import find_symptoms
from hermes.sre.context import IncidentContext
from hermes.sre.incident import Incident, IncidentDetails, without_unit
from hermes.sre.policies import TrustedPlaybookPolicy
from hermes.sre.undo import ChangeRecorder

RECOVERY_TIMEOUT_S, RECOVERY_PAUSE_S = 4.0, 0.7
"""Seconds in which errors of before may give way to good answers, and between two looks."""


class RemainingFaults:
    """It only looks."""

    def __init__(self, execute: ExecuteCall) -> None:
        self._execute = execute

    async def find_remaining(self, facts: AlertFacts, mended: Sequence[str]) -> list[AlertFacts]:
        """Other units that the alert names, each for itself; else all of it, while it is sick."""
        first = await observe_host(self._execute)
        if not first.state.units:
            return []  # a host whose supervisor says nothing tells nothing more
        named = [unit.removesuffix(".service") for unit in alert_units(facts, first)]
        left = [name for name in named if name not in mended]
        if len(named) > 1 and left:
            return [
                _without_units(facts, [other for other in named if other != name]) for name in left
            ]
        rest, until = _without_units(facts, mended), time.monotonic() + RECOVERY_TIMEOUT_S
        while find_symptoms(
            rest, since_first_observation(first, await observe_host(self._execute))
        ):
            if time.monotonic() > until:
                return [rest]
            await anyio.sleep(RECOVERY_PAUSE_S)
        return []


def _without_units(facts: AlertFacts, names: Sequence[str]) -> AlertFacts:
    for name in names:
        facts = without_unit(facts, name)
    return facts


def since_first_observation(first: HostObservation, now: HostObservation) -> HostObservation:
    """Only restarts of after the first look: not every supervisor forgets those of before."""
    known = {unit.name: unit.restarts for unit in first.state.units}
    units = tuple(
        replace(unit, restarts=unit.restarts - known.get(unit.name, 0)) for unit in now.state.units
    )
    return replace(now, state=replace(now.state, units=units))


MAX_CONCURRENT_SCANS = 3
"""Looks at once: a sick host has little to spare."""
MAX_MATCH_AGE_S = 5.0
"""Seconds after which what was seen has to be seen again before anybody acts on it."""


@dataclass(frozen=True)
class PlaybookCandidate:
    """A playbook, and the part of the alert that it may be about."""

    skill: Skill
    playbook: Playbook
    facts: AlertFacts


@dataclass(frozen=True)
class SignatureMatch:
    candidate: PlaybookCandidate
    found: SignatureResult

    @property
    def expired(self) -> bool:
        return time.monotonic() - self.found.checked_at > MAX_MATCH_AGE_S


class SignatureScan:
    """One look around, by all that may fit."""

    def __init__(
        self,
        context: IncidentContext,
        details: IncidentDetails,
        candidates: Callable[[], Awaitable[Sequence[PlaybookCandidate]]],
    ) -> None:
        self._context, self._details, self._load_candidates = context, details, candidates
        self._candidates: Sequence[PlaybookCandidate] | None = None
        self._looks = ProbeCache()
        self._results: dict[int, SignatureMatch | None] = {}
        self._next = self._started = self._running = 0
        self._wanted, self._over = True, False
        self._changed = anyio.Event()
        self.refused = ""
        """What the last one may not even look at, in words."""
        self.suspects: list[str] = []
        """Playbooks that found their signature but did not observe their symptom, in words."""
        self.unsupported: set[str] = set()
        """Playbooks for whose look the host lacks a program."""

    async def run(self) -> None:
        """Until all have looked, or it is called off."""
        self._candidates = await self._load_candidates()
        self._notify()
        async with anyio.create_task_group() as group:
            for _ in range(MAX_CONCURRENT_SCANS):
                group.start_soon(self._scan_candidates)

    async def next_match(self) -> SignatureMatch | None:
        """The likeliest whose signature is there, then the one after it; None when all are told."""
        self._wanted = True
        self._notify()
        while True:
            while self._next in self._results:
                sighting = self._results[self._next]
                self._next += 1
                if sighting is not None:
                    self._wanted = False  # nobody looks on while one may act
                    return sighting
            if self._candidates is not None and self._next >= len(self._candidates):
                return None
            await self._changed.wait()

    async def scan_again(self, sighting: SignatureMatch) -> SignatureMatch | None:
        """What was seen too long ago to act on it."""
        return await self._scan_one(sighting.candidate, ProbeCache())

    def stop(self) -> None:
        self._over = True
        self._notify()

    async def stop_and_wait(self) -> None:
        """Called off, and the last look has ended."""
        self.stop()
        while self._running:
            await self._changed.wait()

    async def _scan_candidates(self) -> None:
        assert self._candidates is not None
        while not self._over and self._started < len(self._candidates):
            if not self._wanted or self._has_match():
                await self._changed.wait()
                continue
            number = self._started
            self._started += 1
            self._running += 1
            try:
                self._results[number] = await self._scan_one(self._candidates[number], self._looks)
            finally:
                self._running -= 1
                self._notify()

    def _has_match(self) -> bool:
        return any(self._results[each] for each in self._results if each >= self._next)

    async def _scan_one(
        self, candidate: PlaybookCandidate, looks: ProbeCache
    ) -> SignatureMatch | None:
        ground, skill = self._context, candidate.skill
        executor = ground.executor.with_policy(TrustedPlaybookPolicy(ground.executor.policy))
        road = ground.execute_for_run(self._details.run, executor)
        setting = PlaybookContext(road, ground.bus.publish, self._details.run)
        runner = PlaybookRunner(skill.name, candidate.playbook, setting, digest=skill.digest)
        found = await runner.check_signature(candidate.facts, looks)
        if found.early_outcome is None:
            return SignatureMatch(candidate, found)
        if found.program_missing:
            self.unsupported.add(skill.name)
        played = await runner.run(candidate.facts, signature=found)  # it ends before it has begun
        if any(check.symptom and check.name == played.step for check in candidate.playbook.verify):
            said = f"{skill.name} ({candidate.playbook.summary}): {played.step} passes"
            self.suspects = list(dict.fromkeys([*self.suspects, said]))
        if played.outcome == "refused":
            self.refused = f"{skill.name} may not go on: {played.detail}"
        return None

    def _notify(self) -> None:
        news, self._changed = self._changed, anyio.Event()
        news.set()


COMPONENT_PARAMETERS = (
    "file",
    "path",
    "config",
    "unit",
    "service",
    "mount",
    "table",
    "host",
    "process",
)
VALUE_PARAMETERS = ("wrong", "found", "old", "key", "value", "port", "name")


class PlaybookAttempt(Value, kw_only=True, frozen=True):
    """A playbook that has changed something, or found that it need not."""

    skill: str
    played: PlaybookRunResult

    @property
    def unit(self) -> str:
        return self.played.parameters.get("unit", "").removesuffix(".service")

    @property
    def failure(self) -> str:
        """Why it did not help by its own checks; empty when they hold."""
        ok = self.played.outcome == "applied"
        return "" if ok else f"{self.skill}: {self.played.detail}"


class PlaybookResponder:
    """`group`: where those look who look beside other work."""

    def __init__(
        self, context: IncidentContext, details: IncidentDetails, group: TaskGroup
    ) -> None:
        self._context, self._details, self._group = context, details, group
        self._views: Sequence[AlertFacts] = (details.facts,)
        self._fixed_units: list[str] = []
        self._waited = False
        self._early_scan: SignatureScan | None = None
        self._unsupported: set[str] = set()
        """Playbooks that cannot look at this host: it lacks a program that they need."""
        self._declined: frozenset[str] = frozenset()
        """Playbooks that looked shortly before a crash and found nothing: their first look."""
        self.used: set[str] = set()
        """Playbooks that have acted, in this life or before: each has one try."""
        self.refused = ""
        """What the last one may not do, in words."""
        self.suspects = ""
        """Causes that are possible by what was found, but whose symptom was not observed."""

    def resume(self, past: Incident, *, looks: bool) -> None:
        """What playbooks did in an earlier life of this work. `looks`: what they saw then still
        counts."""
        self.used.update(change.by for change in past.changes)
        # A playbook that was cut off before it changed anything may begin anew.
        self._declined = past.declined if looks and not past.changes else frozenset()

    def start_scan(self) -> None:
        """They set out to look, long before any of them may act."""
        if self._context.settings.reflex:
            self._early_scan = self._new_scan()

    async def discard_scan(self) -> None:
        """Nobody looks any more, and what was seen is forgotten."""
        if self._early_scan is not None:
            await self._early_scan.stop_and_wait()
            self._early_scan = None

    async def run_next(self, number: int) -> PlaybookAttempt | None:
        """None when no playbook finds its signature; looked for twice, the first time."""
        if not self._context.settings.reflex:
            return None
        acted = await self._scan_and_run(number)
        first = acted is None and not self.used and not self._waited and not self.refused
        if first and await self.candidates():
            self._waited = True
            await anyio.sleep(self._context.settings.traces)
            acted = await self._scan_and_run(number)
        if acted is not None:
            self.used.add(acted.skill)
        return acted

    async def find_remaining_faults(self, acted: PlaybookAttempt) -> bool:
        """Whether something that the alert speaks of is still sick, now that this is mended."""
        self._fixed_units += [acted.unit] if acted.unit else []
        judge = RemainingFaults(self._context.execute_for_run(self._details.run))
        views = await judge.find_remaining(self._details.facts, self._fixed_units)
        if not any(view != self._details.facts for view in views):
            return False
        self._views = views
        return True

    async def _scan_and_run(self, number: int) -> PlaybookAttempt | None:
        scouting, self._early_scan = self._early_scan or self._new_scan(), None
        try:
            while (sighting := await scouting.next_match()) is not None:
                if (acted := await self._run_matched(sighting, scouting, number)) is not None:
                    return acted
            self.refused = scouting.refused or self.refused
            self.suspects = "; ".join(scouting.suspects) or self.suspects
            return None
        finally:
            scouting.stop()
            self._unsupported |= scouting.unsupported
            self._declined = frozenset()

    def _new_scan(self) -> SignatureScan:
        scouting = SignatureScan(self._context, self._details, self.candidates)
        self._group.start_soon(scouting.run)
        return scouting

    async def candidates(self) -> Sequence[PlaybookCandidate]:
        """Whose turn it may be, the likeliest first."""
        left_out = self.used | self._unsupported | self._declined
        matcher = await self._context.index.matcher(await self._context.skills())
        return [
            PlaybookCandidate(skill, skill.playbook, facts)
            for facts in self._views
            for skill in matcher.candidates(facts)
            if skill.playbook is not None and skill.name not in left_out
        ]

    async def _run_matched(
        self, sighting: SignatureMatch, scouting: SignatureScan, number: int
    ) -> PlaybookAttempt | None:
        """None when it could do nothing, so that the next may."""
        seen = await scouting.scan_again(sighting) if sighting.expired else sighting
        if seen is None:
            return None
        name = seen.candidate.skill.name
        changes = ChangeRecorder(self._context, self._details, number, playbook=name)
        played = await self._run_playbook(seen, changes)
        if changes.count or played.outcome == "applied":
            if played.outcome == "applied":
                await self._publish_diagnosis(seen.candidate, played)
            return PlaybookAttempt(skill=name, played=played)
        if played.outcome == "refused":  # whoever is woken by it should know what was found
            await self._publish_diagnosis(seen.candidate, played)
            self.refused = f"{name} may not go on: {played.detail}"
        return None

    async def _run_playbook(
        self, sighting: SignatureMatch, changes: ChangeRecorder
    ) -> PlaybookRunResult:
        one = sighting.candidate
        setting = PlaybookContext(
            self._context.execute_for_run(self._details.run, changes.executor),
            self._context.bus.publish,
            self._details.run,
            before_step=changes.announce_step,
            step_grace_s=self._context.settings.time_limit,
        )
        runner = PlaybookRunner(one.skill.name, one.playbook, setting, digest=one.skill.digest)
        return await runner.run(one.facts, signature=sighting.found)

    async def _publish_diagnosis(
        self, candidate: PlaybookCandidate, played: PlaybookRunResult
    ) -> None:
        """A playbook that was right about the host is a diagnosis: its signature was found."""
        looks = [done.call_id for done in played.done if done.phase == "probe"]
        component, value = _component_and_value(played)
        await self._context.bus.publish(
            IncidentDiagnosed(
                run=self._details.run,
                incident=self._details.incident,
                component=component or self._details.service,
                mechanism=candidate.playbook.summary,
                value=value,
                evidence=await read_result_numbers(self._context, self._details.run, looks),
                confidence=0.8,
            )
        )


def _component_and_value(played: PlaybookRunResult) -> tuple[str, str]:
    """Of what the probes found: the thing itself, and the value that was wrong with it."""
    found = played.parameters
    component = next((found[name] for name in COMPONENT_PARAMETERS if found.get(name)), "")
    value = next((found[name] for name in VALUE_PARAMETERS if found.get(name)), "")
    return component, value


async def read_result_numbers(
    context: IncidentContext, run: str, calls: Sequence[str]
) -> tuple[int, ...]:
    """Numbers of the events in which these calls ended: what evidence points at."""
    found = []
    async for recorded in context.bus.journal.read(run=run, kinds=("tool.finished",)):
        result = getattr(recorded.event, "result", None)
        if result is not None and result.call_id in calls:
            found.append(recorded.seq)
    return tuple(found)
