"""Folds events into what is to be delivered, to whom, and what earlier messages are called."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from hermes.core.channels import Address
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord
from hermes.plumbing.limited_table import LimitedTable

DELIVERY_KINDS = ("notice.queued", "notice.tried", "notice.sent")
DELIVERY_HISTORY = timedelta(days=30)
"""Older notifications are not read again after a start."""
MAX_KNOWN_IDS = 50_000
MAX_REFERENCES = 5_000
"""Of the newest messages: older ones are not edited or answered any more."""


class DeliveryAttempt(Value, frozen=True):
    """A delivery that was started and has no result yet."""

    seq: int
    by: str
    at: datetime


class PendingDelivery:
    """A notification that is to be delivered to one destination."""

    def __init__(self, seq: int, notice: NotificationQueued, destination: str) -> None:
        self.seq, self.notice, self.destination = seq, notice, destination
        self.tries = 0
        self.attempts: list[DeliveryAttempt] = []
        self.may_have_arrived = False
        """An attempt failed in such a way that it may have arrived."""
        self.pieces = 0
        """Pieces of it that arrived."""
        self.not_before: datetime | None = None
        """What the platform asked for."""

    @property
    def order_key(self) -> str:
        """Notifications with the same key are delivered in order."""
        return self.notice.incident or self.notice.to or self.notice.notice

    def may_repeat(self, me: str) -> bool:
        """An earlier attempt may have arrived."""
        return self.may_have_arrived or any(each.by != me for each in self.attempts)


class DeliveryState:
    """A destination is the name of a sink, or the address of a chat."""

    def __init__(self) -> None:
        self._pending: dict[str, dict[str, PendingDelivery]] = {}
        self._known = LimitedTable[str, str](MAX_KNOWN_IDS)
        """Maps each id to itself, so that all tables share one string."""
        self._subjects = LimitedTable[str, tuple[str, str]](MAX_REFERENCES)
        """By notification: its incident, and the notification that it edits; most have neither."""
        self._references = LimitedTable[tuple[str, str], str](MAX_REFERENCES)
        self._threads = LimitedTable[tuple[str, str], str](MAX_REFERENCES)
        self._incidents = LimitedTable[str, str](MAX_REFERENCES)
        """By the address of their thread."""
        self._incidents_of_messages = LimitedTable[tuple[str, str], str](MAX_REFERENCES)
        self._first_messages = LimitedTable[tuple[str, str], str](MAX_REFERENCES)

    def apply(self, recorded: JournalRecord) -> None:
        match recorded.event:
            case NotificationQueued() as event:
                self._queued(recorded.seq, event)
            case NotificationAttempted() as event:
                if delivery := self.pending(event.sink, event.notice):
                    self._tried(delivery, recorded.seq, event)
            case NotificationSent() as event:
                self._remove(event.sink, event.notice)
                self._sent(event)
            case _:
                pass

    def pending(self, destination: str, notice: str) -> PendingDelivery | None:
        """Return None when it is sent or given up, or was never for this destination."""
        return self._pending.get(destination, {}).get(notice)

    def waiting(self, destination: str) -> Sequence[PendingDelivery]:
        """Pending deliveries in the order in which they were queued."""
        return tuple(self._pending.get(destination, {}).values())

    def destinations(self) -> tuple[str, ...]:
        """Return the destinations to which something is to be delivered."""
        return tuple(self._pending)

    def has_newer(self, delivery: PendingDelivery) -> bool:
        """Return whether something newer about the same, or a newer edit of the same, is
        pending."""
        notice = delivery.notice
        for each in self._pending.get(delivery.destination, {}).values():
            if each.seq <= delivery.seq:
                continue
            if notice.about == "update" and each.order_key == delivery.order_key:
                return True
            if notice.edits and each.notice.edits == notice.edits:
                return True
        return False

    def reference(self, destination: str, notice: str) -> str:
        """Return what the platform calls the message that shows this notification; empty:
        unknown."""
        return self._references.get((destination, notice)) or ""

    def thread(self, destination: str, incident: str) -> str:
        """The address of the thread of an incident; empty: there is none."""
        return self._threads.get((destination, incident)) or ""

    def incident_of_thread(self, address: str) -> str:
        """The incident whose thread this is; empty: no incident has it."""
        return self._incidents.get(address) or ""

    def incident_of_message(self, destination: str, reference: str) -> str:
        """The incident that this message of ours is about; empty: none that is known."""
        return self._incidents_of_messages.get((destination, reference)) or ""

    def first_message(self, destination: str, incident: str) -> str:
        """The reference of the first message about an incident."""
        return self._first_messages.get((destination, incident)) or ""

    def _queued(self, seq: int, event: NotificationQueued) -> None:
        if event.notice in self._known:  # another process queued the same
            return
        self._known[event.notice] = event.notice
        if event.incident or event.edits:
            self._subjects[event.notice] = (event.incident, event.edits)
        for name in dict.fromkeys((*event.sinks, event.to)):
            if name:
                waiting = self._pending.setdefault(name, {})
                waiting[event.notice] = PendingDelivery(seq, event, name)

    def _tried(self, delivery: PendingDelivery, seq: int, event: NotificationAttempted) -> None:
        if event.given_up:
            self._remove(event.sink, event.notice)
        elif event.error:
            delivery.tries += not event.wait  # a rate limit says nothing about the destination
            delivery.may_have_arrived = delivery.may_have_arrived or event.unsure
            delivery.attempts = [each for each in delivery.attempts if each.by != event.by]
            delivery.pieces = max(delivery.pieces, event.pieces)
            if event.wait:
                delivery.not_before = event.at + timedelta(seconds=event.wait)
        else:
            delivery.attempts.append(DeliveryAttempt(seq, event.by, event.at))

    def _sent(self, event: NotificationSent) -> None:
        notice = self._known.get(event.notice)
        if notice is None or not event.reference:
            return
        incident, edits = self._subjects.get(notice) or ("", "")
        self._references[sys.intern(event.sink), notice] = event.reference
        if edits:  # the message that later edits of the same replace
            self._references[event.sink, edits] = event.reference
        if incident:
            self._incidents_of_messages[event.sink, event.reference] = incident
            key = (event.sink, incident)
            if event.thread:
                self._threads[key] = event.thread
                self._incidents[event.thread] = incident
            if key not in self._first_messages:
                self._first_messages[key] = event.reference

    def _remove(self, destination: str, notice: str) -> None:
        waiting = self._pending.get(destination, {})
        waiting.pop(notice, None)
        if not waiting:
            self._pending.pop(destination, None)


class WaitingDestination(Value, frozen=True):
    """Messages that no process has tried to deliver."""

    destination: str
    count: int
    since: datetime


async def read_deliveries(journal: Journal, now: datetime) -> DeliveryState:
    """The state after all events so far. Raises `StoreError`."""
    state = DeliveryState()
    async for recorded in journal.read(kinds=DELIVERY_KINDS, since=now - DELIVERY_HISTORY):
        state.apply(recorded)
    return state


def untried_destinations(
    state: DeliveryState, before: datetime, *, wanted: Callable[[str], bool] = lambda channel: True
) -> Iterator[WaitingDestination]:
    """Return where messages from before this time wait while no process tries to deliver them."""
    for destination in state.destinations():
        waiting = [
            each
            for each in state.waiting(destination)
            if not each.attempts and not each.tries and each.notice.at < before
        ]
        if waiting and wanted(Address.parse(destination).channel):
            since = min(each.notice.at for each in waiting)
            yield WaitingDestination(destination, len(waiting), since)
