"""Delivers notifications to sinks, and retries until each is sent or given up."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import replace

from hermes.core.bus import Bus
from hermes.core.errors import DeliveryError, StoreError
from hermes.core.events.operations import (
    NotificationAttempted,
    NotificationQueued,
    NotificationSent,
)
from hermes.core.foreign_text import visible_line
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.sre.notifications.composer import NotificationComposer
from hermes.sre.notifications.notification_state import NOTIFICATION_KINDS, NotificationState
from hermes.sre.notifications.sink_protocol import NotificationSink, SinkFilter
from hermes.sre.settings import NoticeSettings

DELIVERY_KINDS = ("notice.queued", "notice.tried", "notice.sent")
MAX_RETRY_PAUSE_S = 60.0
"""The longest pause between two attempts."""
UNDELIVERED_PREFIX = "undelivered"
CLOCK_CHECK_S = 1.0
"""Seconds between two checks for notifications that are due by time."""
MAX_BATCH_EVENTS = 20
IMMEDIATE_KINDS = frozenset(NOTIFICATION_KINDS) - {"notice.queued", "run.started"}
DELIVERY_HISTORY = timedelta(days=30)
"""Older notifications are not read again after a start."""


class DeliveryAttempt(Value, frozen=True):
    """A delivery that was started and has no result yet."""

    seq: int
    by: str
    at: datetime


class PendingDelivery:
    """One notification that is to be delivered to one sink."""

    def __init__(self, seq: int, notice: NotificationQueued) -> None:
        self.seq, self.notice = seq, notice
        self.tries = 0
        self.attempts: list[DeliveryAttempt] = []
        self.may_have_arrived = False
        """An attempt failed in such a way that it may have arrived."""

    @property
    def order_key(self) -> str:
        """Notifications with the same key are delivered in order."""
        return self.notice.incident or self.notice.notice

    def may_repeat(self, me: str) -> bool:
        """An earlier attempt may have arrived."""
        return self.may_have_arrived or any(each.by != me for each in self.attempts)


class DeliveryState:
    def __init__(self) -> None:
        self._pending: dict[str, dict[str, PendingDelivery]] = {}
        self._known: set[str] = set()

    def apply(self, recorded: JournalRecord) -> None:
        match recorded.event:
            case NotificationQueued() as event:
                self._queued(recorded.seq, event)
            case NotificationAttempted() as event:
                if delivery := self.pending(event.sink, event.notice):
                    self._tried(delivery, recorded.seq, event)
            case NotificationSent() as event:
                self._pending.get(event.sink, {}).pop(event.notice, None)
            case _:
                pass

    def pending(self, sink: str, notice: str) -> PendingDelivery | None:
        """None when it is sent or given up, or was never for this sink."""
        return self._pending.get(sink, {}).get(notice)

    def waiting(self, sink: str) -> Sequence[PendingDelivery]:
        """Pending deliveries in the order in which they were queued."""
        return tuple(self._pending.get(sink, {}).values())

    def has_newer(self, sink: str, delivery: PendingDelivery) -> bool:
        """Whether something newer about the same incident is pending."""
        return any(
            each.seq > delivery.seq and each.order_key == delivery.order_key
            for each in self._pending.get(sink, {}).values()
        )

    def _queued(self, seq: int, event: NotificationQueued) -> None:
        if event.notice in self._known:  # another watch queued the same
            return
        self._known.add(event.notice)
        for sink in event.sinks:
            self._pending.setdefault(sink, {})[event.notice] = PendingDelivery(seq, event)

    def _tried(self, delivery: PendingDelivery, seq: int, event: NotificationAttempted) -> None:
        if event.given_up:
            del self._pending[event.sink][event.notice]
        elif event.error:
            delivery.tries += 1
            delivery.may_have_arrived = delivery.may_have_arrived or event.unsure
            delivery.attempts = [each for each in delivery.attempts if each.by != event.by]
        else:
            delivery.attempts.append(DeliveryAttempt(seq, event.by, event.at))


class NotificationOutbox:
    """Pass all events to `apply`; `run` delivers until it is cancelled."""

    def __init__(
        self, bus: Bus, sinks: Sequence[NotificationSink], settings: NoticeSettings
    ) -> None:
        self._bus, self._sinks, self._settings = bus, tuple(sinks), settings
        self._state = DeliveryState()
        self._sender_id = new_id("teller")
        self._since = datetime.now(UTC)
        self._seen = 0
        self._changed = anyio.Event()
        self._not_before: dict[tuple[str, str], float] = {}

    def apply(self, recorded: JournalRecord) -> None:
        self._state.apply(recorded)
        self.advance_to(recorded.seq)

    def advance_to(self, seq: int) -> None:
        self._seen = max(self._seen, seq)
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_until_applied(self, seq: int) -> None:
        """Return once all events up to this number are applied."""
        while self._seen < seq:
            await self._changed.wait()

    @property
    def waiting(self) -> int:
        return sum(len(self._state.waiting(sink.name)) for sink in self._sinks)

    async def until_empty(self) -> None:
        while self.waiting:
            await self._changed.wait()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for sink in self._sinks:
                group.start_soon(self._serve, sink)

    async def _serve(self, sink: NotificationSink) -> None:
        while True:
            changed = self._changed
            delivery, pause = self._next(sink.name)
            if delivery is None:
                with anyio.move_on_after(pause):
                    await changed.wait()
            else:
                await self._deliver(sink, delivery)

    def _next(self, sink: str) -> tuple[PendingDelivery | None, float]:
        """The oldest delivery that is the first of its key and not paused, or the seconds to
        wait."""
        now, soonest, keys = anyio.current_time(), MAX_RETRY_PAUSE_S, set[str]()
        for delivery in self._state.waiting(sink):
            if delivery.order_key in keys:
                continue
            keys.add(delivery.order_key)
            left = self._not_before.get((sink, delivery.order_key), 0.0) - now
            if left <= 0:
                return delivery, 0.0
            soonest = min(soonest, left)
        return None, soonest

    async def _deliver(self, sink: NotificationSink, delivery: PendingDelivery) -> None:
        if reason := self._skip_reason(sink.name, delivery):
            await self._write(self._tried(sink, delivery, error=reason, given_up=True))
            return
        repeated = delivery.may_repeat(self._sender_id)
        seq = await self._write(self._tried(sink, delivery))
        if self._is_taken_by_other(delivery, seq):
            self._pause(sink, delivery, self._settings.timeout * 2)
            return
        failed = await self._send(sink, delivery.notice, repeated)
        if failed is None:
            sent = NotificationSent(
                run=delivery.notice.run,
                notice=delivery.notice.notice,
                sink=sink.name,
                repeated=repeated,
                tries=delivery.tries + 1,
            )
            await self._write(sent)
        else:
            await self._failed(sink, delivery, failed)

    async def _send(
        self, sink: NotificationSink, notice: NotificationQueued, repeated: bool
    ) -> DeliveryError | None:
        limit = self._settings.timeout
        try:
            with anyio.fail_after(limit):
                await sink.send(notice, repeated)
        except DeliveryError as error:
            return error
        except TimeoutError:
            return DeliveryError(f"no answer within {limit:g} s", may_have_arrived=True)
        except Exception as error:  # noqa: BLE001 - the failure of one sink must not stop the others
            return DeliveryError(f"{type(error).__name__}: {error}", may_have_arrived=True)
        return None

    async def _failed(
        self, sink: NotificationSink, delivery: PendingDelivery, error: DeliveryError
    ) -> None:
        given_up = error.permanent or delivery.tries + 1 >= self._settings.tries
        self._pause(
            sink, delivery, min(self._settings.pause * 2**delivery.tries, MAX_RETRY_PAUSE_S)
        )
        if given_up and not delivery.notice.notice.startswith(UNDELIVERED_PREFIX):
            # Before the result is written, in case of a crash.
            await self._notify_other_sinks(sink, delivery.notice, str(error))
        tried = self._tried(sink, delivery, error=visible_line(str(error), 300), given_up=given_up)
        await self._write(replace(tried, unsure=error.may_have_arrived))

    async def _notify_other_sinks(
        self, sink: NotificationSink, notice: NotificationQueued, error: str
    ) -> None:
        others = tuple(each.name for each in self._sinks if each is not sink)
        now = datetime.now(UTC)
        id = f"{UNDELIVERED_PREFIX}:{sink.name}:{now:%Y-%m-%dT%H}"  # at most once an hour
        text = f"first lost: {notice.title}\nwhy: {visible_line(error, 300)}"
        title = f"📪 {sink.name} cannot be reached"
        await self._write(
            NotificationQueued(
                run=WATCH_RUN, notice=id, about="health", title=title, text=text, sinks=others
            )
        )

    def _skip_reason(self, sink: str, delivery: PendingDelivery) -> str:
        age = datetime.now(UTC) - delivery.notice.at
        if age > timedelta(seconds=self._settings.stale):
            return "too old to be sent"
        if delivery.notice.about == "update" and self._state.has_newer(sink, delivery):
            return "a newer one is pending"
        return ""

    def _is_taken_by_other(self, delivery: PendingDelivery, mine: int) -> bool:
        """Whether another running watch started first. An attempt from before our start without a
        result was interrupted."""
        lease = timedelta(seconds=self._settings.timeout * 2)
        fresh = max(self._since, datetime.now(UTC) - lease)
        return any(
            each.by != self._sender_id and each.seq < mine and each.at >= fresh
            for each in delivery.attempts
        )

    def _pause(self, sink: NotificationSink, delivery: PendingDelivery, seconds: float) -> None:
        self._not_before[sink.name, delivery.order_key] = anyio.current_time() + seconds

    def _tried(
        self,
        sink: NotificationSink,
        delivery: PendingDelivery,
        *,
        error: str = "",
        given_up: bool = False,
    ) -> NotificationAttempted:
        notice = delivery.notice
        return NotificationAttempted(
            run=notice.run,
            notice=notice.notice,
            sink=sink.name,
            error=error,
            given_up=given_up,
            by=self._sender_id,
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
        await self.wait_until_applied(numbers[-1])
        return numbers[-1]


class Notifier:
    """Composes and delivers notifications. `sinks`: each with its filter."""

    def __init__(
        self,
        bus: Bus,
        sinks: Sequence[tuple[NotificationSink, SinkFilter]],
        settings: NoticeSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._bus, self._now = bus, now
        self._state = NotificationState()
        self._composer = NotificationComposer(settings, [wanted for _, wanted in sinks])
        self._outbox = NotificationOutbox(bus, [sink for sink, _ in sinks], settings)
        self._unwritten: list[NotificationQueued] = []
        self._has_unwritten = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Raises `StoreError` when the journal cannot be read."""
        last = await self._resume()
        async with anyio.create_task_group() as group:
            group.start_soon(self._outbox.run)
            group.start_soon(self._publish_queued)
            group.start_soon(self._compose_on_timer)
            task_status.started()
            async for recorded in self._bus.follow(after=last):
                self._state.apply(recorded)
                self._outbox.apply(recorded)
                # Compose before the next event: the incident may be over by then.
                if recorded.event.kind in IMMEDIATE_KINDS:
                    self._compose()

    async def wait_until_delivered(self) -> None:
        """Return once everything that is due so far is sent or given up."""
        await self._outbox.wait_until_applied(await self._bus.journal.last())
        self._compose()
        while self._unwritten:
            await self._outbox.wait_until_applied(await self._bus.journal.last() + 1)
        await self._outbox.until_empty()

    async def _resume(self) -> int:
        """Read what an earlier watch did not deliver."""
        last = await self._bus.journal.last()
        async for recorded in self._bus.journal.read(kinds=NOTIFICATION_KINDS):
            if recorded.seq <= last:
                self._state.apply(recorded)
        since = self._now() - DELIVERY_HISTORY
        async for recorded in self._bus.journal.read(kinds=DELIVERY_KINDS, since=since):
            if recorded.seq <= last:
                self._outbox.apply(recorded)
        self._outbox.advance_to(last)
        return last

    async def _compose_on_timer(self) -> None:
        while True:
            self._compose()
            await anyio.sleep(CLOCK_CHECK_S)

    def _compose(self) -> None:
        for notice in self._composer.compose(self._state, self._now()):
            self._state.mark_queued(notice)
            self._unwritten.append(notice)
            self._has_unwritten.set()

    async def _publish_queued(self) -> None:
        while True:
            while not self._unwritten:
                self._has_unwritten = anyio.Event()
                await self._has_unwritten.wait()
            try:
                await self._bus.publish(*self._unwritten[:MAX_BATCH_EVENTS])
                del self._unwritten[:MAX_BATCH_EVENTS]
            except StoreError:  # retry: the disk may be full
                await anyio.sleep(CLOCK_CHECK_S)
