"""Delivers everything that goes to people, and retries until each message is sent or given up.

A message is in the journal before it is sent, and so is each attempt. After a crash it is sent
again, marked as repeated. Two processes that serve the same channel do not send it twice.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec.structs import replace

from hermes.core.bus import Bus
from hermes.core.channels import Address
from hermes.core.errors import DeliveryError, StoreError
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.foreign_text import visible_line
from hermes.core.incident import WATCH_RUN
from hermes.core.notifications import DeliveryOptions
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.gateway.delivery_state import (
    DELIVERY_HISTORY,
    DELIVERY_KINDS,
    DeliveryState,
    PendingDelivery,
)
from hermes.gateway.transports import DeliveryReceipt, Transport, TransportRequest

MAX_RETRY_PAUSE_S = 60.0
"""The longest pause between two attempts, unless the platform asks for more."""
UNDELIVERED_PREFIX = "undelivered"
MAX_PAUSES = 500
"""Pauses that are remembered; those that are over are removed then."""


class Outbox:
    """`run` delivers until it is cancelled. `transports`: those that are always there."""

    def __init__(
        self, bus: Bus, transports: Sequence[Transport], settings: DeliveryOptions
    ) -> None:
        self._bus, self._transports, self._settings = bus, list(transports), settings
        self._state = DeliveryState()
        self.sender_id = new_id("sender")
        self._since = datetime.now(UTC)
        self._seen = 0
        self._changed = anyio.Event()
        self._not_before: dict[tuple[str, str], float] = {}
        self._lanes: set[str] = set()
        self._group: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Raises `StoreError` when the journal cannot be read."""
        last = await self._resume()
        async with anyio.create_task_group() as self._group:
            self._start_lanes()
            task_status.started()
            while True:
                newest = await self._bus.journal.last()
                async for recorded in self._read_new(last):
                    last = recorded.seq
                    self._apply(recorded)
                last = max(last, newest)
                self._advance_to(last)
                await self._bus.journal.changed(last)

    async def _read_new(self, after: int) -> AsyncGenerator[JournalRecord, None]:
        """While the journal cannot be written, only those who read all kinds get the events that
        are held in memory: messages about exactly that are among them."""
        try:
            async for recorded in self._bus.journal.read(after=after, kinds=DELIVERY_KINDS):
                after = recorded.seq
                yield recorded
        except StoreError:
            async for recorded in self._bus.journal.read(after=after):
                if recorded.event.kind in DELIVERY_KINDS:
                    yield recorded

    @asynccontextmanager
    async def serving(self, transport: Transport) -> AsyncGenerator[None, None]:
        """Deliver through this transport, too, while the block lasts."""
        self._transports.append(transport)
        self._start_lanes()
        try:
            yield
        finally:
            self._transports.remove(transport)
            self._wake()

    @property
    def waiting(self) -> int:
        """Messages that are to be delivered, by this process or another."""
        return sum(len(self._state.waiting(each)) for each in self._state.destinations())

    def incident_of_thread(self, address: Address) -> str:
        """The incident that this thread was opened for; empty: none."""
        return self._state.incident_of_thread(str(address))

    def incident_of_message(self, address: Address, reference: str, home_chat: str) -> str:
        """The incident that a message of ours in this chat is about; empty: none."""
        destinations = [str(address), *([address.channel] if address.chat == home_chat else [])]
        found = (self._state.incident_of_message(each, reference) for each in destinations)
        return next(filter(None, found), "")

    async def wait_until_delivered(self) -> None:
        """Return once everything that is queued so far is sent or given up."""
        await self._wait_until_applied(await self._bus.journal.last())
        while any(map(self._transport, self._state.destinations())):
            await self._changed.wait()

    async def _resume(self) -> int:
        """Read what an earlier process did not deliver."""
        last = await self._bus.journal.last()
        since = datetime.now(UTC) - DELIVERY_HISTORY
        async for recorded in self._bus.journal.read(kinds=DELIVERY_KINDS, since=since):
            if recorded.seq <= last:
                self._state.apply(recorded)
        self._advance_to(last)
        return last

    def _apply(self, recorded: JournalRecord) -> None:
        self._state.apply(recorded)
        self._start_lanes()
        self._advance_to(recorded.seq)

    def _advance_to(self, seq: int) -> None:
        self._seen = max(self._seen, seq)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait_until_applied(self, seq: int) -> None:
        while self._seen < seq:
            await self._changed.wait()

    def _transport(self, destination: str) -> Transport | None:
        return next((each for each in self._transports if each.serves(destination)), None)

    def _start_lanes(self) -> None:
        """Start a task for each destination to which something is to be delivered."""
        if self._group is None:
            return
        for destination in self._state.destinations():
            if destination not in self._lanes and self._transport(destination) is not None:
                self._lanes.add(destination)
                self._group.start_soon(self._serve, destination)

    async def _serve(self, destination: str) -> None:
        """Deliver until nothing is left for this destination."""
        try:
            while (transport := self._transport(destination)) is not None:
                changed = self._changed
                delivery, pause = self._next(destination, transport)
                if delivery is not None:
                    await self._deliver(transport, delivery)
                elif self._state.waiting(destination):
                    with anyio.move_on_after(pause):
                        await changed.wait()
                else:
                    return
        finally:
            self._lanes.discard(destination)

    def _next(self, destination: str, transport: Transport) -> tuple[PendingDelivery | None, float]:
        """The oldest delivery that is the first of its key and not paused, or the seconds to
        wait."""
        now, soonest, keys = anyio.current_time(), MAX_RETRY_PAUSE_S, set[str]()
        for delivery in self._state.waiting(destination):
            if delivery.order_key in keys:
                continue
            keys.add(delivery.order_key)
            left = self._not_before.get((destination, delivery.order_key), 0.0) - now
            left = max(left, _seconds_left(delivery), transport.pace_delay(destination, now))
            if left <= 0:
                return delivery, 0.0
            soonest = min(soonest, left)
        return None, soonest

    async def _deliver(self, transport: Transport, delivery: PendingDelivery) -> None:
        if reason := self._skip_reason(delivery):
            await self._write(self._tried(delivery, error=reason, given_up=True))
            return
        repeated = delivery.may_repeat(self.sender_id)
        seq = await self._write(self._tried(delivery))
        lease_s = transport.lease_s(self._settings.timeout)
        if self._is_taken_by_other(delivery, seq, lease_s):
            self._pause(delivery, lease_s)
            return
        if wait := _seconds_left(delivery):  # another process got the notification just now
            await self._failed(transport, delivery, DeliveryError("waits", retry_after_s=wait), 0)
            return
        request = self._request(delivery, repeated)
        result = await self._send(transport, request)
        if isinstance(result, DeliveryError):
            await self._failed(transport, delivery, result, request.pieces)
            return
        sent = NotificationSent(
            run=delivery.notice.run,
            notice=delivery.notice.notice,
            sink=delivery.destination,
            repeated=repeated,
            tries=delivery.tries + 1,
            reference=result.reference,
            thread=result.thread,
        )
        await self._write(sent)

    def _request(self, delivery: PendingDelivery, repeated: bool) -> TransportRequest:
        notice, destination = delivery.notice, delivery.destination
        return TransportRequest(
            notice=notice,
            destination=destination,
            repeated=repeated,
            edited=self._state.reference(destination, notice.edits) if notice.edits else "",
            thread=self._state.thread(destination, notice.incident),
            first_message=self._state.first_message(destination, notice.incident),
            pieces=0 if repeated else delivery.pieces,
        )

    async def _send(
        self, transport: Transport, request: TransportRequest
    ) -> DeliveryReceipt | DeliveryError:
        try:
            return await transport.deliver(request, self._settings.timeout)
        except DeliveryError as error:
            return error
        except TimeoutError:
            limit = self._settings.timeout
            return DeliveryError(f"no answer within {limit:g} s", may_have_arrived=True)
        except Exception as error:  # noqa: BLE001 - the failure of one sink must not stop the others
            return DeliveryError(f"{type(error).__name__}: {error}", may_have_arrived=True)

    async def _failed(
        self, transport: Transport, delivery: PendingDelivery, error: DeliveryError, pieces: int
    ) -> None:
        last = delivery.tries + 1 >= self._settings.tries and not error.retry_after_s
        given_up = error.permanent or last
        self._pause(delivery, min(self._settings.pause * 2**delivery.tries, MAX_RETRY_PAUSE_S))
        if given_up and not delivery.notice.notice.startswith(UNDELIVERED_PREFIX):
            # Before the result is written, in case of a crash.
            await self._notify_others(transport, delivery, str(error))
        tried = self._tried(delivery, error=visible_line(str(error), 300), given_up=given_up)
        await self._write(
            replace(
                tried,
                unsure=error.may_have_arrived,
                wait=error.retry_after_s,
                pieces=pieces,
            )
        )

    async def _notify_others(
        self, transport: Transport, delivery: PendingDelivery, error: str
    ) -> None:
        text = f"first lost: {delivery.notice.title}\nwhy: {visible_line(error, 300)}"
        await self._write(self.failure_report(delivery.destination, transport.name, text))

    def failure_report(self, where: str, transport: str, text: str) -> NotificationQueued:
        """For the other transports: at most one an hour about each place."""
        others = tuple(each.name for each in self._transports if each.name != transport)
        return NotificationQueued(
            run=WATCH_RUN,
            notice=f"{UNDELIVERED_PREFIX}:{where}:{datetime.now(UTC):%Y-%m-%dT%H}",
            about="health",
            title=f"📪 {where} cannot be reached",
            text=text,
            sinks=others,
        )

    def _skip_reason(self, delivery: PendingDelivery) -> str:
        age = datetime.now(UTC) - delivery.notice.at
        if age > timedelta(seconds=self._settings.stale):
            return "too old to be sent"
        return "a newer one is pending" if self._state.has_newer(delivery) else ""

    def _is_taken_by_other(self, delivery: PendingDelivery, mine: int, lease_s: float) -> bool:
        """Return whether another running process started first. An attempt from before our start
        without a result was interrupted."""
        fresh = max(self._since, datetime.now(UTC) - timedelta(seconds=lease_s))
        return any(
            each.by != self.sender_id and each.seq < mine and each.at >= fresh
            for each in delivery.attempts
        )

    def _pause(self, delivery: PendingDelivery, seconds: float) -> None:
        key = delivery.destination, delivery.order_key
        now = anyio.current_time()
        if len(self._not_before) > MAX_PAUSES:
            self._not_before = {k: until for k, until in self._not_before.items() if until > now}
        self._not_before[key] = now + seconds

    def _tried(
        self, delivery: PendingDelivery, *, error: str = "", given_up: bool = False
    ) -> NotificationAttempted:
        notice = delivery.notice
        return NotificationAttempted(
            run=notice.run,
            notice=notice.notice,
            sink=delivery.destination,
            error=error,
            given_up=given_up,
            by=self.sender_id,
        )

    async def _write(
        self, event: NotificationQueued | NotificationAttempted | NotificationSent
    ) -> int:
        """Retry until it is written and applied, or the same notification would be sent again."""
        pause, numbers = self._settings.pause, list[int]()
        while not numbers:
            try:
                numbers += await self._bus.publish(event)
            except StoreError:
                await anyio.sleep(pause)
                pause = min(pause * 2, MAX_RETRY_PAUSE_S)
        await self._wait_until_applied(numbers[-1])
        return numbers[-1]


def _seconds_left(delivery: PendingDelivery) -> float:
    """Return how much is left of the pause that the platform asked for."""
    if delivery.not_before is None:
        return 0.0
    return max(0.0, (delivery.not_before - datetime.now(UTC)).total_seconds())
