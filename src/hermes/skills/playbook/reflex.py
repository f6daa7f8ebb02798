"""From an alert to a mended host without a model: the playbooks that may fit, one after the other.

Their probes only look. The first that finds its signature on the live host acts; if its checks do
not hold afterwards it takes everything back, and the next may look. Where somebody can judge the
whole host, nothing is done to one that is well, and one that is still sick is looked at again.
"""

import re
import time
from collections.abc import Sequence
from typing import Protocol

import anyio
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.playbook.ending import Ended
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Played, Runner
from hermes.skills.playbook.schema import Playbook
from hermes.skills.playbook.setting import Execute, Publish, Setting, nowhere

MOST_FAULTS = 3
"""At once on one host; more than that is no work for reflexes."""
TRACES = 2.0
"""Seconds in which a fault that an alert told of shows in the logs."""


class Playable(Protocol):
    """A skill with a runnable half."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def playbook(self) -> Playbook | None: ...


class Judge(Protocol):
    """Who sees the whole host. Both only look."""

    async def all_clear(self, facts: Facts) -> str:
        """Why nothing is to be done; empty when something is wrong, or may be."""

    async def more_to_do(self, facts: Facts, mended: Sequence[str]) -> Sequence[Facts]:
        """After these units were mended: what of the alert may still be sick, each for itself."""


class Response(Value, kw_only=True, frozen=True):
    played: Played | None = None
    """The one that mended it, else the one that acted last; None when none found its signature."""
    tried: tuple[Played, ...] = ()
    seconds: float = 0.0
    all_clear: str = ""
    """Why nothing was done: the host is well."""

    @property
    def resolved(self) -> bool:
        return self.played is not None and self.played.outcome == "applied"

    @property
    def mended(self) -> tuple[Played, ...]:
        return tuple(played for played in self.tried if played.outcome == "applied")


async def respond(
    facts: Facts,
    candidates: Sequence[Playable],
    execute: Execute,
    *,
    publish: Publish = nowhere,
    run: str = "",
    patience: float = 60.0,
    judge: Judge | None = None,
) -> Response:
    """Candidates come best first. After `patience` seconds no further one begins."""
    reflex = _Reflex(facts, execute, publish, run, judge)
    began, left, views = time.monotonic(), list(candidates), [facts]
    for _ in range(MOST_FAULTS + 1):
        played = await reflex.one(left, views, began + patience)
        if judge is None or (played is not None and played.outcome != "applied"):
            break
        if played is not None:
            left = [skill for skill in left if skill.name != played.skill]
        views = await (reflex.goes_on() if played else reflex.looks_again())
        if not views or len(reflex.mended) >= MOST_FAULTS:
            break
    acted = reflex.mended or reflex.acted
    return Response(
        played=acted[-1] if acted else None,
        tried=tuple(reflex.tried),
        seconds=time.monotonic() - began,
        all_clear=reflex.well,
    )


class _Reflex:
    """One alert, until nobody has anything more to do about it."""

    def __init__(
        self, facts: Facts, execute: Execute, publish: Publish, run: str, judge: Judge | None
    ) -> None:
        self._facts, self._execute, self._publish, self._run = facts, execute, publish, run
        self._judge = judge
        self._asked = self._waited = False
        self.well = ""
        self.tried: list[Played] = []

    @property
    def acted(self) -> list[Played]:
        return [played for played in self.tried if played.outcome != "declined"]

    @property
    def mended(self) -> list[Played]:
        return [played for played in self.tried if played.outcome == "applied"]

    async def one(
        self, candidates: Sequence[Playable], views: Sequence[Facts], until: float
    ) -> Played | None:
        """Until one of them has mended something, or left it in a state of its own."""
        seen: dict[str, Ended] = {}
        for facts in views:
            for skill in candidates:
                if skill.playbook is None or time.monotonic() > until or self.well:
                    continue
                played = await self._play(skill, skill.playbook, facts, seen)
                self.tried.append(played)
                if played.outcome == "applied" or played.not_undone:
                    return played  # mended; or in a state that no other was written for
        return None

    async def looks_again(self) -> list[Facts]:
        """An alert may come before the traces of what it is about; once, that is waited for."""
        if self._waited or self.acted or await self._leave():
            return []
        self._waited = True
        await anyio.sleep(TRACES)
        return [self._facts]

    async def goes_on(self) -> list[Facts]:
        assert self._judge is not None
        units = [each.parameters.get("unit", "").removesuffix(".service") for each in self.mended]
        return list(await self._judge.more_to_do(self._facts, [unit for unit in units if unit]))

    async def _play(
        self, skill: Playable, playbook: Playbook, facts: Facts, seen: dict[str, Ended]
    ) -> Played:
        runner = Runner(
            skill.name,
            playbook,
            Setting(self._execute, self._publish, self._run),
            digest=skill.digest,
            seen=seen,
        )
        played = await runner.play(facts, leave=self._leave)
        if played.outcome != "applied" and played.changed:
            played = await runner.undo(played)
        return played

    async def _leave(self) -> str:
        """Asked once, and only when a playbook is about to act: most alerts need no such look."""
        if self._judge is not None and not self._asked:
            self._asked = True
            self.well = await self._judge.all_clear(self._facts)
        return self.well


def without(facts: Facts, name: str) -> Facts:
    """The alert as it would be if this unit were not in it."""
    if not name:
        return facts
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return replace(
        facts,
        title=word.sub("", facts.title),
        text=word.sub("", facts.text),
        labels={key: value for key, value in facts.labels.items() if not word.search(value)},
    )
