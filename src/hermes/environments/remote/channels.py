"""One line to a place elsewhere: a client program, and at its far end a bash that runs one program.

A line is used once. That it is there is heard before anything is sent, so a line that cannot be
had has surely run nothing; one that breaks later has run nobody knows how much.
"""

import contextlib
import os
import secrets
import signal
import tempfile
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.environments.processes.background import TERMINAL_COLUMNS, TERMINAL_ROWS, write_all
from hermes.environments.processes.output import LeftoverPipes
from hermes.environments.processes.spawn import ChildProcess, spawn
from hermes.environments.remote.client import RemoteClient
from hermes.environments.remote.scripts import (
    END_TREE_SCRIPT,
    READY_MARK,
    WAIT_FOR_PROGRAM_ARGV,
    ScriptVariables,
    build_program,
    end_mark,
)

READ_BYTES = 65_536
_MAX_ERROR_CHARS = 2000
_MAX_LOGIN_OUTPUT_BYTES = 100_000
"""Bytes that a login may print before our shell is heard."""
_CLIENT_EXIT_TIMEOUT_S = 2.0


class ChannelBroken(Exception):
    """The client program ended before the last word came."""

    def __init__(self, code: int, complaint: str) -> None:
        super().__init__(complaint or f"exit code {code}")
        self.code, self.complaint = code, complaint


class RemoteChannel:
    """`input` and `output` are our ends of what connects us to the client program."""

    def __init__(self, client: ChildProcess, input: int, output: int, errors: IO[bytes]) -> None:
        self.pid = 0
        """Of the shell at the far end, once it was heard."""
        self.last_word: str | None = None
        """The last one, once it has come."""
        self.client = client
        self.expect(secrets.token_hex(8))
        self._input, self._output, self._errors = input, output, errors
        self._buffer = bytearray()
        os.set_blocking(input, False)
        os.set_blocking(output, False)

    def expect(self, nonce: str) -> None:
        """Before which mark the last word will stand."""
        self.nonce, self._mark = nonce, end_mark(nonce)

    @property
    def alive(self) -> bool:
        return self._output >= 0 and self.client.reap() is None

    async def ready(self) -> None:
        """Return when the far end was heard. Raises `ChannelBroken`."""
        while self.pid == 0:
            _, found, rest = bytes(self._buffer).partition(READY_MARK)
            number, end, rest = rest.partition(b"\n")
            if found and end:
                self.pid, self._buffer = int(number), bytearray(rest)
            elif not await self._read_more() or len(self._buffer) > _MAX_LOGIN_OUTPUT_BYTES:
                raise await self._broken()

    async def send(self, program: str, stdin: bytes = b"", *, hold: bool = False) -> None:
        """`program` and then what it may read; `hold` keeps its input open and silent after."""
        await self.write(f"{len(program)}\n{program}".encode("ascii") + stdin)
        if not hold:
            self._close_input()

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # why is told by whoever reads
            await write_all(self._input, data)

    async def read_output(self) -> bytes:
        """The next piece of output; empty when the last word has come. Raises `ChannelBroken`."""
        while True:
            if output := self._take_output():
                return output
            if self.last_word is not None:
                return b""
            if not await self._read_more():
                raise await self._broken()

    def release_pipe(self) -> int:
        """Our end of the pipe, for somebody who reads it on; -1 when it has ended already."""
        self._close_input()
        self._errors.close()
        pipe, self._output = self._output, -1
        return pipe

    def close(self) -> None:
        """End the client program; the far end has to be ended on its own."""
        if self.client.reap() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.client.pid, signal.SIGKILL)
        pipe = self.release_pipe()
        if pipe >= 0:
            os.close(pipe)

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def _read_more(self) -> bool:
        while self._output >= 0:
            try:
                data = os.read(self._output, READ_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._output)
                continue
            except OSError:  # a terminal says so when nobody holds its other end
                return False
            self._buffer += data
            return bool(data)
        return False

    def _take_output(self) -> bytes:
        """What of the buffer surely is output: the mark may have arrived by half."""
        buffer = self._buffer
        at = buffer.find(self._mark)
        if at < 0:
            at = buffer.rfind(b"\0", max(0, len(buffer) - len(self._mark)))
            if at < 0 or not self._mark.startswith(buffer[at:]):
                at = len(buffer)
        elif (end := buffer.find(b"\n", at)) >= 0:
            self.last_word = os.fsdecode(bytes(buffer[at + len(self._mark) : end])).strip()
        output = bytes(buffer[:at])
        if self.last_word is None:
            del buffer[:at]
        else:
            buffer.clear()  # what follows is of somebody whom the command left behind
        return output

    async def _broken(self) -> ChannelBroken:
        with anyio.move_on_after(_CLIENT_EXIT_TIMEOUT_S):
            await self.client.wait()
        code = self.client.reap()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MAX_ERROR_CHARS))
        complaint = self._errors.read().decode("utf-8", "replace").strip()
        self.close()
        return ChannelBroken(255 if code is None else code, complaint)


