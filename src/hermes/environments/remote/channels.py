"""Opens channels to another host: a client program, and a remote bash that runs one program.

A channel is used once. The remote shell reports that it is ready before anything is sent: so a
channel that cannot be opened has run nothing, while one that breaks later may have run anything.
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
"""Bytes that a login may print before the remote shell is ready."""
_CLIENT_EXIT_TIMEOUT_S = 2.0


class ChannelBroken(Exception):
    """The client program ended before the exit message arrived."""

    def __init__(self, code: int, complaint: str) -> None:
        super().__init__(complaint or f"exit code {code}")
        self.code, self.complaint = code, complaint


class RemoteChannel:
    """`input` and `output` are our ends of the pipes to the client program."""

    def __init__(self, client: ChildProcess, input: int, output: int, errors: IO[bytes]) -> None:
        self.pid = 0
        """The process id of the remote shell, once it is ready."""
        self.last_word: str | None = None
        """The exit message, once it has arrived."""
        self.client = client
        self.expect(secrets.token_hex(8))
        self._input, self._output, self._errors = input, output, errors
        self._buffer = bytearray()
        os.set_blocking(input, False)
        os.set_blocking(output, False)

    def expect(self, nonce: str) -> None:
        """Sets the nonce of the mark that precedes the exit message."""
        self.nonce, self._mark = nonce, end_mark(nonce)

    @property
    def alive(self) -> bool:
        return self._output >= 0 and self.client.reap() is None

    async def ready(self) -> None:
        """Returns when the remote shell is ready. Raises `ChannelBroken`."""
        while self.pid == 0:
            _, found, rest = bytes(self._buffer).partition(READY_MARK)
            number, end, rest = rest.partition(b"\n")
            if found and end:
                self.pid, self._buffer = int(number), bytearray(rest)
            elif not await self._read_more() or len(self._buffer) > _MAX_LOGIN_OUTPUT_BYTES:
                raise await self._broken()

    async def send(self, program: str, stdin: bytes = b"", *, hold: bool = False) -> None:
        """Sends `program` and then its input; `hold` keeps the input open afterwards."""
        await self.write(f"{len(program)}\n{program}".encode("ascii") + stdin)
        if not hold:
            self._close_input()

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # reading reports the reason
            await write_all(self._input, data)

    async def read_output(self) -> bytes:
        """The next output; empty when the exit message has arrived. Raises `ChannelBroken`."""
        while True:
            if output := self._take_output():
                return output
            if self.last_word is not None:
                return b""
            if not await self._read_more():
                raise await self._broken()

    def release_pipe(self) -> int:
        """Our end of the pipe, for another reader; -1 when it is closed already."""
        self._close_input()
        self._errors.close()
        pipe, self._output = self._output, -1
        return pipe

    def close(self) -> None:
        """Ends the client program; the remote processes have to be ended separately."""
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
            except OSError:  # a terminal whose other end is closed
                return False
            self._buffer += data
            return bool(data)
        return False

    def _take_output(self) -> bytes:
        """The part of the buffer that cannot be the beginning of the mark."""
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
            buffer.clear()  # output of a process that the command left
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
    """The client program gets a local terminal. It makes that terminal raw itself, but may copy
    its modes to the remote one first: so they are not changed here."""
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
"""Seconds to open a channel, and for a short answer."""
SPARE_CHANNELS = 2
"""Channels that are opened ahead: with two, they can be opened in parallel."""
_CHANNEL_CLOSE_TIMEOUT_S = 2.0
_ABANDON_TIMEOUT_S = 5.0


class ChannelPool:
    """`waiting` is how many channels to keep open, once the first was used."""

    def __init__(self, client: RemoteClient, *, waiting: int = SPARE_CHANNELS) -> None:
        self.client = client
        self._spare_count = waiting
        self._spare: list[RemoteChannel] = []
        self._leftovers = LeftoverPipes()
        self._leaving: list[ChildProcess] = []

    async def acquire(self) -> RemoteChannel:
        """A channel whose remote shell answered. Raises `EnvironmentFailed`; nothing ran then."""
        broken: ChannelBroken | None = None
        tries = 2
        while tries:
            await self.client.connect()
            spare = self._take_spare()
            channel = spare or self._open()
            tries -= spare is None
            try:
                with anyio.fail_after(CHANNEL_TIMEOUT_S):
                    await channel.ready()
                return channel
            except ChannelBroken as error:
                broken = error
            except TimeoutError:
                broken = ChannelBroken(255, f"no answer within {CHANNEL_TIMEOUT_S:.0f} seconds")
                self.drop(channel)
            except BaseException:
                self.drop(channel)
                raise
            if spare is not None:
                continue  # that channel was opened earlier: its failure may be outdated
            reason = await self.client.find_failure(broken.code, broken.complaint, begun=False)
            if reason is not None:
                raise reason from broken
        raise EnvironmentFailed(
            f"no shell can be started in {self.client.place}, which must have bash: {broken}"
        ) from broken

    def refill(self) -> None:
        """Called when a command has started: opens the next channels while it runs."""
        with suppress(EnvironmentFailed):
            while len(self._spare) < self._spare_count:
                self._spare.append(self._open())

    def release(self, channel: RemoteChannel) -> None:
        """Its exit message has arrived; a process left behind may still write to it."""
        self._wait_for_client(channel.client)
        pipe = channel.release_pipe()
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
        """The exit message of a program and its output. When we no longer wait for it, the program
        is ended, unless it `ends_itself` when the connection closes."""
        channel = await self.acquire()
        output = bytearray()
        try:
            with anyio.fail_after(timeout):
                await channel.send(build_program(body, channel.nonce, words), stdin, hold=hold)
                self.refill()
                while piece := await channel.read_output():
                    output += piece
        except ChannelBroken as broken:
            raise await self.explain_break(broken) from broken
        except TimeoutError as error:
            await self._give_up(channel, ends_itself)
            raise EnvironmentFailed(f"{self.client.place} did not answer in time") from error
        except BaseException:
            await self._give_up(channel, ends_itself)
            raise
        self.release(channel)
        return channel.last_word or "", bytes(output)

    async def explain_break(self, broken: ChannelBroken) -> EnvironmentFailed:
        reason = await self.client.find_failure(broken.code, broken.complaint, begun=True)
        return reason or EnvironmentFailed(f"{self.client.place} failed: {broken}")

    async def end_tree(self, tree: str, leader: int, *, grace: float, hard: bool = False) -> None:
        """Ends all processes with the mark or below `leader`: SIGTERM, then SIGKILL after `grace`
        seconds. The leader may still report its end; `hard` ends it first."""
        words: ScriptVariables = {
            "mark": tree,
            "keep": leader,
            "grace": int(grace * 1000),
            "hard": "1" if hard else "",
        }
        await self.run_program(
            END_TREE_SCRIPT, words, hold=True, ends_itself=True, timeout=grace + CHANNEL_TIMEOUT_S
        )

    async def abandon(self, channel: RemoteChannel) -> None:
        """Ends what the channel runs: not every host notices that the reader is gone."""
        self.drop(channel)
        with anyio.move_on_after(_ABANDON_TIMEOUT_S, shield=True), suppress(EnvironmentFailed):
            await self.end_tree("none", channel.pid, grace=0, hard=True)

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

    async def _give_up(self, channel: RemoteChannel, ends_itself: bool) -> None:
        if ends_itself:
            self.drop(channel)
        else:
            await self.abandon(channel)

    def _take_spare(self) -> RemoteChannel | None:
        while self._spare:
            channel = self._spare.pop(0)
            if channel.alive:
                return channel
            self.drop(channel)
        return None

    def _open(self) -> RemoteChannel:
        return open_channel(self.client.words(WAIT_FOR_PROGRAM_ARGV), self.client.variables)

    def drop(self, channel: RemoteChannel) -> None:
        """Ends its client program; the remote processes have to be ended separately."""
        channel.close()
        self._wait_for_client(channel.client)

    def _wait_for_client(self, child: ChildProcess) -> None:
        self._leaving = [each for each in (*self._leaving, child) if each.reap() is None]
