"""Checks the signatures of playbooks on the host, and decides in which order those run that found
something: faults of the incident's own service come first."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from hermes.core.incident import AlertFacts
from hermes.skills.library import Skill
from hermes.skills.playbook.commands import PlaybookContext, find_root_commands
from hermes.skills.playbook.runner import PlaybookRunner, ProbeCache, SignatureResult
from hermes.skills.playbook.schema import Playbook
from hermes.sre.checks import mentioned_services
from hermes.sre.context import IncidentWork

MAX_CONCURRENT_SCANS = 3
"""A host in trouble has few resources."""
MAX_MATCH_AGE_S = 5.0
"""Seconds after which a match must be checked again before the playbook runs."""


@dataclass(frozen=True)
class PlaybookCandidate:
    """A playbook, and the part of the alert that it may apply to."""

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
    """Checks the signatures of all candidates on the host."""

    def __init__(
        self,
        work: IncidentWork,
        candidates: Callable[[], Awaitable[Sequence[PlaybookCandidate]]],
    ) -> None:
        self._work, self._load_candidates = work, candidates
        self._candidates: Sequence[PlaybookCandidate] | None = None
        self._probe_cache = ProbeCache()
        self._results: dict[int, SignatureMatch | None] = {}
        self._next = self._started = self._running = 0
        self._wanted, self._over = True, False
        self._changed = anyio.Event()
        self.refused = ""
        """Why the last playbook was refused, in words."""
        self.suspects: list[str] = []
        """Playbooks that found their signature but did not observe their symptom, in words."""
        self.unsupported: set[str] = set()
        """Playbooks that need a program which the host does not have."""

    async def run(self) -> None:
        """Run until all candidates are checked, or it is stopped."""
        self._candidates = await self._load_candidates()
        self._notify()
        async with anyio.create_task_group() as group:
            for _ in range(MAX_CONCURRENT_SCANS):
                group.start_soon(self._scan_candidates)

    async def next_match(self) -> SignatureMatch | None:
        """The most likely match that was not returned before; None when there is none left."""
        self._wanted = True
        self._notify()
        while True:
            while self._next in self._results:
                matched = self._results[self._next]
                self._next += 1
                if matched is not None:
                    self._wanted = False  # no further checks while a playbook may run
                    return matched
            if self._candidates is not None and self._next >= len(self._candidates):
                return None
            await self._changed.wait()

    def further_matches(self) -> list[SignatureMatch]:
        """Return the matches that are known by now and were not returned yet."""
        known = [self._results[each] for each in sorted(self._results) if each >= self._next]
        return [each for each in known if each is not None]

    async def scan_again(self, matched: SignatureMatch) -> SignatureMatch | None:
        """Check a match that is too old."""
        return await self._scan_one(matched.candidate, ProbeCache())

    def stop(self) -> None:
        self._over = True
        self._notify()

    async def stop_and_wait(self) -> None:
        """Stop, and wait until the last check has ended."""
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
                self._results[number] = await self._scan_one(
                    self._candidates[number], self._probe_cache
                )
            finally:
                self._running -= 1
                self._notify()

    def _has_match(self) -> bool:
        return any(self._results[each] for each in self._results if each >= self._next)

    async def _scan_one(
        self, candidate: PlaybookCandidate, cache: ProbeCache
    ) -> SignatureMatch | None:
        work, skill = self._work, candidate.skill
        context = PlaybookContext(
            work.execute_unattended(bundled=skill.origin == "bundled"),
            work.publish,
            work.details.run,
            daemons=tuple(work.context.daemons()),
            root_commands=await find_root_commands(work.context.environment),
            kubectl=work.cluster.kubectl if work.cluster is not None else "kubectl",
        )
        runner = PlaybookRunner(skill.name, candidate.playbook, context, digest=skill.digest)
        found = await runner.check_signature(candidate.facts, cache)
        if found.early_outcome is None:
            return SignatureMatch(candidate, found)
        if found.program_missing:
            self.unsupported.add(skill.name)
        played = await runner.run(candidate.facts, signature=found)  # it only publishes the outcome
        if any(check.symptom and check.name == played.step for check in candidate.playbook.verify):
            suspect = f"{skill.name} ({candidate.playbook.summary}): {played.step} passes"
            self.suspects = list(dict.fromkeys([*self.suspects, suspect]))
        if played.outcome == "refused":
            self.refused = f"{skill.name} may not go on: {played.detail}"
        return None

    def _notify(self) -> None:
        event, self._changed = self._changed, anyio.Event()
        event.set()


class MatchOrder:
    """What is found of other services comes last, and is left to the incidents of these services
    where they have one."""

    def __init__(self, work: IncidentWork, scan: SignatureScan) -> None:
        self._work, self._scan = work, scan
        self._held: list[SignatureMatch] = []
        self.left_to_others = ""
        """The last fault that was left to another incident, in words."""

    async def next_match(self) -> SignatureMatch | None:
        while (matched := await self._scan.next_match()) is not None:
            unit = matched.found.values.get("unit", "").removesuffix(".service")
            if self._is_about(unit):
                return matched
            if unit in self._work.context.other_problems(self._work.details).services:
                fault = f"{matched.candidate.skill.name} found a fault of {unit}"
                self.left_to_others = f"{fault}, which has an incident of its own"
            else:
                self._held.append(matched)
        return self._held.pop(0) if self._held else None

    def _is_about(self, unit: str) -> bool:
        details = self._work.details
        if not (unit and details.service):
            return True
        named = mentioned_services(details.facts.combined_text, {unit})
        return unit in {details.service.removesuffix(".service"), *named}
