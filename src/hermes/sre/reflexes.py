"""Playbooks in an incident: the likeliest first, on every part of the alert that is still open.

Their probes only look. One whose signature is found on the host acts; what comes of it is for the
attempt around it to prove. Where that was one of several faults, the others are gone on with.
"""

from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.messages import Value
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Played, Runner
from hermes.skills.playbook.setting import Setting
from hermes.sre.assessing.judge import HostJudge
from hermes.sre.case import Case
from hermes.sre.changes import Changes
from hermes.sre.ground import Ground
from hermes.sre.incident import Incident
from hermes.sre.scouting import Candidate, Scouting, Sighting

THINGS = ("file", "path", "config", "unit", "service", "mount", "table", "host", "process")
VALUES = ("wrong", "found", "old", "key", "value", "port", "name")


class Acted(Value, kw_only=True, frozen=True):
    """A playbook that has changed something, or found that it need not."""

    skill: str
    played: Played

    @property
    def unit(self) -> str:
        return self.played.parameters.get("unit", "").removesuffix(".service")

    @property
    def why_not(self) -> str:
        """Why it did not help by its own checks; empty when they hold."""
        ok = self.played.outcome == "applied"
        return "" if ok else f"{self.skill}: {self.played.detail}"


class Reflexes:
    """`group`: where those look who look beside other work."""

    def __init__(self, ground: Ground, case: Case, group: TaskGroup) -> None:
        self._ground, self._case, self._group = ground, case, group
        self._views: Sequence[Facts] = (case.facts,)
        self._mended: list[str] = []
        self._waited = False
        self._ahead: Scouting | None = None
        self._lacking: set[str] = set()
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

    def look_ahead(self) -> None:
        """They set out to look, long before any of them may act."""
        if self._ground.settings.reflex:
            self._ahead = self._send_out()

    async def stand_back(self) -> None:
        """Nobody looks any more, and what was seen is forgotten."""
        if self._ahead is not None:
            await self._ahead.called_off()
            self._ahead = None

    async def act(self, number: int) -> Acted | None:
        """None when no playbook finds its signature; looked for twice, the first time."""
        if not self._ground.settings.reflex:
            return None
        acted = await self._round(number)
        first = acted is None and not self.used and not self._waited and not self.refused
        if first and await self.candidates():
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
        scouting, self._ahead = self._ahead or self._send_out(), None
        try:
            while (sighting := await scouting.next()) is not None:
                if (acted := await self._upon(sighting, scouting, number)) is not None:
                    return acted
            self.refused = scouting.refused or self.refused
            self.suspects = "; ".join(scouting.suspects) or self.suspects
            return None
        finally:
            scouting.call_off()
            self._lacking |= scouting.lacking
            self._declined = frozenset()

    def _send_out(self) -> Scouting:
        scouting = Scouting(self._ground, self._case, self.candidates)
        self._group.start_soon(scouting.run)
        return scouting

    async def candidates(self) -> Sequence[Candidate]:
        """Whose turn it may be, the likeliest first."""
        left_out = self.used | self._lacking | self._declined
        matcher = await self._ground.index.matcher(await self._ground.skills())
        return [
            Candidate(skill, skill.playbook, facts)
            for facts in self._views
            for skill in matcher.candidates(facts)
            if skill.playbook is not None and skill.name not in left_out
        ]

    async def _upon(self, sighting: Sighting, scouting: Scouting, number: int) -> Acted | None:
        """None when it could do nothing, so that the next may."""
        seen = await scouting.look_again(sighting) if sighting.old else sighting
        if seen is None:
            return None
        name = seen.candidate.skill.name
        changes = Changes(self._ground, self._case, number, playbook=name)
        played = await self._play(seen, changes)
        if changes.made or played.outcome == "applied":
            if played.outcome == "applied":
                await self._tell(seen.candidate, played)
            return Acted(skill=name, played=played)
        if played.outcome == "refused":  # whoever is woken by it should know what was found
            await self._tell(seen.candidate, played)
            self.refused = f"{name} may not go on: {played.detail}"
        return None

    async def _play(self, sighting: Sighting, changes: Changes) -> Played:
        one = sighting.candidate
        setting = Setting(
            self._ground.road(self._case.run, changes.executor),
            self._ground.bus.publish,
            self._case.run,
            before=changes.announce,
            patience=self._ground.settings.time_limit,
        )
        runner = Runner(one.skill.name, one.playbook, setting, digest=one.skill.digest)
        return await runner.play(one.facts, found=sighting.found)

    async def _tell(self, candidate: Candidate, played: Played) -> None:
        """A playbook that was right about the host is a diagnosis: its signature was found."""
        looks = [done.call_id for done in played.done if done.phase == "probe"]
        component, value = _subject(played)
        await self._ground.bus.publish(
            IncidentDiagnosed(
                run=self._case.run,
                incident=self._case.incident,
                component=component or self._case.service,
                mechanism=candidate.playbook.summary,
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
