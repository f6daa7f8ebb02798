"""Every registered tool, called in an environment that records what is done there."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from hermes.core import plugins
from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import ToolError
from hermes.core.messages import ToolCall, ToolResult, ToolSpec
from hermes.core.protocols import CommandResult, Environment, ProcessInfo, Tool, ToolContext
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.tools.dependencies import ToolDependencies
from hermes.tools.executor import Executor
from idle_parts import IdleEnvironment, MemoryArtifacts

EXECUTOR = "executor.py"


def tools_of() -> dict[str, Tool]:
    """Whatever names itself in the entry-point group of tools, made as the catalogue makes it."""
    kit = ToolDependencies()
    loaded = {name: plugins.load_plugin("tools", name) for name in plugins.plugin_names("tools")}
    return {name: it if hasattr(it, "spec") else it(kit) for name, it in loaded.items()}


def arguments_for(spec: ToolSpec) -> list[dict[str, Any]]:
    """Arguments that fit: what must be given, with every choice where there are choices."""
    schema = spec.parameters
    wanted = schema.get("required", [])
    choices = [_values(schema["properties"][name], schema.get("$defs", {})) for name in wanted]
    return [dict(zip(wanted, values, strict=True)) for values in product(*choices)]


def _values(schema: Mapping[str, Any], known: Mapping[str, Any]) -> list[Any]:
    if "$ref" in schema:
        return _values(known[schema["$ref"].rpartition("/")[2]], known)
    if "enum" in schema:
        return list(schema["enum"])
    if "anyOf" in schema:
        return _values(schema["anyOf"][0], known)
    match schema.get("type"):
        case "string":
            return ["https://a.example/" if schema.get("format") == "uri" else "x"]
        case "integer" | "number":
            return [1]
        case "boolean":
            return [False]
        case "array":
            return [[_values(schema.get("items", {"type": "string"}), known)[0]]]
        case "object":
            properties = schema.get("properties", {})
            return [{k: _values(properties[k], known)[0] for k in schema.get("required", [])}]
    return ["x"]


@dataclass
class Records:
    """What was decided and touched, in order."""

    allows: bool = True
    decided: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    too_early: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def touch(self, what: str, words: str = "") -> None:
        told = f"{what} {words}".strip()
        self.touched.append(told)
        if not self.decided:
            self.too_early.append(told)

    def decide(self, action: Action) -> Decision:
        self.decided.append(action.call.name)
        return Decision(verdict="allow" if self.allows else "deny", rule="recorded")


class RecordingEnvironment(IdleEnvironment):
    """Nothing happens in it, and everything is recorded."""

    name, target, isolated = "canary", "nowhere", False

    def __init__(self, records: Records) -> None:
        self._records = records

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        self._records.touch("run", command)
        return CommandResult(exit_code=1, output="")

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        self._records.touch("read", path)
        raise ToolError("nothing here")

    async def write(self, path: str, data: bytes) -> None:
        self._records.touch("write", path)


class IdleProcesses:
    """One process that does nothing."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._view = ProcessInfo(
            id="x",
            command="sh",
            environment="canary",
            status="exited",
            started_at=datetime.now(UTC),
        )

    async def start(
        self, environment: Environment, command: str, *, run: str, **more: Any
    ) -> ProcessInfo:
        self._records.touch("start", command)
        return self._view

    def list(self, run: str | None = None) -> Sequence[ProcessInfo]:
        return [self._view]

    async def poll(self, id: str) -> tuple[ProcessInfo, str]:
        return self._view, ""

    async def log(self, id: str, *, offset: int = 0, limit: int = 200) -> str:
        return ""

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo:
        return self._view

    async def kill(self, id: str) -> ProcessInfo:
        self._records.touch("kill", id)
        return self._view

    async def write(self, id: str, data: bytes) -> None:
        self._records.touch("type", data.decode())


class RecordedTool:
    """A tool that records calls by others than the executor."""

    def __init__(self, tool: Tool, records: Records) -> None:
        self._tool = tool
        self._records = records
        self.spec = tool.spec

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        caller = Path(sys._getframe(1).f_code.co_filename).name
        if caller != EXECUTOR:
            self._records.elsewhere.append(f"{self.spec.name} was called by {caller}")
        return await self._tool(context, arguments)


async def walk(
    found: Tool,
    arguments: dict[str, Any],
    records: Records,
    place: RecordingEnvironment | None = None,
) -> str:
    """Executes one call; returns how it ended."""

    async def nobody(action: Action, decision: Decision) -> Approval:
        return Approval(approved=False, by="nobody")

    async def inner(call: ToolCall) -> ToolResult:
        raise AssertionError("the executor gives tools their own way to call")

    bus = Bus(InMemoryJournal())
    executor = Executor({found.spec.name: RecordedTool(found, records)}, records, nobody, bus)
    context = ToolContext(
        run="run",
        environment=place or RecordingEnvironment(records),
        publish=bus.publish,
        call=inner,
        artifacts=MemoryArtifacts(),
        processes=IdleProcesses(records),
    )
    call = ToolCall("call", found.spec.name, arguments)
    return (await executor.execute(call, context)).status
