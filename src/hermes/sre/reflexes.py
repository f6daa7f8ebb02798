"""Playbooks in an incident: the likeliest first, on every part of the alert that is still open.

Their probes only look. One whose signature is found on the host acts; what comes of it is for the
attempt around it to prove. Where that was one of several faults, the others are gone on with.
"""

from collections.abc import Sequence

import anyio

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.skills.library import Skill
from hermes.skills.matching import Matcher
from hermes.skills.playbook.ending import Ended
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Played, Runner
from hermes.skills.playbook.setting import Setting
from hermes.sre.assessing.judge import HostJudge
from hermes.sre.case import Case
from hermes.sre.changes import Changes
from hermes.sre.ground import Ground

THINGS = ("file", "path", "config", "unit", "service", "mount", "table", "host", "process")
VALUES = ("wrong", "found", "old", "key", "value", "port", "name")


class Acted(Value, kw_only=True, frozen=True):
    """A playbook that has changed something, or found that it need not."""

    skill: str
    played: Played

    @property
    def unit(self) -> str:
        return self.played.parameters.get("unit", "").removesuffix(".service")

    def elsewhere(self, failing: Sequence[str]) -> bool:
        """Its own part is well; what fails is about others."""
        return not self.why_not and not any(self.unit and self.unit in each for each in failing)

    @property
    def why_not(self) -> str:
        """Why it did not help by its own checks; empty when they hold."""
        ok = self.played.outcome == "applied"
        return "" if ok else f"{self.skill}: {self.played.detail}"


class Reflexes:
    def __init__(self, ground: Ground, case: Case) -> None:
        self._ground, self._case = ground, case
        self._views: Sequence[Facts] = (case.facts,)
        self._mended: list[str] = []
        self._waited = False
        self.used: set[str] = set()
        """Playbooks that have acted, in this life or before: each has one try."""
        self.refused = ""
        """What the last one may not do, in words."""

    async def act(self, number: int) -> Acted | None:
        """None when no playbook finds its signature; looked for twice, the first time."""
        if not self._ground.settings.reflex:
            return None
        acted = await self._round(number)
        if acted is None and not self.used and not self._waited and not self.refused:
            self._waited = True
            await anyio.sleep(self._ground.settings.traces)
            acted = await self._round(number)
        if acted is not None:
            self.used.add(acted.skill)
        return acted

    async def more(self, acted: Acted) -> bool:
        """Whether something that the alert speaks of is still sick, now that this is mended."""
        self._mended += [acted.unit] if acted.unit else []
        judge = HostJudge(self._ground.road(self._case.run))
        views = await judge.more_to_do(self._case.facts, self._mended)
        if not any(view != self._case.facts for view in views):
            return False
        self._views = views
        return True

    async def _round(self, number: int) -> Acted | None:
        skills = await self._ground.skills()
        for facts in self._views:
            seen: dict[str, Ended] = {}
            for skill in Matcher(skills).candidates(facts):
                if skill.name in self.used:
                    continue
                changes = Changes(self._ground, self._case, number, playbook=skill.name)
                played = await self._play(skill, facts, changes, seen)
                if played is not None and (changes.made or played.outcome == "applied"):
                    if played.outcome == "applied":
                        await self._tell(skill, played)
                    return Acted(skill=skill.name, played=played)
                if played is not None and played.outcome == "refused":
                    self.refused = f"{skill.name} may not go on: {played.detail}"
        return None

    async def _play(
        self, skill: Skill, facts: Facts, changes: Changes, seen: dict[str, Ended]
    ) -> Played | None:
        if skill.playbook is None:
            return None
        runner = Runner(
            skill.name,
            skill.playbook,
            Setting(
                self._ground.road(self._case.run, changes.executor),
                self._ground.bus.publish,
                self._case.run,
                before=changes.announce,
                patience=self._ground.settings.time_limit,
            ),
            digest=skill.digest,
            seen=seen,
        )
        return await runner.play(facts)

    async def _tell(self, skill: Skill, played: Played) -> None:
        """A playbook that was right about the host is a diagnosis: its signature was found."""
        looks = [done.call_id for done in played.done if done.phase == "probe"]
        component, value = _subject(played)
        await self._ground.bus.publish(
            IncidentDiagnosed(
                run=self._case.run,
                incident=self._case.incident,
                component=component or self._case.service,
                mechanism=skill.playbook.summary if skill.playbook else skill.description,
                value=value,
                evidence=await numbers_of(self._ground, self._case.run, looks),
                confidence=0.8,
            )
        )


def _subject(played: Played) -> tuple[str, str]:
    """Of what the probes found: the thing itself, and the value that was wrong with it."""
    found = played.parameters
    component = next((found[name] for name in THINGS if found.get(name)), "")
    value = next((found[name] for name in VALUES if found.get(name)), "")
    return component, value


async def numbers_of(ground: Ground, run: str, calls: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the events in which these calls ended: what evidence points at."""
    found = []
    async for recorded in ground.bus.journal.read(run=run, kinds=("tool.finished",)):
        result = getattr(recorded.event, "result", None)
        if result is not None and result.call_id in calls:
            found.append(recorded.seq)
    return tuple(found)
