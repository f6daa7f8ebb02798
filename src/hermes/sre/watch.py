"""The watch: reads the stream, lets triage decide what is an incident, and gives each a commander.

Alerts come from anywhere, as events: our probes, webhooks, Prometheus, a person at a terminal of
another process. Whatever was open when a watch ended is gone on with by the next one.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hermes.core.bus import Bus
from hermes.core.errors import HermesError, StoreError
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
from hermes.core.events.watching import WatchStarted, WatchStopped
from hermes.core.protocols import Recorded
from hermes.sre.case import Case
from hermes.sre.commander import Commander
from hermes.sre.ground import Ground, WorkGate
from hermes.sre.incident import KINDS as INCIDENT_KINDS
from hermes.sre.incident import Incident, folded, take

RUN = "watch"
BEAT = 0.5
"""Seconds between two looks at what ripens by itself."""
WAITING = "waiting: the journal cannot be written, so nothing is changed; a person must act"
PROBLEM_OVER = "the problem is over"
APPROVAL_KINDS = ("approval.requested", "action.announced", "approval.settled")
KINDS = (
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


class Triages(Protocol):
    """Pure: what is said by `hear` and `tick` is for the watch to publish."""

    def apply(self, recorded: Recorded) -> None: ...
    def hear(self, recorded: Recorded, now: datetime) -> Sequence[Event]: ...
    def tick(self, now: datetime) -> Sequence[Event]: ...


class Watch:
    """`ground` is asked once for each incident."""

    def __init__(
        self,
        bus: Bus,
        triage: Triages,
        ground: Callable[[Case], Ground],
        *,
        at_once: int = 20,
        probes: int = 0,
        until_writable: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`until_writable` returns once the journal can be written: where it is given, the work on
        an incident waits for that instead of ending the watch."""
        self._bus, self._triage, self._ground = bus, triage, ground
        self._seats = anyio.CapacityLimiter(max(1, at_once))
        self._working: dict[str, _Work] = {}
        self._known: dict[str, Incident] = {}
        self._probes = probes
        self._until_writable = until_writable
        self.alive_at: datetime | None = None

    @property
    def working(self) -> tuple[str, ...]:
        return tuple(self._working)

    def by_severity(self) -> dict[str, int]:
        """Incidents that are worked on or wait for people, counted."""
        return dict(Counter(each.severity for each in self._known.values() if each.unresolved))

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled. Raises `StoreError`: without a journal nobody may act."""
        try:
            async with anyio.create_task_group() as group:
                last = await self._take_up(group)
                task_status.started()
                group.start_soon(self._ripen, group)
                await self._follow(group, last)
        finally:
            with anyio.move_on_after(2, shield=True):
                await self._bus.publish(WatchStopped(run=RUN))

    async def until_idle(self) -> None:
        """Return once nothing has been worked on for a while, and nothing ripens any more."""
        still = 0
        while still < 4:
            await anyio.sleep(BEAT)
            still = 0 if self._working else still + 1

    async def _take_up(self, group: TaskGroup) -> int:
        """From the journal alone: what is open, and what nobody has answered yet."""
        records = [each async for each in self._bus.journal.read(kinds=KINDS)]
        drills = {e.event.run for e in records if getattr(e.event, "origin", "") == "gym"}
        records = [each for each in records if each.event.run not in drills]
        for recorded in records:
            self._triage.apply(recorded)
        await self._bus.publish(WatchStarted(run=RUN, quiet=_quiet(records), probes=self._probes))
        self._known = folded(records)
        for each in self._known.values():
            if _to_work_on(each):
                self._begin(group, each.case)
        return records[-1].seq if records else 0

    async def _follow(self, group: TaskGroup, last: int) -> None:
        async for recorded in self._bus.follow(after=last):
            event = recorded.event
            if isinstance(event, AlertRaised):
                if event.run == RUN:  # those of drills belong to their drill
                    await self._publish(self._triage.hear(recorded, datetime.now(UTC)))
                continue
            self._triage.apply(recorded)
            if _of_a_drill(event):
                continue
            take(self._known, recorded)
            if isinstance(event, IncidentOpened | IncidentReopened):
                known = self._known.get(event.incident)
                if known is not None and _to_work_on(known):
                    self._begin(group, known.case)
            elif isinstance(event, IncidentClosed) and event.by:
                self._leave(event.incident)
            elif isinstance(event, IncidentRecovered) and event.incident in self._known:
                self._working.pop(event.incident, None)
                group.start_soon(self._document, self._known[event.incident].case)

    async def _ripen(self, group: TaskGroup) -> None:
        while True:
            await anyio.sleep(BEAT)
            self.alive_at = now = datetime.now(UTC)
            events = self._triage.tick(now)
            await self._publish([each for each in events if not self._ends_work(group, each)])

    def _ends_work(self, group: TaskGroup, event: Event) -> bool:
        """Whether it says that a problem is over which is still worked on: that work ends first."""
        if not isinstance(event, IncidentRecovered):
            return False
        known = self._known.get(event.incident)
        if known is None or not _to_work_on(known):
            return False
        work = self._working.get(event.incident)
        if work is not None and not work.gate.withdrawn and work.gate.withdraw():
            work.scope.cancel()
            group.start_soon(self._recover, event, work)
        return True

    async def _recover(self, event: IncidentRecovered, work: "_Work") -> None:
        await work.ended.wait()
        asked: dict[str, Event] = {}
        async for recorded in self._bus.journal.read(kinds=APPROVAL_KINDS):
            each = recorded.event
            if isinstance(each, ApprovalRequested | ActionAnnounced):
                if each.approval and each.run.partition("/")[0] == event.run:
                    asked[each.approval] = ApprovalSettled(
                        run=each.run, approval=each.approval, outcome="withdrawn", note=PROBLEM_OVER
                    )
            elif isinstance(each, ApprovalSettled):
                asked.pop(each.approval, None)
        await self._publish([*asked.values(), event])

    async def _publish(self, events: Sequence[Event]) -> None:
        if events:
            await self._bus.publish(*events)

    def _begin(self, group: TaskGroup, case: Case) -> None:
        if case.incident not in self._working:
            self._working[case.incident] = work = _Work()
            group.start_soon(self._command, case, work)

    def _leave(self, incident: str) -> None:
        """A person has closed it: whoever works on it stops where they are."""
        if incident in self._working:
            self._working[incident].scope.cancel()

    async def _document(self, case: Case) -> None:
        """The report from its escalation does not know of the recovery."""
        try:
            await self._ground(case).report(case)
        except StoreError:
            if self._until_writable is None:
                raise
            await self._until_writable()
            await self._document(case)
        except HermesError:
            return  # the journal has everything, and `hermes incident report` reads that

    async def _command(self, case: Case, work: "_Work") -> None:
        try:
            with work.scope:
                await self._command_with_journal(case, work.gate)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one incident's fault must not end the watch
            await self._bus.publish(
                IncidentClosed(
                    run=case.run,
                    incident=case.incident,
                    outcome="escalated",
                    reason=f"the work on it failed: {type(error).__name__}: {error}"[:500],
                )
            )
        finally:
            if not work.gate.withdrawn:
                del self._working[case.incident]
            work.ended.set()

    async def _command_with_journal(self, case: Case, gate: WorkGate) -> None:
        """Changes are made only while they can be recorded. Until then the incident waits, stays
        open, and is gone on with like one that an earlier watch left."""
        while True:
            try:
                async with self._seats:
                    ground = replace(self._ground(case), gate=gate)
                    await Commander(ground, case).command()
                return
            except StoreError:
                if self._until_writable is None:
                    raise
            known = self._known.get(case.incident)
            phase = known.phase if known is not None and known.phase is not None else "assess"
            await self._bus.publish(
                PhaseEntered(run=case.run, incident=case.incident, phase=phase, detail=WAITING)
            )
            await self._until_writable()


class _Work:
    """One commander that works."""

    def __init__(self) -> None:
        self.scope, self.gate, self.ended = anyio.CancelScope(), WorkGate(), anyio.Event()


def _to_work_on(incident: Incident) -> bool:
    """A question is for people: no playbook acts on what may be intended."""
    return incident.status == "open" and not incident.question


def _of_a_drill(event: object) -> bool:
    """The incident of a drill is not named like its run, and is commanded there."""
    return isinstance(event, IncidentOpened) and event.run != event.incident


def _quiet(records: Sequence[Recorded]) -> float | None:
    """Seconds since the last sign of life of a watch on this home."""
    signs = [each.event.at for each in records if each.event.kind in SIGNS]
    return max(0.0, (datetime.now(UTC) - signs[-1]).total_seconds()) if signs else None


SIGNS = ("watch.started", "watch.stopped", "health.checked", "incident.phase")
