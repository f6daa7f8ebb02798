"""Playbooks that may fit look for their signatures, a few side by side. They change nothing.

So they may set out while it is still being judged whether anything is wrong. The likeliest that
finds its own is the one; whoever comes behind it looks no further, unless that one may not act.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from hermes.skills.library import Skill
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Runner
from hermes.skills.playbook.schema import Playbook
from hermes.skills.playbook.setting import Setting
from hermes.skills.playbook.signature import Found, Looks
from hermes.sre.by_the_book import ByTheBook
from hermes.sre.case import Case
from hermes.sre.ground import Ground

SIDE_BY_SIDE = 3
"""Looks at once: a sick host has little to spare."""
FRESH = 5.0
"""Seconds after which what was seen has to be seen again before anybody acts on it."""


@dataclass(frozen=True)
class Candidate:
    """A playbook, and the part of the alert that it may be about."""

    skill: Skill
    playbook: Playbook
    facts: Facts


@dataclass(frozen=True)
class Sighting:
    candidate: Candidate
    found: Found

    @property
    def old(self) -> bool:
        return time.monotonic() - self.found.at > FRESH


class Scouting:
    """One look around, by all that may fit."""

    def __init__(
        self,
        ground: Ground,
        case: Case,
        candidates: Callable[[], Awaitable[Sequence[Candidate]]],
    ) -> None:
        self._ground, self._case, self._called = ground, case, candidates
        self._candidates: Sequence[Candidate] | None = None
        self._looks = Looks()
        self._settled: dict[int, Sighting | None] = {}
        self._next = self._begun = self._looking = 0
        self._wanted, self._over = True, False
        self._news = anyio.Event()
        self.refused = ""
        """What the last one may not even look at, in words."""
        self.suspects: list[str] = []
        """Playbooks that found their signature but did not observe their symptom, in words."""
        self.lacking: set[str] = set()
        """Playbooks for whose look the host lacks a program."""

    async def run(self) -> None:
        """Until all have looked, or it is called off."""
        self._candidates = await self._called()
        self._tell()
        async with anyio.create_task_group() as group:
            for _ in range(SIDE_BY_SIDE):
                group.start_soon(self._scout)

    async def next(self) -> Sighting | None:
        """The likeliest whose signature is there, then the one after it; None when all are told."""
        self._wanted = True
        self._tell()
        while True:
            while self._next in self._settled:
                sighting = self._settled[self._next]
                self._next += 1
                if sighting is not None:
                    self._wanted = False  # nobody looks on while one may act
                    return sighting
            if self._candidates is not None and self._next >= len(self._candidates):
                return None
            await self._news.wait()

    async def look_again(self, sighting: Sighting) -> Sighting | None:
        """What was seen too long ago to act on it."""
        return await self._look(sighting.candidate, Looks())

    def call_off(self) -> None:
        self._over = True
        self._tell()

    async def called_off(self) -> None:
        """Called off, and the last look has ended."""
        self.call_off()
        while self._looking:
            await self._news.wait()

    async def _scout(self) -> None:
        assert self._candidates is not None
        while not self._over and self._begun < len(self._candidates):
            if not self._wanted or self._sighted():
                await self._news.wait()
                continue
            number = self._begun
            self._begun += 1
            self._looking += 1
            try:
                self._settled[number] = await self._look(self._candidates[number], self._looks)
            finally:
                self._looking -= 1
                self._tell()

    def _sighted(self) -> bool:
        return any(self._settled[each] for each in self._settled if each >= self._next)

    async def _look(self, candidate: Candidate, looks: Looks) -> Sighting | None:
        ground, skill = self._ground, candidate.skill
        executor = ground.executor.under(ByTheBook(ground.executor.policy))
        road = ground.road(self._case.run, executor)
        setting = Setting(road, ground.bus.publish, self._case.run)
        runner = Runner(skill.name, candidate.playbook, setting, digest=skill.digest)
        found = await runner.look(candidate.facts, looks)
        if found.missing is None:
            return Sighting(candidate, found)
        if found.lacking:
            self.lacking.add(skill.name)
        played = await runner.play(candidate.facts, found=found)  # it ends before it has begun
        if any(check.symptom and check.name == played.step for check in candidate.playbook.verify):
            said = f"{skill.name} ({candidate.playbook.summary}): {played.step} passes"
            self.suspects = list(dict.fromkeys([*self.suspects, said]))
        if played.outcome == "refused":
            self.refused = f"{skill.name} may not go on: {played.detail}"
        return None

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()
