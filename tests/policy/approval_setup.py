"""What approvals need in tests: the real engine, a journal in memory, clocks set by hand."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from hermes.core.actions import Action, Approval
from hermes.core.bus import Bus
from hermes.core.events.approvals import ApprovalAnswered, ApprovalRequested
from hermes.core.messages import Risk, ToolCall
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.policy.approvals.approver import JournalApprover
from hermes.policy.approvals.request import ApprovalOptions
from hermes.policy.rules.rule import AskOptions, PolicyVerdict

START = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Clocks:
    """A wall clock that people may set, and one that only goes forward."""

    def __init__(self) -> None:
        self.wall = START
        self.ticks = 100.0

    def pass_(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.ticks += seconds


class TerminalPerson:
    """A person at the terminal, who answers when told to, and is told when it is settled."""

    def __init__(self, by: str = "me") -> None:
        self.by = by
        self.seen: list[tuple[ApprovalRequested, float]] = []
        self.gone = 0
        self.says: Approval | None = None
        self._spoke = anyio.Event()

    def say(self, approved: bool, scope: Any = "once") -> None:
        self.says = Approval(approved=approved, by=self.by, scope=scope)
        self._spoke.set()

    async def answer(
        self, action: Action, request: ApprovalRequested, announced: float = 0.0
    ) -> Approval:
        self.seen.append((request, announced))
        try:
            await self._spoke.wait()
        finally:
            self.gone += 1
        assert self.says is not None
        return self.says


class ApprovalSetup:
    """One process with its engine; `again` is its next life on the same journal."""

    def __init__(
        self,
        party: Any = None,
        *,
        journal: InMemoryJournal | None = None,
        clocks: Clocks | None = None,
        kept: list[str] | None = None,
        **manners: Any,
    ) -> None:
        self.journal = journal or InMemoryJournal()
        self.clocks = clocks or Clocks()
        self.bus = Bus(self.journal)
        self.hash: Callable[[Action], str] = lambda action: "h-" + str(action.call.arguments)
        self.kept = [] if kept is None else kept
        self._manners = {"requester": "me", **manners}
        self.approvals = JournalApprover(
            self.bus,
            lambda action: PolicyVerdict(verdict="ask", rule="r", hash=self.hash(action)),
            ApprovalOptions(**self._manners),
            party,
            save_always=self._keep,
            clocks=(lambda: self.clocks.wall, lambda: self.clocks.ticks),
            tick=0.005,
        )

    def again(self, party: Any = None) -> "ApprovalSetup":
        return ApprovalSetup(party, journal=self.journal, clocks=self.clocks, **self._manners)

    def _keep(self, request: ApprovalRequested, by: str) -> str:
        self.kept.append(f"{request.hash} by {by}")
        return ""

    async def ask(
        self, id: str = "c1", *, ask: AskOptions | None = None, run: str = "run", **more: Any
    ) -> Approval:
        action = Action(
            call=ToolCall(id, "terminal", {"command": more.pop("command", "make it so")}),
            risk=Risk.CHANGE,
            run=run,
            origin="cli",
            environment="local",
            target="host",
            isolated=False,
        )
        verdict = PolicyVerdict(
            verdict="ask", rule="r", hash=self.hash(action), ask=ask or AskOptions(), **more
        )
        with anyio.fail_after(120):
            return await self.approvals(action, verdict)

    async def answered(self, by: str, approved: bool = True, **more: Any) -> None:
        """Another process answers the newest question."""
        await until(lambda: self.requests)
        request = self.requests[-1]
        at = more.pop("at", self.clocks.wall)
        await self.bus.publish(
            ApprovalAnswered(
                run=request.run,
                at=at,
                approval=request.approval,
                approved=approved,
                by=by,
                **more,
            )
        )

    @property
    def requests(self) -> list[ApprovalRequested]:
        return [e for e in self.journal.events if isinstance(e, ApprovalRequested)]

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.journal.events if event.kind == kind]

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.events("approval.settled")]


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await anyio.sleep(0.001)


async def while_asking(
    asked: Awaitable[Approval], meanwhile: Callable[[], Awaitable[object]]
) -> Approval:
    """What the answer is when this happens in the meantime."""
    found: list[Approval] = []

    async def one() -> None:
        found.append(await asked)

    async with anyio.create_task_group() as group:
        group.start_soon(one)
        await meanwhile()
    return found[0]
