"""Connects the outbox with one channel: a plain sink here, a chat in `chat_transport`."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import anyio

from hermes.core.events.operations import NotificationQueued
from hermes.core.messages import Value
from hermes.core.notifications import NotificationSink

PACE_WINDOW_S = 60.0


class SendingPace(Value, kw_only=True, frozen=True):
    """Limits how often messages are sent, so that the platform does not answer with a rate
    limit."""

    interval_s: float = 1.0
    """Seconds between two messages to one chat."""
    per_minute: int = 20
    """Messages to one chat within a minute."""
    per_second_in_all: float = 25.0
    """Messages to all chats."""


@dataclass
class TransportRequest:
    """An attempt to deliver a notification."""

    notice: NotificationQueued
    destination: str
    repeated: bool = False
    """It may have arrived before."""
    edited: str = ""
    """Reference of the message that it replaces."""
    thread: str = ""
    """Address of the thread of its incident."""
    first_message: str = ""
    """Reference of the first message about its incident."""
    pieces: int = 0
    """Pieces that arrived, in an earlier attempt or this one."""


class DeliveryReceipt(Value, frozen=True):
    reference: str = ""
    thread: str = ""


class Transport(Protocol):
    name: str
    """What delivers to it when a message names no chat."""

    def serves(self, destination: str) -> bool: ...

    def pace_delay(self, destination: str, now: float) -> float:
        """Seconds until the next message may be sent there."""
        ...

    def lease_s(self, timeout_s: float) -> float:
        """Seconds after which an attempt of another process without a result is over."""
        ...

    async def deliver(self, request: TransportRequest, timeout_s: float) -> DeliveryReceipt:
        """Raises `DeliveryError`; other exceptions count as one."""
        ...


class SinkTransport:
    """Every message is one call of the sink, which knows no threads, edits and buttons."""

    def __init__(self, sink: NotificationSink) -> None:
        self.name, self._sink = sink.name, sink

    def serves(self, destination: str) -> bool:
        return destination == self.name

    def pace_delay(self, destination: str, now: float) -> float:
        return 0.0

    def lease_s(self, timeout_s: float) -> float:
        return timeout_s * 2

    async def deliver(self, request: TransportRequest, timeout_s: float) -> DeliveryReceipt:
        with anyio.fail_after(timeout_s):
            await self._sink.send(request.notice, request.repeated)
        return DeliveryReceipt()


class LanePace:
    """Says when the next message may be sent, for each chat and for all."""

    def __init__(self, pace: SendingPace) -> None:
        self._pace = pace
        self._sent: dict[str, deque[float]] = {}
        self._last = float("-inf")

    def delay(self, chat: str, now: float) -> float:
        pace, sent = self._pace, self._sent.get(chat)
        soonest = self._last + 1 / pace.per_second_in_all
        if sent:
            soonest = max(soonest, sent[-1] + pace.interval_s)
            if len(sent) >= pace.per_minute:
                soonest = max(soonest, sent[-pace.per_minute] + PACE_WINDOW_S)
        return max(0.0, soonest - now)

    def note_sent(self, chat: str, now: float) -> None:
        self._last = now
        self._sent.setdefault(chat, deque(maxlen=self._pace.per_minute)).append(now)
        if len(self._sent) > 1_000:
            self._sent = {
                name: sent for name, sent in self._sent.items() if sent[-1] > now - PACE_WINDOW_S
            }
