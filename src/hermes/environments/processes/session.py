"""One shell session on this machine: what each of its commands is started with.

The session's state travels through open files without a name, so that it lies nowhere that a
command could write.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hermes.environments.confinement.fork_server import STATE_IN, STATE_OUT
from hermes.environments.processes.spawn import Start, start_freely
from hermes.environments.shell import LONGEST, Launch, Shell, check
from hermes.environments.shell_state import LARGEST, ShellState

SCRIPT = 185
"""The descriptor of a command that is too long for an argument."""
_ABOVE = 200
"""Our own copies get numbers from here on, so that none is overwritten on the way."""


class Confinement(Protocol):
    """How the commands of one verdict are started."""

    preferred: Mapping[str, str]
    """Variables that keep programs from writing where they may not."""

    def starter(self, tree: str, files: tuple[str, ...]) -> Start:
        """`files` of our own are open to the command, whatever its verdict."""
        ...


@dataclass(frozen=True)
class Prepared:
    """A command that can be started, once."""

    launch: Launch
    variables: Mapping[str, str]
    files: Mapping[int, int]
    begin: Start
    finish: Callable[[], None]
    """To be called when it has come to its end: takes the new state over."""

    async def start(self, *, stdin: int | None, output: int) -> int:
        variables = {**self.variables, **self.launch.variables}
        return await self.begin(
            self.launch.argv, variables, stdin=stdin, output=output, files=self.files
        )


@dataclass(frozen=True)
class Session:
    shell: Shell
    variables: Mapping[str, str]
    state: ShellState = field(default_factory=ShellState)
    confinement: Confinement | None = None

    @contextmanager
    def prepare(
        self, command: str, *, tree: str, cwd: str = "", exit_file: str = "", tty: str = ""
    ) -> Iterator[Prepared]:
        confined = self.confinement is not None
        source = self.state.source(confined=confined)
        with ExitStack() as stack:
            command, files = _short(stack, command)
            taken = _File(stack, STATE_IN, source) if source else None
            given = _File(stack, STATE_OUT)
            launch = self.shell.launch(
                command,
                tree=tree,
                cwd=cwd,
                exit_file=exit_file,
                tty=tty,
                files=(taken.path if taken else "", given.path),
                preferred=self.confinement.preferred if self.confinement else None,
            )
            for each in (taken, given):
                files |= each.files if each else {}
            own = tuple(path for path in (exit_file, tty) if path and path != os.devnull)
            begin = self.confinement.starter(tree, own) if self.confinement else start_freely

            def finish() -> None:
                self.state.take(given.content(), confined=confined)

            yield Prepared(launch, self.variables, files, begin, finish)


class _File:
    """An open file without a name, where the system has such; else one in a private folder."""

    def __init__(self, stack: ExitStack, number: int, content: bytes = b"") -> None:
        self.files: dict[int, int] = {}
        if hasattr(os, "memfd_create"):
            made = os.memfd_create("hermes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self._fd = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
            os.close(made)
            self.path = f"/proc/self/fd/{number}"
            self.files = {number: self._fd}
        else:  # pragma: no cover - not on Linux
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hermes-state-"))
            self.path = str(Path(folder) / "state")
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        stack.callback(os.close, self._fd)
        if content:
            with open(self._fd, "wb", closefd=False) as file:
                file.write(content)
            if self.files:
                seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
                fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, seals)

    def content(self) -> bytes:
        return os.pread(self._fd, LARGEST + 1, 0)


def _short(stack: ExitStack, command: str) -> tuple[str, dict[int, int]]:
    """A command that is too long for an argument is read from a file instead."""
    check(command)
    if len(command) <= LONGEST and len(os.fsencode(command)) <= LONGEST:
        return command, {}
    script = _File(stack, SCRIPT, os.fsencode(command))
    return f". '{script.path}'", script.files
