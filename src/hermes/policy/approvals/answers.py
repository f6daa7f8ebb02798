"""Waits for answers to an approval request, counts them and watches the deadline."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

import anyio

from hermes.core.actions import Approval, ApprovalScope, approval_objection
from hermes.core.bus import Bus
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalEscalated,
    ApprovalRequested,
    GrantGiven,
)
from hermes.policy.approvals.grants import Grant

WallClock = Callable[[], datetime]
MonotonicClock = Callable[[], float]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class AnswerDeadline:
    """The time from `since` until `until`, which is over when either clock says so.

    The monotonic clock ignores changes of the time; the wall clock also counts while the machine
    sleeps and between two processes. If the wall clock is before `since`, it was set back and the
    elapsed time is unknown, so the deadline counts as over.
    """

    since: datetime
    until: datetime
    newest: datetime
    """The latest known time; it cannot be earlier now."""
    clock: WallClock = utc_now
    monotonic: MonotonicClock = time.monotonic
    begun: float = field(init=False)
    age: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.monotonic())
        object.__setattr__(self, "age", (self.clock() - self.since).total_seconds())

    @property
    def elapsed(self) -> float:
        """Seconds since the request; changes of the wall clock do not matter."""
        return self.age + self.monotonic() - self.begun

    @property
    def left(self) -> float:
        if self.age < 0 or self.newest >= self.until:
            return 0.0
        whole = (self.until - self.since).total_seconds()
        wall = (self.until - self.clock()).total_seconds()
        return max(min(whole - self.elapsed, wall), 0.0)


@dataclass(frozen=True)
class AnswerCountdown:
    """A fixed number of seconds in which a person could answer, by the monotonic clock."""

    seconds: float
    monotonic: MonotonicClock = time.monotonic
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "begun", self.monotonic())

    @property
    def elapsed(self) -> float:
        return self.monotonic() - self.begun

    @property
    def left(self) -> float:
        return max(self.seconds - self.elapsed, 0.0)


TallyOutcome = Literal["approved", "denied"]
_SCOPES: tuple[ApprovalScope, ...] = ("once", "session", "always")


class AnswerTally:
    """Counts answers in the order of the journal; after a decision, later ones are ignored."""

    def __init__(self, request: ApprovalRequested) -> None:
        self.request = request
        self.escalated: tuple[str, ...] = ()
        self.escalations = 0
        self.yes: dict[str, ApprovalAnswered] = {}
        self.no = ""
        """Who denied it."""
        self.note = ""
        self.via = ""

    def add(self, event: ApprovalAnswered | ApprovalEscalated | ActionStopped) -> str:
        """Return why it does not count; empty when it does."""
        if isinstance(event, ApprovalEscalated):
            self.escalated = (*self.escalated, *event.to)
            self.escalations += 1
            return ""
        if self.outcome is not None:
            return "it was settled before"
        if isinstance(event, ActionStopped):
            self.no = event.by or "somebody"
            return ""
        why = self.objection(event.by, approved=event.approved)
        if why:
            return why
        self.via, self.note = event.via, event.note
        if event.approved:
            self.yes.setdefault(event.by, event)  # two answers of the same person count once
        else:
            self.no = event.by or "somebody"
        return ""

    def objection(self, who: str, *, approved: bool) -> str:
        return approval_objection(self.request, who, approved=approved, escalated=self.escalated)

    @property
    def outcome(self) -> TallyOutcome | None:
        if self.no:
            return "denied"
        return "approved" if len(self.yes) >= self.request.count else None

    @property
    def scope(self) -> ApprovalScope:
        """The narrowest scope of all answers."""
        given = [_SCOPES.index(answer.scope) for answer in self.yes.values()]
        return _SCOPES[min(given, default=0)]

    @property
    def by(self) -> tuple[str, ...]:
        return (self.no,) if self.no else tuple(self.yes)


WaitResult = Literal["answered", "over", "granted", "unheard"]
CLOCK_CHECK_INTERVAL_S = 1.0
"""Seconds between checks of the clocks, which may have been changed."""

AskLocally = Callable[[], Awaitable[Approval]]


class AnswerWait:
    """All answers, also local ones, take effect in the order of the journal."""

    def __init__(
        self,
        bus: Bus,
        tally: AnswerTally,
        deadline: AnswerDeadline | AnswerCountdown,
        *,
        escalate: Sequence[tuple[float, tuple[str, ...]]] = (),
        granted: Callable[[], Awaitable[Grant | None]],
        tick: float = CLOCK_CHECK_INTERVAL_S,
    ) -> None:
        self.tally = tally
        self.grant: Grant | None = None
        self._bus = bus
        self._request = tally.request
        self._deadline = deadline
        self._escalate = sorted(escalate)
        self._granted = granted
        self._check_interval = tick
        self._done = anyio.Event()
        self._ended: WaitResult = "over"
        self.unheard_reason = ""
        """Why the person who is asked first could not answer."""

    async def wait(self, after: int, here: AskLocally | None, *, alone: bool) -> WaitResult:
        """`alone`: without a person present, do not wait for others either."""
        if self.tally.outcome is not None:
            return "answered"
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, after)
            group.start_soon(self._watch_deadline)
            if here is not None:
                group.start_soon(self._ask_locally, here, alone)
            await self._done.wait()
            group.cancel_scope.cancel()
        return self._ended

    def _end(self, how: WaitResult) -> None:
        if not self._done.is_set():
            self._ended = how
            self._done.set()

    async def _listen(self, after: int) -> None:
        request = self._request
        async for recorded in self._bus.follow(after=after, run=request.run):
            if self._deadline.left <= 0:
                return  # too late
            event = recorded.event
            if isinstance(event, ApprovalAnswered | ApprovalEscalated | ActionStopped):
                if event.approval == request.approval:
                    self.tally.add(event)
            elif isinstance(event, GrantGiven):  # possibly for the same action, asked in parallel
                self.grant = await self._granted()
            if self.grant is not None or self.tally.outcome is not None:
                self._end("granted" if self.grant is not None else "answered")
                return

    async def _watch_deadline(self) -> None:
        deadline = self._deadline
        waiting = list(self._escalate[self.tally.escalations :])
        while (left := deadline.left) > 0:
            while waiting and deadline.elapsed >= waiting[0][0]:
                _, to = waiting.pop(0)
                request = self._request
                await self._bus.publish(
                    ApprovalEscalated(run=request.run, approval=request.approval, to=to)
                )
            until = waiting[0][0] - deadline.elapsed if waiting else left
            await anyio.sleep(max(min(left, until, self._check_interval), 0.001))
        self._end("over")

    async def _ask_locally(self, here: AskLocally, alone: bool) -> None:
        answer = await here()
        if answer.by == "nobody" and not answer.approved:
            self.unheard_reason = answer.reason
            if alone:
                self._end("unheard")
            return
        request = self._request
        if self.tally.objection(answer.by, approved=answer.approved):
            return  # not allowed to answer; others may
        await self._bus.publish(
            ApprovalAnswered(
                run=request.run,
                approval=request.approval,
                approved=answer.approved,
                by=answer.by,
                scope=answer.scope,
                via="terminal",
                note=answer.reason,
            )
        )
