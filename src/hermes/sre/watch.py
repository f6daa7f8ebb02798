"""Follows the event stream, lets triage open incidents, and has each one handled.

Alerts are events from any source: probes, webhooks, Prometheus, or a person in another process.
Incidents that were open when a watch ended are resumed by the next one.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import (
    AlertRaised,
    IncidentClosed,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    PhaseEntered,
)
from hermes.core.events.operations import WatchStarted, WatchStopped
from hermes.core.incident import (
    INCIDENT_KINDS,
    Incident,
    IncidentDetails,
    apply_incident_event,
    fold_incidents,
)
from hermes.core.incident import WATCH_RUN as WATCH_RUN
from hermes.core.protocols import JournalRecord
from hermes.sre.coordination import WorkInProgress, WorkWithdrawal
from hermes.sre.triage.triage import Triage

TICK_S = 0.5
"""Seconds between two calls of `Triage.tick`."""
JOURNAL_UNWRITABLE = (
    "waiting: the journal cannot be written, so nothing is changed; a person must act"
)
PROBLEM_OVER = "the problem is over"
APPROVAL_KINDS = ("approval.requested", "action.announced", "approval.settled")
WATCH_KINDS = (
    *INCIDENT_KINDS,
    "alert.raised",
    "alert.suppressed",
    "maintenance.added",
    "maintenance.ended",
    "watch.started",
    "watch.stopped",
    "health.checked",
    "run.started",
)


class IncidentHandler(Protocol):
    """Works on incidents. The watch does not know how, and so loads nothing of it."""

    async def handle(self, details: IncidentDetails, withdrawal: WorkWithdrawal) -> None:
        """Work on one incident to its end. Raises `StoreError`."""
        ...

    async def report(self, details: IncidentDetails) -> None:
        """Write the report of an incident. Raises `HermesError`."""
        ...


class IncidentWatch:
    def __init__(
        self,
        bus: Bus,
        triage: Triage,
        handler: IncidentHandler,
        *,
        max_concurrent: int = 20,
        probes: int = 0,
        until_writable: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`until_writable` returns once the journal can be written again: with it, the work on an
        incident waits for the journal instead of ending the watch."""
        self._bus, self._triage, self._handler = bus, triage, handler
        self._capacity = anyio.CapacityLimiter(max(1, max_concurrent))
        self._working: dict[str, WorkInProgress] = {}
        self._known: dict[str, Incident] = {}
        self._probes = probes
        self._until_writable = until_writable
        self.heartbeat_at: datetime | None = None

    def by_severity(self) -> dict[str, int]:
        """The number of unresolved incidents by severity."""
        return dict(Counter(each.severity for each in self._known.values() if each.unresolved))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run until cancelled. Raises `StoreError`: nothing is changed without a journal."""
        try:
            async with anyio.create_task_group() as group:
                last = await self._resume(group)
                task_status.started()
                group.start_soon(self._tick, group)
                await self._follow(group, last)
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._bus.publish(WatchStopped(run=WATCH_RUN))

    async def until_idle(self) -> None:
        """Return once there has been no work for some ticks."""
        still = 0
        while still < 4:
            await anyio.sleep(TICK_S)
            still = 0 if self._working else still + 1

    async def _resume(self, group: TaskGroup) -> int:
        """Rebuild the state from the journal and resume open incidents."""
        records = [each async for each in self._bus.journal.read(kinds=WATCH_KINDS)]
        drills = {e.event.run for e in records if getattr(e.event, "origin", "") == "gym"}
        records = [each for each in records if each.event.run not in drills]
        for recorded in records:
            self._triage.apply(recorded)
        await self._bus.publish(
            WatchStarted(
                run=WATCH_RUN, quiet=_seconds_since_last_sign(records), probes=self._probes
            )
        )
        self._known = fold_incidents(records)
        for each in self._known.values():
            if _needs_work(each):
                self._start_work(group, each.details)
        return records[-1].seq if records else 0

    async def _follow(self, group: TaskGroup, last: int) -> None:
        async for recorded in self._bus.follow(after=last):
            event = recorded.event
            if isinstance(event, AlertRaised):
                of_drill = event.run != WATCH_RUN
                answers = () if of_drill else self._triage.handle_alert(recorded, datetime.now(UTC))
                if answers:
                    await self._bus.publish(*answers)
                continue
            self._triage.apply(recorded)
            if _is_of_drill(event):
                continue
            apply_incident_event(self._known, recorded)
            if isinstance(event, IncidentOpened | IncidentReopened):
                known = self._known.get(event.incident)
                if event.incident in self._working:
                    group.start_soon(self._start_after_end, group, event.incident)
                elif known is not None and _needs_work(known):
                    self._start_work(group, known.details)
            elif isinstance(event, IncidentClosed) and event.by:
                self._stop_work(event.incident)
            elif isinstance(event, IncidentRecovered) and event.incident in self._known:
                self._working.pop(event.incident, None)
                group.start_soon(self._document, self._known[event.incident].details)

    async def _tick(self, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(TICK_S)
            self.heartbeat_at = now = datetime.now(UTC)
            events = [each for each in self._triage.tick(now) if not self._ends_work(group, each)]
            if events:
                await self._bus.publish(*events)

    def _ends_work(self, group: TaskGroup, event: Event) -> bool:
        """Return whether the event is the recovery of an incident that is worked on: the work has
        to end first."""
        if not isinstance(event, IncidentRecovered):
            return False
        known = self._known.get(event.incident)
        if known is None or not _needs_work(known):
            return False
        work = self._working.get(event.incident)
        if work is not None and not work.withdrawal.withdrawn and work.withdrawal.withdraw():
            work.scope.cancel()
            group.start_soon(self._recover, event, work)
        return True

    async def _recover(self, event: IncidentRecovered, work: WorkInProgress) -> None:
        await work.ended.wait()
        try:
            withdrawals = await self._withdraw_approvals(event.run)
        except StoreError:
            if self._until_writable is None:
                raise
            await self._bus.publish(event)  # a recovery is not reported later for that
            await self._until_writable()
            await self._bus.publish(*await self._withdraw_approvals(event.run))
        else:
            await self._bus.publish(*withdrawals, event)

    async def _withdraw_approvals(self, run: str) -> Sequence[Event]:
        """Return events that withdraw all unanswered questions of this run. Raises
        `StoreError`."""
        withdrawals: dict[str, Event] = {}
        async for recorded in self._bus.journal.read(kinds=APPROVAL_KINDS):
            each = recorded.event
            if isinstance(each, ApprovalRequested | ActionAnnounced):
                if each.approval and each.run.partition("/")[0] == run:
                    withdrawals[each.approval] = ApprovalSettled(
                        run=each.run, approval=each.approval, outcome="withdrawn", note=PROBLEM_OVER
                    )
            elif isinstance(each, ApprovalSettled):
                withdrawals.pop(each.approval, None)
        return list(withdrawals.values())

    async def _start_after_end(self, group: TaskGroup, incident: str) -> None:
        """Start the work on a reopened incident once its earlier work, whose end is published, has
        returned."""
        await self._working[incident].ended.wait()
        if _needs_work(self._known[incident]):
            self._start_work(group, self._known[incident].details)

    def _start_work(self, group: TaskGroup, details: IncidentDetails) -> None:
        if details.incident not in self._working:
            self._working[details.incident] = work = WorkInProgress()
            group.start_soon(self._work_on, details, work)

    def _stop_work(self, incident: str) -> None:
        """Cancel the work on an incident that a person has closed."""
        if incident in self._working:
            self._working[incident].scope.cancel()

    async def _document(self, details: IncidentDetails) -> None:
        """Write the report again: the one from the escalation lacks the recovery."""
        try:
            await self._handler.report(details)
        except StoreError:
            if self._until_writable is None:
                raise
            await self._until_writable()
            await self._document(details)
        except Exception:  # noqa: BLE001 - one incident's fault must not end the watch
            return  # `hermes incident report` renders it from the journal

    async def _work_on(self, details: IncidentDetails, work: WorkInProgress) -> None:
        try:
            with work.scope:
                await self._run_when_writable(details, work.withdrawal)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one incident's fault must not end the watch
            await self._bus.publish(
                IncidentClosed(
                    run=details.run,
                    incident=details.incident,
                    outcome="escalated",
                    reason=f"the work on it failed: {type(error).__name__}: {error}"[:500],
                )
            )
        finally:
            if not work.withdrawal.withdrawn:
                del self._working[details.incident]
            work.ended.set()

    async def _run_when_writable(
        self, details: IncidentDetails, withdrawal: WorkWithdrawal
    ) -> None:
        """Work on the incident while changes can be recorded. Otherwise it stays open, and is
        resumed once the journal can be written."""
        while True:
            try:
                async with self._capacity:
                    await self._handler.handle(details, withdrawal)
                return
            except StoreError:
                if self._until_writable is None:
                    raise
            known = self._known.get(details.incident)
            phase = known.phase if known is not None and known.phase is not None else "assess"
            await self._bus.publish(
                PhaseEntered(
                    run=details.run,
                    incident=details.incident,
                    phase=phase,
                    detail=JOURNAL_UNWRITABLE,
                )
            )
            await self._until_writable()


def _needs_work(incident: Incident) -> bool:
    """Return whether it is open and no question: nothing is done about what may be intended."""
    return incident.status == "open" and not incident.question


def _is_of_drill(event: object) -> bool:
    """Return whether the incident belongs to a drill, which the gym handles: its id differs from
    its run."""
    return isinstance(event, IncidentOpened) and event.run != event.incident


def _seconds_since_last_sign(records: Sequence[JournalRecord]) -> float | None:
    """Seconds since the last event that a watch of this home wrote."""
    signs = [each.event.at for each in records if each.event.kind in SIGN_OF_LIFE_KINDS]
    return max(0.0, (datetime.now(UTC) - signs[-1]).total_seconds()) if signs else None


SIGN_OF_LIFE_KINDS = ("watch.started", "watch.stopped", "health.checked", "incident.phase")
