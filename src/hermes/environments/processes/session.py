"""One shell session on this machine: what each of its commands is started with.

The session's state travels through open files without a name, so that it lies nowhere that a
command could write.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from hermes.environments.processes.spawn import Start, start_freely
from hermes.environments.shell import LONGEST, Launch, Shell, check
from hermes.environments.shell_state import LARGEST, ShellState

SCRIPT, STATE_IN, STATE_OUT = 185, 186, 187
"""Descriptors of a shell: a command too long for an argument, the state before and after it."""
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
    state: ShellState
    confinement: Confinement | None = None

    @contextmanager
    def prepare(
        self, command: str, *, tree: str, cwd: str = "", exit_file: str = "", tty: str = ""
    ) -> Iterator[Prepared]:
        confined = self.confinement is not None
        with ExitStack() as stack:
            command, files = _short(stack, command)
            files |= {STATE_IN: _file(stack, self.state.source(confined=confined))}
            given = files[STATE_OUT] = _file(stack)
            launch = self.shell.launch(
                command,
                tree=tree,
                cwd=cwd,
                exit_file=exit_file,
                tty=tty,
                descriptors=(STATE_IN, STATE_OUT),
                preferred=self.confinement.preferred if self.confinement else None,
            )
            own = tuple(path for path in (exit_file, tty) if path and path != os.devnull)
            begin = self.confinement.starter(tree, own) if self.confinement else start_freely

            def finish() -> None:
                self.state.take(os.pread(given, LARGEST + 1, 0), confined=confined)

            yield Prepared(launch, self.variables, files, begin, finish)


def _file(stack: ExitStack, content: bytes | None = None) -> int:
    """An open file without a name; with a content, one that nobody can change any more."""
    if not hasattr(os, "memfd_create"):
        made, path = tempfile.mkstemp(prefix="hermes-state-")
        os.unlink(path)  # noqa: PTH108
    else:
        made = os.memfd_create("hermes", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    copy = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _ABOVE)
    os.close(made)
    stack.callback(os.close, copy)
    if content is not None:
        with open(copy, "wb", closefd=False) as file:
            file.write(content)
        if hasattr(os, "memfd_create"):
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
            fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)
        os.lseek(copy, 0, os.SEEK_SET)
    return copy


def _short(stack: ExitStack, command: str) -> tuple[str, dict[int, int]]:
    """A command that is too long for an argument is read from a file instead."""
    check(command)
    if len(command) <= LONGEST and len(os.fsencode(command)) <= LONGEST:
        return command, {}
    return f". /dev/fd/{SCRIPT}", {SCRIPT: _file(stack, os.fsencode(command))}
