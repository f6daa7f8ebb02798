"""What tools need in tests: a real executor, policy, journal and environment."""

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from hermes.core.actions import Action, Approval, Decision, Policy
from hermes.core.bus import Bus
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import Environment, Tool, ToolContext
from hermes.core.run_ids import new_id
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.tools.conversation import make_todo
from hermes.tools.dependencies import ToolDependencies
from hermes.tools.executor import Executor
from hermes.tools.files.patch import make_patch
from hermes.tools.files.read_write import make_read_file, make_write_file
from hermes.tools.files.search import search_files
from idle_parts import MemoryArtifacts
from risk_policy import RiskPolicy


class Person:
    """Answers every approval the same way, and remembers what was asked."""

    def __init__(self, *, says: bool) -> None:
        self.says = says
        self.asked: list[Action] = []

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        self.asked.append(action)
        return Approval(approved=self.says, by="person")


class ToolSetup:
    def __init__(
        self,
        environment: Environment,
        tools: Mapping[str, Tool],
        *,
        policy: Policy | None = None,
        person: Person | None = None,
        journal: InMemoryJournal | None = None,
    ) -> None:
        self.journal = journal or InMemoryJournal()
        self.bus = Bus(self.journal)
        self.artifacts = MemoryArtifacts()
        self.environment = environment
        self.person = person or Person(says=True)
        self.executor = Executor(tools, policy or RiskPolicy(), self.person, self.bus)

    def context(self, run: str = "run", **more: Any) -> ToolContext:
        async def nothing(call: ToolCall) -> ToolResult:
            raise AssertionError("the executor gives tools their own way to call")

        return ToolContext(
            run=run,
            environment=self.environment,
            publish=self.bus.publish,
            call=nothing,
            artifacts=self.artifacts,
            **more,
        )

    async def result(self, name: str, /, *, run: str = "run", **arguments: Any) -> ToolResult:
        call = ToolCall(new_id("call"), name, arguments)
        return await self.executor.execute(call, self.context(run))

    async def ok(self, name: str, /, *, run: str = "run", **arguments: Any) -> str:
        result = await self.result(name, run=run, **arguments)
        assert result.status == "ok", result.content
        return result.content

    async def fails(self, name: str, /, *, run: str = "run", **arguments: Any) -> str:
        result = await self.result(name, run=run, **arguments)
        assert result.status == "error", result.content
        return result.content

    @property
    def kinds(self) -> Sequence[str]:
        return [event.kind for event in self.journal.events]


async def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - another process cannot set an event of ours
            await anyio.sleep(0.01)


@asynccontextmanager
async def local(folder: Path, **variables: str) -> AsyncGenerator[LocalEnvironment, None]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", **variables}
    async with LocalEnvironment(folder, known) as environment:
        yield environment


def file_tools() -> dict[str, Tool]:
    dependencies = ToolDependencies()
    makers = (make_read_file, make_write_file, make_patch, make_todo)
    made = [make(dependencies) for make in makers]
    return {tool.spec.name: tool for tool in (*made, search_files)}
