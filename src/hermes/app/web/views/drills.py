"""Scenarios of the gym with the scores of their drills."""

from collections import defaultdict
from collections.abc import Sequence

import anyio.to_thread

from hermes.app.incidents.views import PlainObject
from hermes.core.events.experiments import DrillEnded
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings

MAX_TREND_DRILLS = 20
MAX_SHOWN_DRILLS = 50


class JournalDrills:
    """Fulfils what the pages of drills show."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal
        self._scenarios: list[PlainObject] = []
        self._drills: dict[str, list[DrillEnded]] = defaultdict(list)
        self._seq = 0

    async def scenarios(self, *, words: str = "") -> Sequence[PlainObject]:
        """All scenarios, those that were played first, by their last drill."""
        await self._read()
        wanted = words.casefold().split()
        found = [
            {**scenario, **self._score(str(scenario["name"]))}
            for scenario in await self._catalog()
            if all(
                word in f"{scenario['name']} {scenario['group']} {scenario['summary']}".casefold()
                for word in wanted
            )
        ]
        played = [each for each in found if each["last_at"]]
        played.sort(key=lambda each: str(each["last_at"]), reverse=True)
        return [*played, *(each for each in found if not each["last_at"])]

    async def scenario(self, name: str) -> PlainObject | None:
        """One scenario with its last drills, the newest first; None where there is none."""
        await self._read()
        known = next((each for each in await self._catalog() if each["name"] == name), None)
        if known is None and name not in self._drills:
            return None
        empty = {"name": name, "group": "", "summary": "", "missing": [], "broken": "removed"}
        drills = reversed(self._drills.get(name, [])[-MAX_SHOWN_DRILLS:])
        return {
            **(known or empty),
            **self._score(name),
            "drills": [describe_drill(each) for each in drills],
        }

    async def _read(self) -> None:
        async for recorded in self._journal.read(after=self._seq, kinds=("drill.ended",)):
            self._seq = recorded.seq
            if isinstance(recorded.event, DrillEnded):
                self._drills[recorded.event.scenario].append(recorded.event)

    async def _catalog(self) -> list[PlainObject]:
        if not self._scenarios:  # loads all scenarios, so only once
            self._scenarios = await anyio.to_thread.run_sync(self._list_scenarios)
        return self._scenarios

    def _list_scenarios(self) -> list[PlainObject]:
        from hermes.gym.episodes.readiness import list_scenarios

        return [
            {
                "name": each.name,
                "group": each.group,
                "summary": each.summary,
                "missing": list(each.missing),
                "broken": each.broken,
            }
            for each in list_scenarios(folders=self._loaded.settings.gym.scenarios)
        ]

    def _score(self, name: str) -> PlainObject:
        drills = [each for each in self._drills.get(name, ()) if not each.void]
        last = drills[-1] if drills else None
        return {
            "played": len(drills),
            "resolved": sum(each.resolved for each in drills),
            "trend": [each.reward for each in drills[-MAX_TREND_DRILLS:]],
            "last_at": last.at.isoformat() if last is not None else "",
            "last": describe_drill(last) if last is not None else None,
        }


def describe_drill(drill: DrillEnded) -> PlainObject:
    return {
        "at": drill.at.isoformat(),
        "run": drill.run,
        "seed": drill.seed,
        "agent": drill.agent,
        "resolved": drill.resolved,
        "reward": drill.reward,
        "parts": [{"part": name, "score": score} for name, score in drill.parts],
        "seconds": drill.seconds,
        "tool_calls": drill.tool_calls,
        "model_calls": drill.model_calls,
        "tokens": drill.tokens,
        "answered_by": drill.answered_by,
        "collateral": list(drill.collateral),
        "breaches": list(drill.breaches),
        "void": drill.void,
    }
