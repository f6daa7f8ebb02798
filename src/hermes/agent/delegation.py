"""Subagents: the `delegate` tool, their runs, deadlines, and partial results from the journal."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Literal, Protocol

import anyio
import msgspec

from hermes.agent.compression import digest_messages
from hermes.agent.dependencies import AgentDependencies
from hermes.agent.history import rebuild_history
from hermes.agent.prompt import SUBAGENT_PROMPT
from hermes.core.errors import HermesError, SettingsError, StoreError, ToolError
from hermes.core.events.runs import MessageAdded, RunStarted, TurnEnded
from hermes.core.foreign_text import shorten_middle
from hermes.core.messages import Risk, Usage, Value
from hermes.core.protocols import Journal, ToolContext
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import MAX_PREVIEW_CHARS, Executor

MAX_TEXTS, MAX_RESULTS = 3, 5


async def partial_findings(journal: Journal, run: str) -> str:
    """Return its last texts and tool results, shortened; empty when it had not begun."""
    try:
        messages = (await rebuild_history(journal, run)).view
    except SettingsError:
        return ""
    texts = [m.text for m in messages if m.role == "assistant" and m.text.strip()][-MAX_TEXTS:]
    results = [m.result.content for m in messages if m.result is not None][-MAX_RESULTS:]
    if not texts and not results:
        return "It had found nothing yet."
    parts = ["What it had found so far:", *(shorten_middle(text, 1500) for text in texts)]
    steps = digest_messages([m for m in messages if m.role == "assistant" or m.result], 1500)
    parts += ["Its steps:", steps] if results else []
    parts += (
        ["Its last results:", *(shorten_middle(text, 800) for text in results)] if results else []
    )
    return "\n\n".join(parts)


async def last_answer(journal: Journal, run: str) -> str:
    """The last answer of a run that had ended before its parent read it."""
    messages = (await rebuild_history(journal, run)).messages
    return next((m.text for m in reversed(messages) if m.role == "assistant" and m.text), "")


DELEGATE_TOOL_NAME = "delegate"


class SubagentTask(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    goal: Annotated[str, about("what to find out or do, complete in itself")]
    context: Annotated[str, about("what it must know; it sees nothing of this conversation")] = ""
    tools: Annotated[list[str], about("names; empty: all of yours")] = []
    model: Annotated[str, about("another one")] = ""
    max_iterations: int = 0
    max_tokens: int = 0
    timeout: Annotated[float, about("seconds")] = 0.0


class SubagentReport(Value, kw_only=True, frozen=True):
    status: Literal["answered", "exhausted", "failed", "timed out"]
    answer: str
    run: str
    seconds: float
    tokens: int


class SubagentRun(Value, frozen=True):
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
    async def finish_open_turn(self) -> str | None: ...


OpenSubagent = Callable[[AgentDependencies, SubagentRun], Awaitable[Subagent]]


def delegation_depth(run: str) -> int:
    return run.count("/sub-")


def delegate_tool(
    dependencies: AgentDependencies, open_subagent: OpenSubagent, *, directory: str = ""
) -> FunctionTool:
    crew = SubagentPool(dependencies, open_subagent, directory)

    async def delegate(context: ToolContext, tasks: list[SubagentTask]) -> str:
        """Give independent tasks to subagents that work in parallel and report back.

        For several investigations at once, or one that would fill this conversation."""
        return await crew.run_tasks(context.run, tasks, by=context.actor)

    return tool(risk=Risk.READ)(delegate)


class SubagentPool:
    """The subagents of one conversation."""

    def __init__(
        self, dependencies: AgentDependencies, open_subagent: OpenSubagent, directory: str
    ) -> None:
        self.dependencies, self.open, self.directory = dependencies, open_subagent, directory
        self.slots = anyio.CapacityLimiter(max(dependencies.settings.max_subagents, 1))
        self.last_number: int | None = None
        self.lock = anyio.Lock()
        self.own_runs: set[str] = set()
        """Runs opened by this process."""

    async def run_tasks(self, parent: str, tasks: list[SubagentTask], by: str = "") -> str:
        if not tasks:
            raise ToolError("there is no task; give at least one with a goal")
        equipped = [replace(_dependencies_for(self.dependencies, task), by=by) for task in tasks]
        async with self.lock:
            runs = await self._runs(parent, tasks)
        reports: dict[int, SubagentReport] = {}
        share = max(MAX_PREVIEW_CHARS * 9 // 10 // len(tasks), 1000)

        async def one(index: int) -> None:
            async with self.slots:
                report = await self._run(equipped[index], runs[index], tasks[index])
            reports[index] = msgspec.structs.replace(
                report, answer=shorten_middle(report.answer, share)
            )

        async with anyio.create_task_group() as group:
            for index in range(len(tasks)):
                group.start_soon(one, index)
        return msgspec.json.encode([reports[index] for index in range(len(tasks))]).decode()

    async def _run(
        self, dependencies: AgentDependencies, sub: SubagentRun, task: SubagentTask
    ) -> SubagentReport:
        started, agent = time.monotonic(), None
        status: Literal["answered", "exhausted", "failed", "timed out"] = "timed out"
        answer = ""
        try:
            with anyio.move_on_after(_deadline(task, dependencies)):
                agent = await self.open(dependencies, sub)
                answer = await _run_task(agent, dependencies, sub, task)
                status = _turn_status(agent)
        except StoreError:
            raise
        except HermesError as error:
            status, answer = "failed", str(error)
        except Exception as error:  # noqa: BLE001 - one that dies must not take the others along
            status, answer = "failed", f"{type(error).__name__}: {error}"
        if status in ("failed", "timed out"):
            found = await partial_findings(dependencies.bus.journal, sub.run)
            answer = "\n\n".join(part for part in (answer, found) if part)
        return SubagentReport(
            status=status,
            answer=answer,
            run=sub.run,
            seconds=round(time.monotonic() - started, 2),
            tokens=agent.usage.tokens if agent else 0,
        )

    async def _runs(self, parent: str, tasks: list[SubagentTask]) -> list[SubagentRun]:
        """A run in the journal for each task: the one it had before a crash, else a new one."""
        orphans = await self._interrupted_runs(parent)
        runs = []
        for task in tasks:
            known = orphans.get(_task_prompt(task), [])
            run = known.pop(0) if known else await self._new_run(parent)
            runs.append(
                SubagentRun(run, parent, task.goal, self.directory, run not in self.own_runs)
            )
        self.own_runs.update(sub.run for sub in runs)
        return runs

    async def _new_run(self, parent: str) -> str:
        if self.last_number is None:
            self.last_number = 0
            async for recorded in self.dependencies.bus.journal.read(kinds=("run.started",)):
                self.last_number += _is_child(recorded.event, parent)
        self.last_number += 1
        run = f"{parent}/sub-{self.last_number}"
        self.own_runs.add(run)
        return run

    async def _interrupted_runs(self, parent: str) -> dict[str, list[str]]:
        """Subagents of the current message that an earlier process had begun."""
        journal, asked = self.dependencies.bus.journal, 0
        async for recorded in journal.read(run=parent, kinds=("message.added",)):
            event = recorded.event
            if isinstance(event, MessageAdded) and event.message.calls:
                asked = recorded.seq
        found: dict[str, list[str]] = {}
        async for recorded in journal.read(after=asked, kinds=("run.started",)):
            run = recorded.event.run
            if _is_child(recorded.event, parent) and run not in self.own_runs:
                prompt = (await rebuild_history(journal, run)).request(1)
                found.setdefault(prompt or "", []).append(run)
        return found


def _deadline(task: SubagentTask, dependencies: AgentDependencies) -> float:
    return task.timeout if task.timeout > 0 else dependencies.settings.subagent_timeout


def _is_child(event: object, parent: str) -> bool:
    return isinstance(event, RunStarted) and event.parent == parent


def _task_prompt(task: SubagentTask) -> str:
    return f"{task.goal}\n\nWhat you need to know:\n{task.context}" if task.context else task.goal


async def _run_task(
    agent: Subagent, dependencies: AgentDependencies, sub: SubagentRun, task: SubagentTask
) -> str:
    if not sub.known:
        return await agent.say(_task_prompt(task))
    return await agent.finish_open_turn() or await last_answer(dependencies.bus.journal, sub.run)


def _turn_status(agent: Subagent) -> Literal["answered", "exhausted", "failed"]:
    outcome = agent.ended.outcome if agent.ended else "failed"
    return "failed" if outcome == "interrupted" else outcome


def _dependencies_for(dependencies: AgentDependencies, task: SubagentTask) -> AgentDependencies:
    settings = dependencies.settings
    if task.max_iterations > 0:
        settings = msgspec.structs.replace(settings, max_iterations=task.max_iterations)
    if task.max_tokens > 0:
        limits = msgspec.structs.replace(settings.limits, subagent_tokens=task.max_tokens)
        settings = msgspec.structs.replace(settings, limits=limits)
    if task.model and dependencies.open_model is None:
        raise ToolError("no other model can be opened here; leave `model` empty")
    model = (
        dependencies.open_model(task.model)
        if task.model and dependencies.open_model
        else dependencies.model
    )
    return replace(
        dependencies,
        model=model,
        settings=settings,
        executor=_executor_for(dependencies.executor, task),
        ask=None,
        origin="subagent",
        sections=(*dependencies.sections, SUBAGENT_PROMPT),
    )


def _executor_for(executor: Executor, task: SubagentTask) -> Executor:
    available = {spec.name for spec in executor.specs}
    wanted = set(task.tools) - {DELEGATE_TOOL_NAME}
    if wanted - available:
        raise ToolError(
            f"no tool named {', '.join(sorted(wanted - available))}; there are: "
            f"{', '.join(sorted(available))}"
        )
    return executor.with_only(wanted) if task.tools else executor
