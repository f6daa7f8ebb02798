"""Runs the client program of a place (`apptainer`, `kubectl`), for errands and for housekeeping."""

import shutil
from collections.abc import Mapping, Sequence
from subprocess import PIPE

import anyio

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value

_WORDS = 2000
"""Characters of a complaint that are worth showing."""


class Said(Value, frozen=True):
    code: int
    output: bytes
    complaint: str
    """The end of what it printed to its standard error."""


class Client(Value, frozen=True):
    """A program by its path. `variables` is all that it sees: never a key of ours."""

    program: str
    variables: dict[str, str]

    async def call(
        self, arguments: Sequence[str], stdin: bytes = b"", *, timeout: float | None = None
    ) -> Said:
        """Raises `PlaceFailed` when it cannot be started or takes too long; cancelling kills it."""
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
            raise PlaceFailed(
                f"{self.program} {arguments[0]} did not end within {timeout:.0f} seconds"
            ) from error
        except OSError as error:
            raise PlaceFailed(f"cannot start {self.program}: {error.strerror}") from error
        complaint = done.stderr.decode("utf-8", "replace").strip()[-_WORDS:]
        return Said(done.returncode, done.stdout, complaint)

    async def expect(
        self, what: str, arguments: Sequence[str], stdin: bytes = b"", *, timeout: float
    ) -> str:
        """What it printed; raises `PlaceFailed` saying `what` did not work, and why."""
        said = await self.call(arguments, stdin, timeout=timeout)
        if said.code != 0:
            raise PlaceFailed(f"{what}: {said.complaint or f'exit code {said.code}'}")
        return said.output.decode("utf-8", "replace")


def find_program(names: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """The first of them that is installed."""
    found = (shutil.which(name, path=variables.get("PATH")) for name in names)
    return next((path for path in found if path), None)
