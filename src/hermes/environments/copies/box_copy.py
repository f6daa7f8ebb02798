"""Copies of a box: a second box over the files of the first, with the same units."""

import fcntl
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from anyio import to_thread

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import LocalBoxBackend
from hermes.environments.copies import CannotCopyError, CopyLimits, CopyOutput, CopyService
from hermes.environments.copies.packet_filter import copy_rules

PIECE_BYTES = 1 << 16
SUPERVISOR_TIMEOUT_S = 30.0


def open_terminal() -> tuple[int, int]:
    """Both ends of a new terminal of the size of ours."""
    outer, inner = os.openpty()
    try:
        size = fcntl.ioctl(sys.stdin.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(inner, termios.TIOCSWINSZ, size)
    except OSError:
        pass  # ours has no size
    return outer, inner


def join_terminals(outer: int, has_ended: Callable[[], bool]) -> None:
    """Passes on what is typed and printed until the program has ended."""
    typed = sys.stdin.fileno()
    before = termios.tcgetattr(typed)
    tty.setraw(typed)
    try:
        while not has_ended():
            ready, _, _ = select.select([typed, outer], [], [], 0.2)
            if outer in ready and not _pass_on(outer, sys.stdout.fileno()):
                return
            if typed in ready and not _pass_on(typed, outer):
                return
    finally:
        termios.tcsetattr(typed, termios.TCSADRAIN, before)


def _pass_on(source: int, target: int) -> bool:
    try:
        piece = os.read(source, PIECE_BYTES)
    except OSError:  # the last program has closed the terminal
        return False
    view = memoryview(piece)
    while view:
        view = view[os.write(target, view) :]
    return bool(piece)


class BoxCopy:
    """A `HostCopy`: one host of a copied box. The other hosts of the box are copied with it."""

    def __init__(
        self,
        box: Box,
        host: int,
        limits: CopyLimits,
        units: Sequence[CopyService] = (),
        *,
        cwd: str = "/root",
    ) -> None:
        self._restarts = {each.name: each.restart for each in units if each.restart}
        self._stops = {each.name: each.stop for each in units if each.stop}
        self._box, self._host, self._limits = box, host, limits
        self._ends_at = anyio.current_time() + limits.time_s
        self._open = True
        self._cwd = cwd
        self.rules_left_out: tuple[str, ...] = ()
        """Of the packet filter."""

    @property
    def box(self) -> Box:
        """For checks of the other hosts."""
        return self._box

    @property
    def left_out(self) -> tuple[str, ...]:
        return (*self._changes()["left_out"], *self.rules_left_out)

    async def run(self, command: str, *, timeout_s: float = 30.0, stdin: bytes = b"") -> CopyOutput:
        seconds = min(timeout_s, await self._seconds_left())
        ran = await self._box.run(
            command, host=self._host, timeout=seconds, stdin=stdin, cwd=self._cwd
        )
        return CopyOutput(ran.code, ran.output, ran.timed_out)

    async def _seconds_left(self) -> float:
        """Raises `EnvironmentFailed` when its time is over."""
        seconds = self._ends_at - anyio.current_time()
        if seconds <= 0:
            await self.close()
            raise EnvironmentFailed(f"the copy has ended: its {self._limits.time_s:g} s are over")
        return seconds

    async def run_nft(self, *words: str) -> CopyOutput:
        await self._seconds_left()
        ran = await self._box.run_nft(*words, host=self._host)
        return CopyOutput(ran.code, ran.output, ran.timed_out)

    async def run_shell(self, term: str = "xterm") -> int:
        """A shell at the terminal of this process, of kind `term`. Returns its exit code."""
        backend = self._box.backend
        if not isinstance(backend, LocalBoxBackend):
            raise EnvironmentFailed("a shell in a copy needs a box on this machine")
        outer, inner = open_terminal()
        body = {
            "do": "terminal",
            "script": "exec bash -i",
            "host": self._host,
            "cwd": self._cwd,
            "term": term,
        }
        ended = anyio.Event()
        answer: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(to_thread.run_sync, join_terminals, outer, ended.is_set)
            try:
                answer = await backend.request(body, terminal=inner)
            finally:
                os.close(inner)
                ended.set()
        os.close(outer)
        return int(answer.get("code", 1))

    async def restart(self, *units: str) -> CopyOutput:
        """A unit that failed too often before is started again."""
        ended = CopyOutput(0, "")
        for unit in units:
            own = self._restarts.get(unit)
            ended = await (self.run(own) if own else self._call_supervisor("restart", unit))
        return ended

    async def stop(self, unit: str) -> CopyOutput:
        own = self._stops.get(unit)
        return await (self.run(own) if own else self._call_supervisor("stop", unit))

    async def reload_units(self) -> None:
        await self._call_supervisor("daemon-reload")

    async def unit_states(self) -> dict[str, str]:
        answer = await self._ask_supervisor("list")
        return {
            each["name"].removesuffix(".service"): each["state"] for each in answer.get("units", ())
        }

    async def _call_supervisor(self, verb: str, unit: str = "") -> CopyOutput:
        """Without `systemctl`: starting a program for each call takes longer than the call."""
        error = str((await self._ask_supervisor(verb, unit)).get("error", ""))
        return CopyOutput(1 if error else 0, error)

    async def _ask_supervisor(self, verb: str, unit: str = "") -> dict[str, Any]:
        """Raises `EnvironmentFailed`; after that the copy is of no use."""
        with anyio.move_on_after(min(SUPERVISOR_TIMEOUT_S, await self._seconds_left())):
            answer = await self._box.call_supervisor(verb, unit, host=self._host)
            found: dict[str, Any] = answer.get("said", answer)
            return found
        raise EnvironmentFailed(f"the copy did not {verb} {unit} within {SUPERVISOR_TIMEOUT_S:g} s")

    def changed_paths(self) -> tuple[str, ...]:
        return tuple(self._changes()["paths"])

    def _changes(self) -> dict[str, list[str]]:
        answer = self._box.backend.request_now({"do": "changes", "host": self._host})
        if "error" in answer:
            raise EnvironmentFailed(f"the changes cannot be listed: {answer['error']}")
        return answer

    async def close(self) -> None:
        if self._open:
            self._open = False
            await self._box.__aexit__(None, None, None)


async def copy_box(
    box: Box, *, host: int, limits: CopyLimits, units: Sequence[CopyService] = ()
) -> BoxCopy:
    """`units` are needed on hosts without systemctl only. Raises `CannotCopyError`."""
    try:
        copied = await box.prepare_copy(
            memory_mb=limits.memory_mb,
            disk_mb=limits.disk_mb,
            processes=limits.processes,
            time_s=limits.time_s,
        )
        await copied.__aenter__()
        rules_left_out = await copy_rules(box, copied, len(box.plan.hosts))
    except EnvironmentFailed as error:
        raise CannotCopyError(f"the box cannot be copied: {error}") from error
    copy = BoxCopy(copied, host, limits, units)
    copy.rules_left_out = rules_left_out
    return copy
