"""`/api/services`, `/skills`, `/memory`, `/drills`, `/audit`, `/people` and `/channels`."""

from typing import Protocol

from hermes.plumbing.http_service import HttpRequest
from hermes.web.access import AccessControl
from hermes.web.api_routes import ApiRoute, QueryParameter
from hermes.web.listing_types import (
    AuditPage,
    ChannelPage,
    DrillPage,
    FactPage,
    PeoplePage,
    ServicePage,
    SkillPage,
)
from hermes.web.resources import LIMIT, page_size, whole_number

MAX_EVENT_NUMBER = 10**9 - 1
WORDS = QueryParameter("words", "Only what has these words.")


class ApiListings(Protocol):
    """Each method may raise `HermesError`."""

    async def services(self) -> ServicePage: ...
    async def skills(self, *, words: str, state: str) -> SkillPage: ...
    async def facts(self, *, words: str, person: str, limit: int) -> FactPage:
        """Without what others said in private."""
        ...

    async def drills(self, *, words: str) -> DrillPage: ...
    async def actions(
        self, *, words: str, verdict: str, person: str, limit: int, before: int
    ) -> AuditPage:
        """Without what was done in private conversations of others."""
        ...

    async def people(self) -> PeoplePage: ...
    async def channels(self) -> ChannelPage: ...


class Listings:
    def __init__(self, listings: ApiListings, access: AccessControl) -> None:
        self._listings = listings
        self._access = access

    def routes(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                method="GET", path="/api/services", right="read", respond=self._services,
                about="Services with their state, checks and incidents; those in trouble first.",
                answer=ServicePage,
            ),
            ApiRoute(
                method="GET", path="/api/skills", right="read", respond=self._skills,
                about="Skills with their state and uses.", answer=SkillPage,
                query=(WORDS, QueryParameter("state", "Only skills in this state.")),
            ),
            ApiRoute(
                method="GET", path="/api/memory", right="read", respond=self._facts,
                about="Facts: best first with words, else the latest confirmed first.",
                answer=FactPage, query=(WORDS, LIMIT),
            ),
            ApiRoute(
                method="GET", path="/api/drills", right="read", respond=self._drills,
                about="Scenarios with the scores of their drills.", answer=DrillPage,
                query=(WORDS,),
            ),
            ApiRoute(
                method="GET", path="/api/audit", right="read", respond=self._audit,
                about="What was decided, approved and done, the newest first.", answer=AuditPage,
                query=(
                    WORDS,
                    QueryParameter("verdict", "Only this verdict: allow, ask, deny or dry-run."),
                    LIMIT,
                    QueryParameter("before", "Only what is older than this number.", int),
                ),
            ),
            ApiRoute(
                method="GET", path="/api/people", right="read", respond=self._people,
                about="People with their groups, and where they are declared.", answer=PeoplePage,
            ),
            ApiRoute(
                method="GET", path="/api/channels", right="read", respond=self._channels,
                about="Chats and sinks: whether they work, and what waits.", answer=ChannelPage,
            ),
        ]  # fmt: skip

    async def _services(self, request: HttpRequest) -> object:
        return await self._listings.services()

    async def _skills(self, request: HttpRequest) -> object:
        state = request.query.get("state", "")
        return await self._listings.skills(words=_words(request), state=state)

    async def _facts(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return await self._listings.facts(
            words=_words(request), person=person, limit=page_size(request)
        )

    async def _drills(self, request: HttpRequest) -> object:
        return await self._listings.drills(words=_words(request))

    async def _audit(self, request: HttpRequest) -> object:
        return await self._listings.actions(
            words=_words(request),
            verdict=request.query.get("verdict", ""),
            person=self._access.caller(request).person,
            limit=page_size(request),
            before=whole_number(request, "before", 0, MAX_EVENT_NUMBER),
        )

    async def _people(self, request: HttpRequest) -> object:
        return await self._listings.people()

    async def _channels(self, request: HttpRequest) -> object:
        return await self._listings.channels()


def _words(request: HttpRequest) -> str:
    return request.query.get("words", "")
