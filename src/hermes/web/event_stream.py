"""Server-sent events: their format, and `GET /api/events`, which follows the journal."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

import anyio
import msgspec

from hermes.core.events import EVENT_TYPES, Event, encode_event
from hermes.core.protocols import Journal, JournalRecord
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest
from hermes.web.access import AccessControl, ApiCaller
from hermes.web.api_routes import ApiRoute, QueryParameter

T = TypeVar("T")
PING_INTERVAL_S = 15.0
PING = b": ping\n\n"
STREAM_TYPE = "text/event-stream"
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""The second one keeps nginx from collecting events before it passes them on."""

MayReadRun = Callable[[str, str], Awaitable[bool]]
"""Whether a person may read what was said in a run."""


def stream_event(data: Any, *, name: str = "", id: int | None = None) -> bytes:
    body = data if isinstance(data, bytes) else msgspec.json.encode(data)
    head = (f"id: {id}\n" if id is not None else "") + (f"event: {name}\n" if name else "")
    return head.encode() + b"data: " + body + b"\n\n"


async def next_or_ping(wait: Callable[[], Awaitable[T]]) -> T | None:
    """Return what is waited for; None when it is time for a sign of life."""
    with anyio.move_on_after(PING_INTERVAL_S):
        return await wait()
    return None


class EventStream:
    """The events of all processes, in order, from any number on."""

    def __init__(self, journal: Journal, access: AccessControl, may_read_run: MayReadRun) -> None:
        self._journal = journal
        self._access = access
        self._may_read_run = may_read_run

    def routes(self) -> list[ApiRoute]:
        after = QueryParameter("after", "From this number on; `Last-Event-ID` wins. Without: new.")
        kinds = QueryParameter("kinds", "Only these kinds of events, with commas between them.")
        return [
            ApiRoute(
                method="GET", path="/api/events", right="read", respond=self._follow,
                about="The events of all processes, live.",
                query=(after, kinds), content_type=STREAM_TYPE,
            ),
            ApiRoute(
                method="GET", path="/api/runs/{id}/events", right="read", respond=self._follow,
                about="The events of one run, live.",
                query=(after, kinds), content_type=STREAM_TYPE,
            ),
        ]  # fmt: skip

    async def _follow(self, request: HttpRequest) -> HttpReply:
        caller = self._access.caller(request)
        self._access.check_stream(caller)
        last_id = request.headers.get("last-event-id", "")
        after = await self._first_number(last_id or request.query.get("after", ""))
        kinds = tuple(filter(None, request.query.get("kinds", "").split(",")))
        if unknown := [each for each in kinds if each not in EVENT_TYPES]:
            message = f"unknown kind of event: {unknown[0]}"
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)
        run = request.params.get("id")
        stream = self._read(caller, after, kinds, run)
        return HttpReply(content_type=STREAM_TYPE, headers=STREAM_HEADERS, stream=stream)

    async def _first_number(self, text: str) -> int:
        """Without a number, only new events are sent."""
        if not text:
            return await self._journal.last()
        if not text.isascii() or not text.isdigit():
            message = "`after` and `Last-Event-ID` are the number of an event"
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, message)
        return int(text[:18])

    async def _read(
        self, caller: ApiCaller, after: int, kinds: Sequence[str], run: str | None
    ) -> AsyncGenerator[bytes, None]:
        with self._access.count_stream(caller):
            yield PING  # the client learns at once that it is connected
            while True:
                newest = await self._journal.last()
                async for recorded in self._journal.read(after=after, run=run, kinds=kinds):
                    after = recorded.seq
                    if await self._may_read_run(recorded.event.run, caller.person):
                        yield _render_record(recorded)
                after = max(after, newest)
                changed = False
                with anyio.move_on_after(PING_INTERVAL_S):
                    await self._journal.changed(after)
                    changed = True
                if not changed:
                    yield PING


def _render_record(recorded: JournalRecord) -> bytes:
    event = recorded.event
    body = encode_event(event) if isinstance(event, Event) else event.body
    return stream_event(body, name=event.kind, id=recorded.seq)
