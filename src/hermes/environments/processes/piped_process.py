"""Programs with raw pipes that end with their block, and with Hermes.

A server that speaks over its standard streams is of no use without us. Its whole process tree ends
when the block ends. When Hermes is killed, a small watchdog outside the tree notices that its pipe
was closed, and kills the tree; should the watchdog be gone as well, `end_orphans` of a later start
finds the tree by its mark.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.environments.processes.output import READ_BYTES, RollingOutput, drain_output
from hermes.environments.processes.process_tree import (
    ProcessTree,
    is_owner_alive,
    process_birth,
    running_trees,
)
from hermes.environments.processes.spawn import ChildProcess, spawn, wait_readable
from hermes.environments.shell import TREE_VARIABLE, check_argument, new_tree_mark
from hermes.plumbing.files import write_atomically

EXIT_GRACE_S = 2.0
"""Seconds that a program has to end after its input was closed; then it is stopped."""
KEPT_ERROR_BYTES = 64 * 1024
MAX_LOG_BYTES = 1_000_000
"""The log of a program is emptied beyond this size."""

_START_SCRIPT = 'cd -- "$1" || exit 126; shift; exec "$@"'

# Ends the tree when its input is closed without a word: Hermes was killed. Several rounds: the
# tree may fork meanwhile. The group is for systems without /proc.
_WATCHDOG_SCRIPT = """
read -r leader || exit 0
read -r word && exit 0
for round in 1 2 3; do
  for file in $(grep -lsF "$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -KILL "${pid%/environ}" 2>/dev/null
  done
  [ -d /proc/self ] || kill -KILL "-$leader" 2>/dev/null
done
if [ -n "$3" ]; then
  for round in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$3" 2>/dev/null
    [ -e "$3" ] || break
    sleep 0.2
  done
fi
[ -z "$2" ] || rm -f -- "$2"
"""


class HasExitCode(Protocol):
    """What runs, here or in a sandbox."""

    async def wait(self) -> int: ...


class ErrorStream:
    """Collects the last part of what a program writes to its error stream, and writes its log."""

    def __init__(self, descriptor: int, log: Path | None) -> None:
        self._descriptor, self._open = descriptor, True
        self._kept = RollingOutput(KEPT_ERROR_BYTES)
        self._feed = _make_log_writer(log, self._kept)
        self._forget = _collect_output(descriptor, self._feed)

    def last_text(self) -> str:
        if self._open:
            drain_output(self._descriptor, self._feed)
        return self._kept.since(0).data.decode("utf-8", "replace")

    def close(self) -> None:
        self._forget()
        self._open = False
        os.close(self._descriptor)


class LocalPipedProcess:
    """Implements `core.protocols.PipedProcess` over our ends of its pipes."""

    def __init__(self, child: HasExitCode, stdin: int, stdout: int, errors: ErrorStream) -> None:
        self._child, self._stdin, self._stdout, self._errors = child, stdin, stdout, errors
        self.pid: int = getattr(child, "pid", 0)

    async def receive(self) -> bytes:
        while True:
            try:
                return os.read(self._stdout, READ_BYTES)
            except BlockingIOError:
                await wait_readable(self._stdout)

    async def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._stdin)
            except OSError as error:
                raise EnvironmentFailed("the program reads no more input") from error

    async def wait(self) -> int:
        return await self._child.wait()

    def last_errors(self) -> str:
        return self._errors.last_text()


@asynccontextmanager
async def open_piped(
    argv: Sequence[str],
    *,
    variables: Mapping[str, str],
    cwd: str,
    log: Path | None = None,
    records: Path | None = None,
    scratch: Path | None = None,
    grace_s: float = EXIT_GRACE_S,
) -> AsyncIterator[LocalPipedProcess]:
    """Runs `argv` with exactly these variables until the end of the block.

    What it writes to its error stream is kept in `log`. `records` is a folder in which a later
    start finds trees that outlived us. `scratch` is a folder for the program, made here and removed
    with its tree. Raises `EnvironmentFailed`.
    """
    for word in (*argv, cwd):
        check_argument(word)
    mark = new_tree_mark()
    record = _write_record(records, mark, scratch) if records is not None else None
    ours: list[int] = []
    removed = [str(record or ""), str(scratch or "")]
    try:
        tree = _spawn_tree(argv, variables, cwd, mark, ours, removed)
    except BaseException:
        _close(ours)
        raise
    (child, watchdog), (alive, stdin, stdout, error_descriptor) = tree, ours
    errors = ErrorStream(error_descriptor, log)
    try:
        yield LocalPipedProcess(child, stdin, stdout, errors)
    finally:
        with anyio.CancelScope(shield=True):
            os.close(stdin)
            with anyio.move_on_after(grace_s):
                await wait_for_end(child, stdout)
            await ProcessTree(mark, child.pid if child.reap() is None else None).end(grace_s)
            errors.close()
            with suppress(OSError):
                os.write(alive, b"ended\n")
            _close([alive, stdout])
            await watchdog.wait()
            await child.wait()
            _remove(record, scratch)


def _spawn_tree(
    argv: Sequence[str],
    variables: Mapping[str, str],
    cwd: str,
    mark: str,
    ours: list[int],
    removed: Sequence[str],
) -> tuple[ChildProcess, ChildProcess]:
    """Starts the watchdog, then the program. `removed` are the file and the folder that end with
    it. Our ends of the pipes are appended to `ours`: the watchdog's, stdin, stdout and stderr of
    the program."""
    theirs: list[int] = []
    path = {"PATH": variables.get("PATH", os.defpath)}
    needle = f"{TREE_VARIABLE}={mark}"
    try:
        if removed[1]:
            _make_folder(Path(removed[1]))
        for reads_it in (False, False, True, True):
            read_end, write_end = os.pipe()
            ours.append(read_end if reads_it else write_end)
            theirs.append(write_end if reads_it else read_end)
        for descriptor in ours[1:]:
            os.set_blocking(descriptor, False)
        watchdog = ChildProcess(
            spawn(
                ["/bin/sh", "-c", _WATCHDOG_SCRIPT, "sh", needle, *removed],
                path,
                stdin=theirs[0],
                output=None,
            )
        )
        child = ChildProcess(
            spawn(
                ["/bin/sh", "-c", _START_SCRIPT, "sh", cwd, *argv],
                {**variables, TREE_VARIABLE: mark},
                stdin=theirs[1],
                output=theirs[2],
                errors=theirs[3],
            )
        )
        os.write(ours[0], f"{child.pid}\n".encode())
    finally:
        _close(theirs)
    return child, watchdog


async def wait_for_end(child: HasExitCode, stdout: int) -> None:
    """Its output is read and thrown away: a program that waits to write does not end."""
    forget = _collect_output(stdout, lambda _: None)
    try:
        await child.wait()
    finally:
        forget()


def _collect_output(descriptor: int, feed: Callable[[bytes], None]) -> Callable[[], None]:
    """Reads in a callback until the end, or until the returned function is called."""
    loop = asyncio.get_running_loop()

    def pump() -> None:
        if not drain_output(descriptor, feed):
            loop.remove_reader(descriptor)

    loop.add_reader(descriptor, pump)
    return lambda: (drain_output(descriptor, feed), loop.remove_reader(descriptor), None)[-1]


def _make_log_writer(log: Path | None, kept: RollingOutput) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        kept.feed(data)
        if log is None:
            return
        with suppress(OSError):  # a full disk must not end the program
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            too_long = log.exists() and log.stat().st_size > MAX_LOG_BYTES
            with log.open("wb" if too_long else "ab") as file:
                file.write(data)

    return feed


def _write_record(records: Path, mark: str, scratch: Path | None) -> Path:
    record, pid = records / mark, os.getpid()
    owner = f"{pid}:{process_birth(pid)}:{time.time():.0f}"
    try:
        records.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(record, f"{owner}:{scratch or ''}\n", sync=False)
    except OSError:  # only a killed watchdog makes it necessary
        pass
    return record


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise EnvironmentFailed(f"cannot make the folder {folder}: {error.strerror}") from error


def _remove(record: Path | None, scratch: Path | None) -> None:
    if scratch is not None:
        shutil.rmtree(scratch, ignore_errors=True)
    if record is not None:
        record.unlink(missing_ok=True)


def _ownerless_marks(records: Path) -> dict[str, str]:
    """The marks of trees whose owner is gone, with the folder that each leaves behind."""
    try:
        found = {file.name: file.read_text().strip() for file in records.iterdir()}
    except OSError:  # none was ever started, or one has just ended
        return {}
    dead = {mark: owner for mark, owner in found.items() if not is_owner_alive(owner)}
    return {mark: ":".join(owner.split(":")[3:]) for mark, owner in dead.items()}


async def end_orphans(records: Path) -> int:
    """Ends the trees of processes of ours that were killed; returns their number."""
    dead = _ownerless_marks(records)
    trees = running_trees(dead) if dead else []
    for tree in trees:
        await tree.kill()
    for mark, scratch in dead.items():
        if scratch:
            await anyio.to_thread.run_sync(lambda path: shutil.rmtree(path, True), scratch)
        (records / mark).unlink(missing_ok=True)
    return len(trees)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
