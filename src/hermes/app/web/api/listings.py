"""Lists for callers of the API, from the views that the pages of the dashboard show."""

from collections.abc import Awaitable, Callable

import msgspec

from hermes.app.web.views.audit import JournalAudit
from hermes.app.web.views.drills import JournalDrills
from hermes.app.web.views.facts import JournalFacts
from hermes.app.web.views.services import JournalServices
from hermes.app.web.views.settings import HomeSettings
from hermes.app.web.views.skills import HomeSkills
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.web.listing_types import (
    AuditPage,
    ChannelPage,
    DrillPage,
    FactPage,
    PeoplePage,
    ServicePage,
    SkillPage,
)


class ViewListings:
    def __init__(
        self,
        loaded: LoadedSettings,
        journal: JournalStore,
        may_read_run: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        self._may_read_run = may_read_run
        self._services = JournalServices(loaded, journal)
        self._skills = HomeSkills(loaded, journal)
        self._facts = JournalFacts(loaded, journal)
        self._drills = JournalDrills(loaded, journal)
        self._audit = JournalAudit(loaded, journal)
        self._settings = HomeSettings(loaded, journal)

    async def services(self) -> ServicePage:
        return msgspec.convert(await self._services.services(), ServicePage)

    async def skills(self, *, words: str, state: str) -> SkillPage:
        found = await self._skills.skills(words=words, state=state)
        return msgspec.convert({"skills": found}, SkillPage)

    async def facts(self, *, words: str, person: str, limit: int) -> FactPage:
        found = await self._facts.facts(words, person=person, limit=limit)
        return msgspec.convert({"facts": found}, FactPage)

    async def drills(self, *, words: str) -> DrillPage:
        found = await self._drills.scenarios(words=words)
        return msgspec.convert({"scenarios": found}, DrillPage)

    async def actions(
        self, *, words: str, verdict: str, person: str, limit: int, before: int
    ) -> AuditPage:
        found = await self._audit.actions(
            person=person, words=words, verdict=verdict, limit=limit, before=before
        )
        page = msgspec.convert(found, AuditPage)
        shown = [each for each in page.actions if await self._may_read_run(each.run, person)]
        return msgspec.structs.replace(page, actions=shown)

    async def people(self) -> PeoplePage:
        return msgspec.convert({"people": await self._settings.people()}, PeoplePage)

    async def channels(self) -> ChannelPage:
        return msgspec.convert({"channels": await self._settings.channels()}, ChannelPage)
