"""Waits for one answer: from the person in front of us, from any other process, or from time."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import anyio

from hermes.core.actions import Approval
from hermes.core.bus import Bus
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalEscalated,
    GrantGiven,
)
from hermes.policy.approvals_clock import Countdown, Deadline
from hermes.policy.approvals_tally import Tally
from hermes.policy.grants import Grant

Ended = Literal["answered", "over", "granted", "unheard"]
TICK = 1.0
"""Seconds after which the clocks are looked at again: somebody may have set one."""

Here = Callable[[], Awaitable[Approval]]


class Vigil:
    """Answers take effect in the order in which the journal has them, those given here too."""

    def __init__(
        self,
        bus: Bus,
        tally: Tally,
        deadline: Deadline | Countdown,
        *,
        escalate: Sequence[tuple[float, tuple[str, ...]]] = (),
        granted: Callable[[], Awaitable[Grant | None]],
        tick: float = TICK,
    ) -> None:
        self.tally = tally
        self.grant: Grant | None = None
        self._bus = bus
        self._request = tally.request
        self._deadline = deadline
        self._escalate = sorted(escalate)
        self._granted = granted
        self._tick = tick
        self._done = anyio.Event()
        self._ended: Ended = "over"

    async def keep(self, after: int, here: Here | None, *, alone: bool) -> Ended:
        """`alone`: when nobody is here to answer, nobody anywhere is waited for."""
        if self.tally.outcome is not None:
            return "answered"
        async with anyio.create_task_group() as group:
            group.start_soon(self._listen, after)
            group.start_soon(self._keep_time)
            if here is not None:
                group.start_soon(self._ask_here, here, alone)
            await self._done.wait()
            group.cancel_scope.cancel()
        return self._ended

    def _end(self, how: Ended) -> None:
        if not self._done.is_set():
            self._ended = how
            self._done.set()

    async def _listen(self, after: int) -> None:
        request = self._request
        async for recorded in self._bus.follow(after=after, run=request.run):
            if self._deadline.left <= 0:
                return  # too late, even if nobody has said so yet
            event = recorded.event
            if isinstance(event, ApprovalAnswered | ApprovalEscalated | ActionStopped):
                if event.approval == request.approval:
                    self.tally.add(event)
            elif isinstance(event, GrantGiven):  # perhaps for the same, asked side by side
                self.grant = await self._granted()
            if self.grant is not None or self.tally.outcome is not None:
                self._end("granted" if self.grant is not None else "answered")
                return

    async def _keep_time(self) -> None:
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
            await anyio.sleep(max(min(left, until, self._tick), 0.001))
        self._end("over")

    async def _ask_here(self, here: Here, alone: bool) -> None:
        answer = await here()
        if answer.by == "nobody" and not answer.approved:
            if alone:
                self._end("unheard")
            return
        request = self._request
        if self.tally.objection(answer.by, approved=answer.approved):
            return  # it would not count; others may still answer
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
