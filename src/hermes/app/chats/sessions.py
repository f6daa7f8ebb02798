"""Tracks which session each chat is in, which messages wait, and how many turns run at once."""

from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Literal

import anyio
from msgspec.structs import replace

from hermes.core.channels import Address
from hermes.core.events.chats import (
    ChatHandled,
    ChatReceived,
    ChatSessionEnded,
    ChatVoiceChosen,
    message_key,
)
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.gateway.settings import TalkSettings
from hermes.plumbing.limited_table import LimitedTable

CHAT_KINDS = ("chat.received", "chat.handled", "chat.ended")
MAX_KNOWN_KEYS = 50_000
"""Received messages that are recognized when the platform sends them again."""
MAX_KNOWN_RUNS = 5_000
MIN_HISTORY = timedelta(days=7)
"""How far back unanswered messages are looked for."""
CATCH_UP_PERIOD = timedelta(days=30)
"""Chats that were silent for longer are not searched for missed messages."""


class TurnLimits:
    """Limits how many turns run at once: of one person, and in all."""

    def __init__(self, per_person: int, in_all: int) -> None:
        self._per_person, self._in_all = per_person, in_all
        self._running: Counter[str] = Counter()
        self._changed = anyio.Condition()

    def is_full(self, person: str) -> bool:
        return self._running[person] >= self._per_person or self._running.total() >= self._in_all

    @asynccontextmanager
    async def slot(self, person: str) -> AsyncGenerator[None, None]:
        async with self._changed:
            while self.is_full(person):
                await self._changed.wait()
            self._running[person] += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._changed:
                    self._running[person] -= 1
                    self._running += Counter()  # drops zeros
                    self._changed.notify_all()


class ChatState(Value, kw_only=True, frozen=True):
    """The session that a chat is in."""

    run: str
    session: str
    to: str
    direct: bool
    last_at: datetime


def state_after(event: ChatReceived) -> ChatState:
    """The session of a chat once this message was received."""
    return ChatState(
        run=event.run,
        session=event.session,
        to=event.to,
        direct=event.message.direct,
        last_at=event.at,
    )


class ChatSessions:
    def __init__(self, settings: TalkSettings) -> None:
        self._settings = settings
        self._current: dict[str, ChatState] = {}
        self._by_run: OrderedDict[str, ChatState] = OrderedDict()
        self._waiting: dict[str, ChatReceived] = {}
        self._known = LimitedTable[str, None](MAX_KNOWN_KEYS)
        self._spoken: set[str] = set()

    async def load(self, journal: Journal, now: datetime) -> None:
        history = max(MIN_HISTORY, timedelta(seconds=self._settings.idle))
        since = None if self._settings.reset == "none" else now - history
        async for recorded in journal.read(kinds=CHAT_KINDS, since=since):
            self.apply(recorded.event)
        async for recorded in journal.read(kinds=("chat.voice",)):
            self.apply(recorded.event)

    def apply(self, event: object) -> None:
        match event:
            case ChatReceived():
                self._receive(event)
            case ChatHandled():
                for key in event.keys:
                    self._waiting.pop(key, None)
            case ChatSessionEnded():
                state = self._current.get(event.session)
                if state is not None and state.run == event.run:
                    del self._current[event.session]
            case ChatVoiceChosen():
                (self._spoken.add if event.on else self._spoken.discard)(event.session)
            case _:
                pass

    def _receive(self, event: ChatReceived) -> None:
        key = message_key(event.message)
        self._known[key] = None
        self._waiting[key] = event
        state = state_after(event)
        self._current[event.session] = self._by_run[event.run] = state
        self._by_run.move_to_end(event.run)
        while len(self._by_run) > MAX_KNOWN_RUNS:
            self._by_run.popitem(last=False)

    def is_known(self, key: str) -> bool:
        return key in self._known

    def is_spoken(self, session: str) -> bool:
        """Return whether the answers in this chat are also spoken."""
        return session in self._spoken

    def current(self, session: str) -> ChatState | None:
        return self._current.get(session)

    def by_run(self, run: str) -> ChatState | None:
        """The chat of a run or of one of its subagents; also after the session has ended."""
        return self._by_run.get(run.partition("/")[0])

    def has_thread(self, address: Address) -> bool:
        return str(address) in self._current

    @property
    def waiting(self) -> Mapping[str, ChatReceived]:
        """Received and not handled, by key, in the order in which they arrived."""
        return self._waiting

    def why_over(self, state: ChatState, now: datetime) -> Literal["idle", "daily", ""]:
        """Return why a message at this time begins a new session; empty when it does not."""
        settings = self._settings
        if settings.reset == "idle" and (now - state.last_at).total_seconds() > settings.idle:
            return "idle"
        if settings.reset == "daily" and state.last_at < last_daily_reset(settings.daily_at, now):
            return "daily"
        return ""

    def touch(self, run: str, now: datetime) -> None:
        """Hermes answered: the time without a message begins again."""
        state = self._by_run.get(run)
        if state is not None:
            later = replace(state, last_at=max(now, state.last_at))
            self._by_run[run] = later
            if self._current.get(state.session) == state:
                self._current[state.session] = later


def last_daily_reset(daily_at: str, now: datetime) -> datetime:
    hour, _, minute = daily_at.partition(":")
    local = now.astimezone()
    reset = datetime.combine(local.date(), time(int(hour), int(minute or 0)), local.tzinfo)
    if reset > local:
        reset -= timedelta(days=1)
    return reset.astimezone(UTC)


async def last_references(journal: Journal, channel: str) -> dict[Address, str]:
    """The last recorded message of each chat of a channel; the chat used last is the last one."""
    found: dict[Address, str] = {}
    since = datetime.now(UTC) - CATCH_UP_PERIOD
    async for recorded in journal.read(kinds=("chat.received",), since=since):
        event = recorded.event
        if not isinstance(event, ChatReceived) or event.message.address.channel != channel:
            continue
        message = event.message
        if message.reference and not message.edited and not message.pressed:
            found.pop(message.address, None)
            found[message.address] = message.reference
    return found
