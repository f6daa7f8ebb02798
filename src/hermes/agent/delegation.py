"""The `delegate` tool: subagents side by side, each with its own run, tools, budget and deadline.

Delegating changes nothing by itself: whatever a subagent does takes the same road, through the
same executor and policy. Hence its risk is `read`, and after a crash it is simply called again;
it then goes on with the subagents it had, from what they wrote, rather than start new ones.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Protocol

import anyio
import msgspec

from hermes.agent.findings import findings, last_answer
from hermes.agent.history import recall
from hermes.agent.means import Means
from hermes.agent.prompt import SUBAGENT
from hermes.agent.results import shorten
from hermes.core.errors import HermesError, StoreError, ToolError
from hermes.core.events.runs import MessageAdded, RunStarted, TurnEnded
from hermes.core.messages import Risk, Usage, Value
from hermes.core.protocols import ToolContext
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import PREVIEW, Executor

NAME = "delegate"


class Task(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    goal: Annotated[str, about("What to find out or do, complete in itself.")]
    context: Annotated[str, about("What it must know; it sees nothing of this conversation.")] = ""
    tools: Annotated[list[str], about("Names of the tools it may use; empty: all of yours.")] = []
    model: Annotated[str, about("Another model, by name.")] = ""
    max_iterations: Annotated[int, about("Steps it may take.")] = 0
    max_tokens: Annotated[int, about("Tokens it may spend.")] = 0
    timeout: Annotated[float, about("Seconds until it is cut off.")] = 0.0


class Report(Value, kw_only=True, frozen=True):
    status: Literal["answered", "exhausted", "failed", "timed out"]
    answer: str
    run: str
    seconds: float
    tokens: int


@dataclass(frozen=True)
class SubRun:
    run: str
    parent: str
    goal: str
    directory: str
    known: bool
    """True when it is in the journal already: its parent was cut off."""


class Subagent(Protocol):
    @property
    def usage(self) -> Usage: ...
    @property
    def ended(self) -> TurnEnded | None: ...
    async def say(self, text: str) -> str: ...
    async def carry_on(self) -> str | None: ...


Open = Callable[[Means, SubRun], Awaitable[Subagent]]


def depth(run: str) -> int:
    return run.count("/sub-")


def delegate_tool(means: Means, open_subagent: Open, *, directory: str = "") -> FunctionTool:
    crew = Crew(means, open_subagent, directory)

    async def delegate(
        context: ToolContext,
        tasks: Annotated[list[Task], about("They run side by side.")],
    ) -> str:
        """Hand independent tasks to subagents that work side by side and report back.

        Worth it for several investigations at once or for one that would fill this conversation.
        Each answers with status, answer, run, seconds and tokens."""
        return await crew.work(context.run, tasks)

    return tool(risk=Risk.READ)(delegate)


@dataclass
class Crew:
    """The subagents of one conversation."""

    means: Means
    open: Open
    directory: str
    seats: anyio.CapacityLimiter = field(init=False)
    numbers: int | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    mine: set[str] = field(default_factory=set)
    """Runs opened in this life of the process."""

    def __post_init__(self) -> None:
        self.seats = anyio.CapacityLimiter(max(self.means.settings.max_subagents, 1))

    async def work(self, parent: str, tasks: list[Task]) -> str:
        if not tasks:
            raise ToolError("there is no task; give at least one with a goal")
        equipped = [_means_for(self.means, task) for task in tasks]
        async with self.lock:
            runs = await self._runs(parent, tasks)
        reports: dict[int, Report] = {}
        share = max(PREVIEW * 9 // 10 // len(tasks), 1000)

        async def one(index: int) -> None:
            async with self.seats:
                report = await self._run(equipped[index], runs[index], tasks[index])
            reports[index] = msgspec.structs.replace(report, answer=shorten(report.answer, share))

        async with anyio.create_task_group() as group:
            for index in range(len(tasks)):
                group.start_soon(one, index)
        return msgspec.json.encode([reports[index] for index in range(len(tasks))]).decode()

    async def _run(self, means: Means, sub: SubRun, task: Task) -> Report:
        started, agent = time.monotonic(), None
        status: Literal["answered", "exhausted", "failed", "timed out"] = "timed out"
        answer = ""
        try:
            with anyio.move_on_after(_deadline(task, means)):
                agent = await self.open(means, sub)
                answer = await _answer(agent, means, sub, task)
                status = _status(agent)
        except StoreError:
            raise
        except HermesError as error:
            status, answer = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - one that dies must not take the others along
            status, answer = "failed", f"{type(error).__name__}: {error}"
        if status in ("failed", "timed out"):
            found = await findings(means.bus.journal, sub.run)
            answer = "\n\n".join(part for part in (answer, found) if part)
        return Report(
            status=status,
            answer=answer,
            run=sub.run,
            seconds=round(time.monotonic() - started, 2),
            tokens=agent.usage.tokens if agent else 0,
        )

    async def _runs(self, parent: str, tasks: list[Task]) -> list[SubRun]:
        """A place in the journal for each task: the one it had before a crash, else a new one."""
        orphans = await self._orphans(parent)
        runs = []
        for task in tasks:
            known = orphans.get(_prompt(task), [])
            run = known.pop(0) if known else await self._new_run(parent)
            runs.append(SubRun(run, parent, task.goal, self.directory, run not in self.mine))
        self.mine.update(sub.run for sub in runs)
        return runs

    async def _new_run(self, parent: str) -> str:
        if self.numbers is None:
            self.numbers = 0
            async for recorded in self.means.bus.journal.read(kinds=("run.started",)):
                self.numbers += _is_child(recorded.event, parent)
        self.numbers += 1
        run = f"{parent}/sub-{self.numbers}"
        self.mine.add(run)
        return run

    async def _orphans(self, parent: str) -> dict[str, list[str]]:
        """Subagents of the message being worked on that an earlier life of ours had begun."""
        journal, asked = self.means.bus.journal, 0
        async for recorded in journal.read(run=parent, kinds=("message.added",)):
            event = recorded.event
            if isinstance(event, MessageAdded) and event.message.calls:
                asked = recorded.seq
        found: dict[str, list[str]] = {}
        async for recorded in journal.read(after=asked, kinds=("run.started",)):
            run = recorded.event.run
            if _is_child(recorded.event, parent) and run not in self.mine:
                prompt = (await recall(journal, run)).request(1)
                found.setdefault(prompt or "", []).append(run)
        return found


def _deadline(task: Task, means: Means) -> float:
    return task.timeout if task.timeout > 0 else means.settings.subagent_timeout


def _is_child(event: object, parent: str) -> bool:
    return isinstance(event, RunStarted) and event.parent == parent


def _prompt(task: Task) -> str:
    return f"{task.goal}\n\nWhat you need to know:\n{task.context}" if task.context else task.goal


async def _answer(agent: Subagent, means: Means, sub: SubRun, task: Task) -> str:
    if not sub.known:
        return await agent.say(_prompt(task))
    return await agent.carry_on() or await last_answer(means.bus.journal, sub.run)


def _status(agent: Subagent) -> Literal["answered", "exhausted", "failed"]:
    outcome = agent.ended.outcome if agent.ended else "failed"
    return "failed" if outcome == "interrupted" else outcome


def _means_for(means: Means, task: Task) -> Means:
    settings = means.settings
    if task.max_iterations > 0:
        settings = msgspec.structs.replace(settings, max_iterations=task.max_iterations)
    if task.max_tokens > 0:
        limits = msgspec.structs.replace(settings.limits, subagent_tokens=task.max_tokens)
        settings = msgspec.structs.replace(settings, limits=limits)
    if task.model and means.open_model is None:
        raise ToolError("no other model can be opened here; leave `model` empty")
    model = means.open_model(task.model) if task.model and means.open_model else means.model
    return replace(
        means,
        model=model,
        settings=settings,
        executor=_tools_for(means.executor, task),
        ask=None,
        origin="subagent",
        sections=(*means.sections, SUBAGENT),
    )


def _tools_for(executor: Executor, task: Task) -> Executor:
    there = {spec.name for spec in executor.specs}
    wanted = set(task.tools) - {NAME}
    if wanted - there:
        raise ToolError(
            f"no tool named {', '.join(sorted(wanted - there))}; there are: "
            f"{', '.join(sorted(there))}"
        )
    return executor.only(wanted) if task.tools else executor
