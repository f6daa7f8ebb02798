"""The protocols of models, environments, tools, journals and artifact stores.

A plug-in implements one of these and names itself in an entry-point group of the same name
(`hermes.models`, `hermes.tools`, ...). Nothing here is inherited from: matching methods are enough.
Optional abilities are Protocols of their own, checked with `isinstance`, never methods that do
nothing; where each call checks them, with `provides`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

from hermes.core.actions import BlockedAccess, ConfinementProfile, KernelSupport
from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.base import RunOrigin, UnknownEvent
from hermes.core.messages import (
    Completion,
    CompletionDelta,
    Message,
    OutgoingRequest,
    Picture,
    RemoteTarget,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolSpec,
    Value,
)

Ability = TypeVar("Ability")


def provides(value: object, ability: Callable[..., Ability]) -> TypeGuard[Ability]:
    """As `isinstance` with a Protocol of methods. Python 3.11 collects the names of the methods
    again for each object, which takes 10 to 20 µs."""
    return all(getattr(value, name, None) is not None for name in _method_names(ability))


@cache
def _method_names(ability: Any) -> frozenset[str]:
    names = {name for kind in ability.__mro__ for name in vars(kind) if not name.startswith("_")}
    assert names, f"{ability.__name__} has no methods"
    return frozenset(names)


class Model(Protocol):
    """A language model of some provider. Raises `ModelError`, nothing else."""

    name: str
    window: int
    """How many tokens of conversation fit."""

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion: ...


@runtime_checkable
class StreamsText(Protocol):
    """A model that streams its answer; the last item is the whole answer."""

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]: ...


@runtime_checkable
class SeesPictures(Protocol):
    """A model that may take pictures. One that does not have this gets their descriptions."""

    @property
    def sees_pictures(self) -> bool: ...


@runtime_checkable
class AsksOtherModels(Protocol):
    """A model that asks others before it answers."""

    def models_to_ask(self, messages: Sequence[Message]) -> Sequence[str]:
        """The names of all models that the next answer asks."""


class CommandResult(Value, kw_only=True, frozen=True):
    exit_code: int
    output: str
    """Both streams in order of arrival; the middle is dropped when it is too long."""
    dropped_bytes: int = 0
    timed_out: bool = False
    seconds: float = 0.0


class Environment(Protocol):
    """Where commands run: this host, a container, a remote machine, a cloud sandbox.

    Working folder, exported variables and shell state persist from one `run` to the next, as in one
    shell; parallel runs each start from the current state. A failing command is a `CommandResult`;
    `EnvironmentFailed` means that the environment failed. Cancelling a run, or its timeout, ends
    the whole process tree.
    """

    name: str
    """The kind: local, sandbox, docker, ssh..."""
    target: str
    """Which one: a host, a container, an image. Policies and people read it."""
    isolated: bool
    """True when nothing done here can damage the host; policies are less strict then."""

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
        """Bytes of a file; raises `ToolError` when it does not exist or cannot be read."""

    async def write(self, path: str, data: bytes) -> None:
        """Replace a file atomically, creating its folders; raises `ToolError` when it cannot."""


class BackgroundProcess(Protocol):
    """A running background process of an environment."""

    handle: str
    """What `find` needs to find it again after a crash of Hermes: opaque, survives a restart."""
    pid: int | None

    async def output(self) -> bytes:
        """The next part of the output; empty at the end."""

    async def write(self, data: bytes) -> None: ...
    async def wait(self) -> int | None: ...
    async def kill(self) -> None:
        """End the whole process tree: with SIGTERM first, then with SIGKILL."""


@runtime_checkable
class StartsProcesses(Protocol):
    """An environment that can keep a command running in the background."""

    async def start(
        self, command: str, *, pty: bool = False, cwd: str = ""
    ) -> BackgroundProcess: ...
    async def find(self, handle: str) -> BackgroundProcess | None:
        """A process that an earlier process of ours started, or None when it is gone."""


class PipedProcess(Protocol):
    """A program that is spoken to over raw pipes. It ends with its block, and with Hermes."""

    pid: int

    async def receive(self) -> bytes:
        """The next part of its output; empty at the end."""

    async def send(self, data: bytes) -> None:
        """Raises `EnvironmentFailed` when it reads no more."""

    async def wait(self) -> int: ...
    def last_errors(self) -> str:
        """The end of what it wrote to its error stream."""


@runtime_checkable
class StartsPipedProcesses(Protocol):
    """An environment that can run a program with raw pipes, as long as a block lasts."""

    def open_piped(
        self,
        argv: Sequence[str],
        *,
        variables: Mapping[str, str],
        cwd: str = "",
        log: Path | None = None,
        scratch: Path | None = None,
    ) -> AbstractAsyncContextManager[PipedProcess]:
        """Runs it with exactly these variables; its error stream is kept in `log`, and `scratch` is
        a folder that is made for it and removed with it. Where it does not run on this host, it
        has its own PATH and HOME as well, and `scratch` is refused.

        At the end of the block, when Hermes ends and when it is killed, its whole process tree
        ends. Raises `EnvironmentFailed`.
        """


@runtime_checkable
class KnowsWorkingDirectory(Protocol):
    """An environment that knows the working directory of its session."""

    @property
    def folder(self) -> str: ...


class ConfinedEnvironment(Environment, Protocol):
    """An environment whose commands are confined to a profile; it shares the session of another."""

    def collect(self) -> list[BlockedAccess]:
        """Return what its commands tried beyond the profile since the last call."""


@runtime_checkable
class ReportsRefusals(Protocol):
    """A process that reports what the kernel refused, and what it was expected to do."""

    judged: str

    def refused(self) -> list[BlockedAccess]:
        """Return what was refused since the last call."""


@runtime_checkable
class ConfinesCommands(Protocol):
    """An environment that can confine commands to a profile."""

    async def kernel_support(self) -> KernelSupport:
        """Return what can be enforced here, determined once."""

    def confined(self, profile: ConfinementProfile) -> ConfinedEnvironment:
        """The same environment and session. If the profile cannot be applied, commands are
        refused."""


class ProcessInfo(Value, kw_only=True, frozen=True):
    """A background process and its current state."""

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
        check_interval: float = 0.0,
    ) -> ProcessInfo: ...
    def list(self, run: str | None = None) -> Sequence[ProcessInfo]: ...
    async def poll(self, id: str) -> tuple[ProcessInfo, str]:
        """Return its state, and what it printed since the last poll."""

    async def log(self, id: str, *, offset: int = 0, limit: int = 200) -> str:
        """Lines of its rolling buffer; a negative offset counts from the end."""

    async def wait(self, id: str, *, timeout: float) -> ProcessInfo: ...
    async def kill(self, id: str) -> ProcessInfo: ...
    async def write(self, id: str, data: bytes) -> None: ...


class ArtifactStore(Protocol):
    """Long texts kept beside the journal and referred to by name."""

    async def save(self, run: str, name: str, text: str) -> str: ...
    async def load(self, reference: str) -> str:
        """Raises `ToolError` when there is no such artifact."""


@runtime_checkable
class StoresBytes(Protocol):
    """An artifact store that also keeps what is no text, such as pictures."""

    async def save_bytes(self, run: str, name: str, data: bytes) -> str: ...
    async def load_bytes(self, reference: str) -> bytes:
        """Raises `ToolError` when there is no such artifact."""


async def _refuse_picture(data: bytes, alt: str) -> Picture:
    raise ToolError("pictures cannot be kept here")


PublishEvents = Callable[..., Awaitable[Sequence[int]]]
"""Writes events to the journal and delivers them; returns their numbers."""


@dataclass(frozen=True)
class ToolContext:
    """What a tool may use. A tool can reach nothing else."""

    run: str
    environment: Environment
    publish: PublishEvents
    call: Callable[[ToolCall], Awaitable[ToolResult]]
    """Calls another tool, with the same checks as a call of the model."""
    artifacts: ArtifactStore
    ask: Callable[[str, Sequence[str]], Awaitable[str | None]] | None = None
    """Asks the person at the terminal a question; None when there is no person."""
    processes: BackgroundProcesses | None = None
    """Background processes; None where none may be started."""
    origin: RunOrigin = "cli"
    actor: str = ""
    """For whom it works: the name of a person, or `channel:id` for one who has none."""
    redact: Callable[[str], str] = str
    """Removes secrets from text that a tool keeps itself, such as an artifact."""
    add_picture: Callable[[bytes, str], Awaitable[Picture]] = _refuse_picture
    """Adds a picture, given as bytes and a description, to the result of this call. Raises
    `ToolError` in plain words for what is no picture, or not a safe one."""


class Tool(Protocol):
    """Something the model can call. `ToolError` is reported to the model; other errors are bugs."""

    @property
    def spec(self) -> ToolSpec: ...

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str: ...


@runtime_checkable
class ShowsCommand(Protocol):
    """A tool that runs a command. Raises `ToolError` for arguments that do not fit."""

    def command(self, arguments: Mapping[str, Any]) -> str: ...


@runtime_checkable
class ActsElsewhere(Protocol):
    """A tool that does not act in the environment of the agent: on a cluster, a server, a service.
    Raises `ToolError` for arguments that do not fit."""

    def acts_on(self, arguments: Mapping[str, Any]) -> RemoteTarget: ...


@runtime_checkable
class HasStatePerRun(Protocol):
    """A tool whose target depends on what its run did before, such as the page that it opened."""

    def of_run(self, run: str) -> Tool:
        """The tool as it is for this run."""


@runtime_checkable
class ShowsRequest(Protocol):
    """A tool that sends one HTTP request. Raises `ToolError` for arguments that do not fit."""

    def request(self, arguments: Mapping[str, Any]) -> OutgoingRequest: ...


@runtime_checkable
class DefinedByOthers(Protocol):
    """A tool whose definition is not part of this program: a YAML file, an MCP server. Its risk is
    the one that a person classed it with; unclassed, it must not be `read`."""

    @property
    def definition(self) -> ToolDefinition: ...


class JournalRecord(Value, frozen=True):
    seq: int
    event: Event | UnknownEvent


class Journal(Protocol):
    """The append-only record of everything that happened.

    Numbers are assigned in the order in which `append` is called, and increase across all
    processes. When `append` returns, the events are stored, whatever happens to this process.
    Raises `StoreError`, nothing else.
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

    async def changed(self, after: int) -> None:
        """Return once there is an event past `after`, written by any process."""


# Earlier names, which plug-ins may still import.
Artifacts = ArtifactStore
Process = BackgroundProcess
ProcessView = ProcessInfo
Processes = BackgroundProcesses
Recorded = JournalRecord