def open_channel(argv: Sequence[str], variables: Mapping[str, str]) -> RemoteChannel:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the line
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ours.callback(errors.close)
        their_input, our_input = os.pipe()
        ours.callback(os.close, our_input)
        theirs.callback(os.close, their_input)
        our_output, their_output = os.pipe()
        ours.callback(os.close, our_output)
        theirs.callback(os.close, their_output)
        pid = spawn(argv, variables, stdin=their_input, output=their_output, errors=errors.fileno())
        ours.pop_all()
    return RemoteChannel(ChildProcess(pid), our_input, our_output, errors)


def open_terminal_channel(argv: Sequence[str], variables: Mapping[str, str]) -> RemoteChannel:
    """Its client program has a terminal of ours. It sets that to pass on everything as it is, but
    may first give the far one the same modes: so nothing is changed here."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the line
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        ours.callback(errors.close)
        output, their_end = os.openpty()
        ours.callback(os.close, output)
        theirs.callback(os.close, their_end)
        termios.tcsetwinsize(output, (TERMINAL_ROWS, TERMINAL_COLUMNS))
        pid = spawn(argv, variables, stdin=their_end, output=their_end)
        input = os.dup(output)
        ours.pop_all()
    return RemoteChannel(ChildProcess(pid), input, output, errors)


CHANNEL_TIMEOUT_S = 30.0
"""Seconds for a line to be there, and for a short answer."""
SPARE_CHANNELS = 2
"""Lines in waiting: with two, commands one after the other come up side by side."""
_CHANNEL_CLOSE_TIMEOUT_S = 2.0
_ABANDON_TIMEOUT_S = 5.0


class ChannelPool:
    """`waiting` is how many lines to hold ready, once a first was taken."""

    def __init__(self, client: RemoteClient, *, waiting: int = SPARE_CHANNELS) -> None:
        self.client = client
        self._wanted = waiting
        self._spare: list[RemoteChannel] = []
        self._leftovers = LeftoverPipes()
        self._leaving: list[ChildProcess] = []

    async def acquire(self) -> RemoteChannel:
        """A line whose far end was heard. Raises `EnvironmentFailed`: then nothing has run there."""
        broken: ChannelBroken | None = None
        tries = 2
        while tries:
            await self.client.reach()
            spare = self._take_spare()
            line = spare or self._open()
            tries -= spare is None
            try:
                with anyio.fail_after(CHANNEL_TIMEOUT_S):
                    await line.ready()
                return line
            except ChannelBroken as error:
                broken = error
            except TimeoutError:
                broken = ChannelBroken(255, f"no answer within {CHANNEL_TIMEOUT_S:.0f} seconds")
                self.drop(line)
            except BaseException:
                self.drop(line)
                raise
            if spare is not None:
                continue  # that line was opened a while ago: it tells of then, and not of now
            reason = await self.client.broken(broken.code, broken.complaint, begun=False)
            if reason is not None:
                raise reason from broken
        raise EnvironmentFailed(
            f"no shell can be started in {self.client.place}, which must have bash: {broken}"
        ) from broken

    def restock(self) -> None:
        """Called when a command has begun: the next lines come up while it runs."""
        with suppress(EnvironmentFailed):
            while len(self._spare) < self._wanted:
                self._spare.append(self._open())

    def release(self, line: RemoteChannel) -> None:
        """Its last word has come. Somebody left behind may still print into it."""
        self._wait_for_client(line.client)
        pipe = line.release_pipe()
        if pipe >= 0:
            self._leftovers.take(pipe)

    async def run_program(
        self,
        body: str,
        words: ScriptVariables | None = None,
        stdin: bytes = b"",
        *,
        hold: bool = False,
        ends_itself: bool = False,
        timeout: float | None = CHANNEL_TIMEOUT_S,
    ) -> tuple[str, bytes]:
        """The last word of a program of ours, and what it printed. One that `ends_itself` when we
        hang up is left to do so; any other is ended when we no longer wait for it."""
        line = await self.acquire()
        said = bytearray()
        try:
            with anyio.fail_after(timeout):
                await line.send(build_program(body, line.nonce, words), stdin, hold=hold)
                self.restock()
                while piece := await line.read_output():
                    said += piece
        except ChannelBroken as broken:
            raise await self.explain_break(broken) from broken
        except TimeoutError as error:
            await self._give_up(line, ends_itself)
            raise EnvironmentFailed(f"{self.client.place} did not answer in time") from error
        except BaseException:
            await self._give_up(line, ends_itself)
            raise
        self.release(line)
        return line.last_word or "", bytes(said)

    async def explain_break(self, broken: ChannelBroken) -> EnvironmentFailed:
        reason = await self.client.broken(broken.code, broken.complaint, begun=True)
        return reason or EnvironmentFailed(f"{self.client.place} failed: {broken}")

    async def end_tree(self, tree: str, leader: int, *, grace: float, hard: bool = False) -> None:
        """End all that carries the mark, or belongs to `leader`: asking first, for `grace`
        seconds. The leader gets a moment to tell; `hard` ends it before all others."""
        words: ScriptVariables = {
            "mark": tree,
            "keep": leader,
            "grace": int(grace * 1000),
            "hard": "1" if hard else "",
        }
        await self.run_program(
            END_TREE_SCRIPT, words, hold=True, ends_itself=True, timeout=grace + CHANNEL_TIMEOUT_S
        )

    async def abandon(self, line: RemoteChannel) -> None:
        """Nobody listens to it any more. What it runs there would not notice that in every place,
        so it is ended."""
        self.drop(line)
        with anyio.move_on_after(_ABANDON_TIMEOUT_S, shield=True), suppress(EnvironmentFailed):
            await self.end_tree("none", line.pid, grace=0, hard=True)

    async def close(self) -> None:
        while self._spare:
            self.drop(self._spare.pop())
        self._leftovers.close()
        for child in self._leaving:
            if child.reap() is None:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        with anyio.move_on_after(_CHANNEL_CLOSE_TIMEOUT_S, shield=True):
            for child in self._leaving:
                await child.wait()

    async def _give_up(self, line: RemoteChannel, ends_itself: bool) -> None:
        if ends_itself:
            self.drop(line)
        else:
            await self.abandon(line)

    def _take_spare(self) -> RemoteChannel | None:
        while self._spare:
            line = self._spare.pop(0)
            if line.alive:
                return line
            self.drop(line)
        return None

    def _open(self) -> RemoteChannel:
        return open_channel(self.client.words(WAIT_FOR_PROGRAM_ARGV), self.client.variables)

    def drop(self, line: RemoteChannel) -> None:
        """End its client program. The far end has to be ended on its own."""
        line.close()
        self._wait_for_client(line.client)

    def _wait_for_client(self, child: ChildProcess) -> None:
        self._leaving = [each for each in (*self._leaving, child) if each.reap() is None]
