"""Runs the client program of a place (`apptainer`, `kubectl`), for errands and for housekeeping."""

import shutil
from collections.abc import Mapping, Sequence
from subprocess import PIPE
from typing import Protocol

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value

_MAX_ERROR_CHARS = 2000
"""Characters of a complaint that are worth showing."""


class ClientOutput(Value, frozen=True):
    code: int
    output: bytes
    complaint: str
    """The end of what it printed to its standard error."""


class ClientProgram(Value, frozen=True):
    """A program by its path. `variables` is all that it sees: never a key of ours."""

    program: str
    variables: dict[str, str]

    async def run(
        self, arguments: Sequence[str], stdin: bytes = b"", *, timeout: float | None = None
    ) -> ClientOutput:
        """Raises `EnvironmentFailed` when it cannot be started or takes too long; cancelling kills it."""
        try:
            with anyio.fail_after(timeout):
                done = await anyio.run_process(
                    [self.program, *arguments],
                    input=stdin,
                    stdout=PIPE,
                    stderr=PIPE,
                    check=False,
                    env=self.variables,
                    start_new_session=True,  # an interrupt at our terminal is not meant for it
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
        """What it printed; raises `EnvironmentFailed` saying `what` did not work, and why."""
        said = await self.run(arguments, stdin, timeout=timeout)
        if said.code != 0:
            raise EnvironmentFailed(f"{what}: {said.complaint or f'exit code {said.code}'}")
        return said.output.decode("utf-8", "replace")


def find_program(names: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """The first of them that is installed."""
    found = (shutil.which(name, path=variables.get("PATH")) for name in names)
    return next((path for path in found if path), None)


class RemoteClient(Protocol):
    """A program on this machine that starts programs in a place elsewhere: `docker exec`, `ssh`."""

    @property
    def variables(self) -> Mapping[str, str]:
        """All that the client program itself sees."""
        ...

    @property
    def place(self) -> str:
        """Names the place, so that a later life of ours can tell whether it is the same."""
        ...

    async def reach(self) -> None:
        """Make sure that there is a place to start programs in; cheap when there is. Raises
        `EnvironmentFailed`."""
        ...

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """The client program, by its path, and its arguments that start `argv` there: connected
        to our pipes or, with `terminal`, with a terminal there and ours here."""
        ...

    async def broken(self, code: int, complaint: str, *, begun: bool) -> EnvironmentFailed | None:
        """Judge a client program that ended early. Before anything had begun there, None says
        that another attempt may do; afterwards, that the place is well and `code` is the
        command's own."""
        ...

    def elsewhere(self, place: str) -> "RemoteClient | None":
        """Reaches the place of that name, where an earlier life of ours was; None if it cannot."""
        ...

    async def close(self, *, spare: bool) -> None:
        """Leave the place. `spare`: background processes are to go on in it."""
        ...
