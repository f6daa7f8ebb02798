"""`/api/runs`: conversations and other runs, for programs that do not wait for an answer."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Protocol

from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.web.access import AccessControl
from hermes.web.agent_turns import AgentTurn, AgentTurns
from hermes.web.answer_types import (
    ApiRun,
    ApiRunDetail,
    NewRun,
    RunMessage,
    RunPage,
    RunUpdate,
    StartedTurn,
)
from hermes.web.api_routes import ApiRoute, UnknownIdError
from hermes.web.request_body import decode_body
from hermes.web.resources import LIMIT, page_size


class RunViews(Protocol):
    async def runs(self, *, limit: int, person: str) -> Sequence[ApiRun]:
        """The newest first, without the private ones of others. Raises `HermesError`."""
        ...

    async def run(self, id: str, *, person: str) -> ApiRunDetail:
        """Raises `HermesError`, and `UnknownIdError` also where `person` may not read it."""
        ...


class RunResources:
    def __init__(self, views: RunViews, turns: AgentTurns, access: AccessControl) -> None:
        self._views = views
        self._turns = turns
        self._access = access

    def routes(self) -> list[ApiRoute]:
        one = "/api/runs/{id}"
        return [
            ApiRoute(
                method="GET", path="/api/runs", right="read", respond=self._list,
                about="Runs, the newest first; private ones are shown to their person alone.",
                query=(LIMIT,), answer=RunPage,
            ),
            ApiRoute(
                method="POST", path="/api/runs", right="chat", respond=self._begin,
                about="Begin a conversation; its answer is found in the run and its events.",
                body=NewRun, answer=StartedTurn,
            ),
            ApiRoute(
                method="GET", path=one, right="read", respond=self._show,
                about="One run with its turns.", answer=ApiRunDetail,
            ),
            ApiRoute(
                method="POST", path=f"{one}/say", right="chat", respond=self._say,
                about="The next turn of a conversation that you began.",
                body=RunMessage, answer=StartedTurn,
            ),
            ApiRoute(
                method="POST", path=f"{one}/steer", right="chat", respond=self._steer,
                about="Say something while a turn runs; it is read with its next step.",
                body=RunMessage, answer=RunUpdate,
            ),
            ApiRoute(
                method="POST", path=f"{one}/stop", right="chat", respond=self._stop,
                about="End the turn that runs.", answer=RunUpdate,
            ),
        ]  # fmt: skip

    async def _list(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return RunPage(runs=list(await self._views.runs(limit=page_size(request), person=person)))

    async def _show(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return await self._views.run(request.params["id"], person=person)

    async def _begin(self, request: HttpRequest) -> object:
        asked = decode_body(request, NewRun)
        person = self._access.caller(request).person
        turn = await self._turns.begin(_text(asked.text), person=person, model=asked.model)
        return _started(turn)

    async def _say(self, request: HttpRequest) -> object:
        text = _text(decode_body(request, RunMessage).text)
        run, person = request.params["id"], self._access.caller(request).person
        await self._require_own(run, person)
        return _started(await self._turns.resume(run, text, person=person))

    async def _steer(self, request: HttpRequest) -> object:
        text = _text(decode_body(request, RunMessage).text)
        (await self._active_turn(request)).steer(text)
        return RunUpdate(run=request.params["id"], state="steered")

    async def _stop(self, request: HttpRequest) -> object:
        (await self._active_turn(request)).interrupt()
        return RunUpdate(run=request.params["id"], state="stopped")

    async def _active_turn(self, request: HttpRequest) -> AgentTurn:
        run = request.params["id"]
        await self._require_own(run, self._access.caller(request).person)
        turn = self._turns.find_active(run)
        if turn is None:
            raise HttpRefusal(HTTPStatus.CONFLICT, f"no turn of {run} is being worked on here")
        return turn

    async def _require_own(self, run: str, person: str) -> None:
        if await self._turns.find_answer(run, person=person) is None:
            raise UnknownIdError(f"there is no conversation {run!r} that you began over the API")


def _text(text: str) -> str:
    if not text.strip():
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "`text` is empty")
    return text


def _started(turn: AgentTurn) -> StartedTurn:
    events = f"/api/runs/{turn.run}/events?after=0"
    return StartedTurn(run=turn.run, turn=turn.number, model=turn.model, events=events)
