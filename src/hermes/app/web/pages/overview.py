"""The page Now, and the bar of every page."""

from hermes.app.people import PeopleRegister
from hermes.app.web.resources import JournalViews, PersonActions
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.web.pages import BarStatus, PageContext

MAX_SHOWN = 20
URGENT = "P0"


class JournalStatus:
    """What the bar of every page shows, and who may act."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._people = PeopleRegister(loaded, journal)
        self._views = JournalViews(loaded, journal)

    async def why_not(self, person: str) -> str:
        return (await self._people.current()).objection(person)

    async def bar(self) -> BarStatus:
        unresolved = await self._views.incidents(only_open=True, limit=MAX_SHOWN, before="")
        waiting = await self._views.approvals(everything=False)
        urgent = [each for each in unresolved if each.severity == URGENT]
        more = f" and {len(urgent) - 1} more" if len(urgent) > 1 else ""
        return BarStatus(
            counts={"incidents": len(unresolved), "approvals": len(waiting)},
            alarm=f"P0 {urgent[0].title}{more}" if urgent else "",
            alarm_href=f"/incidents/{urgent[0].incident}" if urgent else "",
        )


class JournalOverview:
    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._views = JournalViews(loaded, journal)
        self._actions = PersonActions(loaded, journal)

    async def overview(self, person: str) -> PageContext:
        return {
            "incidents": await self._views.incidents(only_open=True, limit=MAX_SHOWN, before=""),
            "approvals": await self._views.approvals(everything=False),
        }

    async def acknowledge(self, id: str, *, person: str) -> str:
        return (await self._actions.acknowledge(id, person=person)).text
