"""The doors of the house.

A plug-in implements one of these and names itself in an entry-point group of the same name
(`hermes.models`, `hermes.tools`, ...). Nothing here is inherited from: shape is enough. Optional
powers are Protocols of their own, asked for with `isinstance`, never methods that do nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self, runtime_checkable

from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.events import Event
from hermes.core.events.base import RunOrigin, UnknownEvent
from hermes.core.messages import (
    Completion,
    CompletionDelta,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    Value,
)


class Model(Protocol):
    """A language model behind some provider. Raises `ModelError`, nothing else."""

    name: str
    window: int
    """How many tokens of conversation fit."""

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion: ...


@runtime_checkable
class StreamsText(Protocol):
    """A model that shows its answer while writing it; the last item is the whole answer."""

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]: ...


class CommandResult(Value, kw_only=True, frozen=True):
    exit_code: int
    output: str
    """Both streams as they came, head and tail kept when it was too much."""
    dropped_bytes: int = 0
    timed_out: bool = False
    seconds: float = 0.0


class Environment(Protocol):
    """A place where commands run: this host, a container, a remote machine, a cloud sandbox.

    Working folder, exported variables and shell state persist from one `run` to the next, as in
    one shell; runs side by side each start from the state as it then is. A failing command is a
    `CommandResult`; `EnvironmentFailed` means that the place itself failed. Cancelling a run, or its
    time-out, ends the whole process tree.
    """

    name: str
    """The kind: local, sandbox, docker, ssh..."""
    target: str
    """Which one: a host, a container, an image. Policies and people read it."""
    isolated: bool
    """True when nothing done here can hurt the host; policies are kinder to isolated places."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult: ...
    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file; raises `ToolError` when there is none or it cannot be read."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file in one step, making its folders; raises `ToolError` when it cannot."""
        ...


class BackgroundProcess(Protocol):
    """A running background process, wherever it lives."""

    handle: str
    """What `find` needs to see it again after a crash of ours: opaque, survives a restart."""
    pid: int | None

    async def output(self) -> bytes:
        """The next piece of output; empty at the end."""
        ...

    async def write(self, data: bytes) -> None: ...
    async def wait(self) -> int | None: ...
    async def kill(self) -> None:
        """End the whole tree: first asking, then not."""
        ...


@runtime_checkable
class StartsProcesses(Protocol):
    """An environment that can keep a command running in the background."""

    async def start(
        self, command: str, *, pty: bool = False, cwd: str = ""
    ) -> BackgroundProcess: ...
    async def find(self, handle: str) -> BackgroundProcess | None:
        """A process started by an earlier life of ours, or None when it is gone."""
        ...


@runtime_checkable
class KnowsWorkingDirectory(Protocol):
    """An environment that can say in which folder its session is now."""

    @property
    def folder(self) -> str: ...


class ConfinedEnvironment(Environment, Protocol):
    """An environment whose commands are held to a profile; its session is that of another."""

    def collect(self) -> list[BlockedAccess]:
        """What its commands tried beyond the profile since this was last asked."""
        ...


@runtime_checkable
class ReportsRefusals(Protocol):
    """A process that can say what the kernel refused it, and what it was judged to do."""

    judged: str

    def refused(self) -> list[BlockedAccess]:
        """What was refused since this was last asked."""
        ...


@runtime_checkable
class ConfinesCommands(Protocol):
    """An environment that can hold commands to what they were judged to do."""

    async def kernel_support(self) -> KernelSupport:
        """What can be enforced here, found out once."""
        ...

    def confined(self, profile: ConfinementProfile) -> ConfinedEnvironment:
        """The same place and session. A profile that cannot be applied refuses the command."""
        ...


class ProcessInfo(Value, kw_only=True, frozen=True):
    """A background process as it is now."""

    id: str
    command: str
    environment: str
    status: Literal["running", "exited", "killed", "lost", "expired"]
    started_at: datetime
    pid: int | None = None
    exit_code: int | None = None
    output_bytes: int = 0
    run: str = ""


class BackgroundProcesses(Protocol):
    """Background processes by id. Raises `ToolError` for an id it does not know."""

    async def start(
        self,
        environment: Environment,
        command: str,
        *,
        run: str,
        pty: bool = False,
        cwd: str = "",
        watch: Sequence[str] = (),
    ) -> ProcessInfo: ...
    def list(self, run: str | None = None) -> Sequence[ProcessInfo]: ...
    async def poll(self, id: str) -> tuple[ProcessInfo, str]:
        """How it is, and what it printed since the last poll."""
        ...

    async def log(self, id: str, *, offset: int = 0, limit: int = 200) -> str:
        """Lines of what is still in its rolling buffer; a negative offset counts from the end."""
        ...

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo: ...
    async def kill(self, id: str) -> ProcessInfo: ...
    async def write(self, id: str, data: bytes) -> None: ...


class ArtifactStore(Protocol):
    """Long texts kept beside the journal and referred to by name."""

    async def save(self, run: str, name: str, text: str) -> str: ...
    async def load(self, reference: str) -> str:
        """Raises `ToolError` when there is no such artifact."""
        ...


@dataclass(frozen=True)
class ToolContext:
    """What a tool may touch. If it is not here, a tool cannot reach it."""

    run: str
    environment: Environment
    publish: Callable[..., Awaitable[Sequence[int]]]
    call: Callable[[ToolCall], Awaitable[ToolResult]]
    """The same road the model takes: how a tool uses another tool."""
    artifacts: ArtifactStore
    ask: Callable[[str, Sequence[str]], Awaitable[str | None]] | None = None
    """Puts a question to the person in front of us; None when there is none."""
    processes: BackgroundProcesses | None = None
    """Background processes of this house; None where none may be started."""
    origin: RunOrigin = "cli"


class Tool(Protocol):
    """Something the model can ask for. `ToolError` is told to the model; other errors are bugs."""

    spec: ToolSpec

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str: ...


@runtime_checkable
class ShowsCommand(Protocol):
    """A tool that is a command in disguise. Raises `ToolError` for arguments that do not fit."""

    def command(self, arguments: Mapping[str, Any]) -> str: ...


class JournalRecord(Value, frozen=True):
    seq: int
    event: Event | UnknownEvent


class Journal(Protocol):
    """The append-only memory of everything that happened.

    Numbers are given in the order in which `append` is called, and grow across all processes.
    When `append` returns, the events are kept, whatever happens to this process. Raises
    `StoreError`, nothing else.
    """

    async def append(self, *events: Event) -> Sequence[int]: ...
    def read(
        self,
        *,
        after: int = 0,
        run: str | None = None,
        kinds: Sequence[str] = (),
        since: datetime | None = None,
    ) -> AsyncIterator[JournalRecord]: ...
    async def last(self) -> int:
        """The newest number, 0 when empty."""
        ...

    async def changed(self, after: int) -> None:
        """Return once there is an event past `after`, written by any process."""
        ...


@runtime_checkable
class SearchesText(Protocol):
    """A journal whose words can be searched."""

    async def search(self, text: str, *, limit: int = 10) -> Sequence[JournalRecord]: ...
