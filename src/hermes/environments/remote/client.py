"""Runs client programs such as `ssh`, `docker` and `kubectl`; the protocol of remote clients."""

import shutil
from collections.abc import Mapping, Sequence
from subprocess import PIPE
from typing import Protocol, cast

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.plumbing.renamed import report_renamed

NEW_NAMES = {"reach": "connect", "broken": "find_failure", "elsewhere": "reopen"}
"""Methods of `RemoteClient` by their names in an earlier version."""
_MAX_ERROR_CHARS = 2000
"""Characters of an error message that are shown."""


class ClientOutput(Value, frozen=True):
    code: int
    output: bytes
    complaint: str
    """The end of its standard error."""


class ClientProgram(Value, frozen=True):
    """A program by its path. `variables` are all its variables, without our keys."""

    program: str
    variables: dict[str, str]

    async def run(
        self, arguments: Sequence[str], stdin: bytes = b"", *, timeout: float | None = None
    ) -> ClientOutput:
        """Raises `EnvironmentFailed` when it cannot start or times out. Cancelling kills it."""
        try:
            with anyio.fail_after(timeout):
                done = await anyio.run_process(
                    [self.program, *arguments],
                    input=stdin,
                    stdout=PIPE,
                    stderr=PIPE,
                    check=False,
                    env=self.variables,
                    start_new_session=True,  # Ctrl-C in our terminal must not reach it
                )
        except TimeoutError as error:
            raise EnvironmentFailed(
                f"{self.program} {arguments[0]} did not end within {timeout:.0f} seconds"
            ) from error
        except OSError as error:
            raise EnvironmentFailed(f"cannot start {self.program}: {error.strerror}") from error
        complaint = done.stderr.decode("utf-8", "replace").strip()[-_MAX_ERROR_CHARS:]
        return ClientOutput(done.returncode, done.stdout, complaint)

    async def run_checked(
        self, what: str, arguments: Sequence[str], stdin: bytes = b"", *, timeout: float
    ) -> str:
        """Its output. Raises `EnvironmentFailed` with `what` did not work and why."""
        result = await self.run(arguments, stdin, timeout=timeout)
        if result.code != 0:
            raise EnvironmentFailed(f"{what}: {result.complaint or f'exit code {result.code}'}")
        return result.output.decode("utf-8", "replace")


def find_program(names: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """The path of the first program that is installed."""
    found = (shutil.which(name, path=variables.get("PATH")) for name in names)
    return next(filter(None, found), None)


def require_program(names: Sequence[str], variables: Mapping[str, str], *, advice: str) -> str:
    """As `find_program`. Raises `EnvironmentFailed` with `advice` when none is installed."""
    if path := find_program(names, variables):
        return path
    raise EnvironmentFailed(advice)


class RemoteClient(Protocol):
    """A program on this machine that starts programs in an environment: `docker exec`, `ssh`."""

    @property
    def variables(self) -> Mapping[str, str]:
        """All variables of the client program."""

    @property
    def place(self) -> str:
        """Identifies the environment, also for a later process of Hermes."""

    async def connect(self) -> None:
        """Makes sure that programs can be started; cheap when they can. Raises
        `EnvironmentFailed`."""

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """The argv of the client program that starts `argv` there: connected to our pipes or,
        with `terminal`, to a terminal there and here."""

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        """Explains why a client program ended early. If nothing had begun there, None means that
        another attempt may succeed; otherwise, that the environment works and `code` is the exit
        code of the command."""

    def reopen(self, place: str) -> "RemoteClient | None":
        """A client for the environment of an earlier process of Hermes; None if unreachable."""

    async def close(self, *, spare: bool) -> None:
        """Disconnects. `spare`: background processes in it shall continue."""


class EarlierRemoteClient(Protocol):
    """What `RemoteClient` was in an earlier version."""

    @property
    def variables(self) -> Mapping[str, str]: ...
    @property
    def place(self) -> str: ...
    async def reach(self) -> None: ...
    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]: ...
    async def broken(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None: ...
    def elsewhere(self, place: str) -> "EarlierRemoteClient | None": ...
    async def close(self, *, spare: bool) -> None: ...


def with_current_names(client: RemoteClient | EarlierRemoteClient) -> RemoteClient:
    """The client itself, or an adapter that reports the new names of its methods."""
    # Not `isinstance`: it would read `place`, which a client may not know before it has connected.
    if not all(hasattr(client, old) for old in NEW_NAMES):
        return cast(RemoteClient, client)
    for old, new in NEW_NAMES.items():
        report_renamed(f"{type(client).__qualname__}.{old}", new)
    return _CurrentNames(cast(EarlierRemoteClient, client))


class _CurrentNames:
    def __init__(self, earlier: EarlierRemoteClient) -> None:
        self._earlier = earlier
        self.words, self.close = earlier.words, earlier.close
        self.connect, self.find_failure = earlier.reach, earlier.broken

    @property
    def variables(self) -> Mapping[str, str]:
        return self._earlier.variables

    @property
    def place(self) -> str:
        return self._earlier.place

    def reopen(self, place: str) -> RemoteClient | None:
        client = self._earlier.elsewhere(place)
        return None if client is None else with_current_names(client)
