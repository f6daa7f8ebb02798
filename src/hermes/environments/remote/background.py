"""Starts background processes on another host, which outlive the connection and Hermes.

A channel follows the output of a process from the first read until its end. When the channel
breaks, another one continues at the same position. `process_scripts` has the programs on the host.
"""

from contextlib import suppress
from typing import Literal

import anyio
import msgspec

from hermes.core.actions import BlockedAccess
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.messages import Value
from hermes.environments.processes.process_tree import STOP_GRACE_S
from hermes.environments.remote import process_scripts as scripts
from hermes.environments.remote.channels import (
    CHANNEL_TIMEOUT_S,
    ChannelBroken,
    ChannelPool,
    RemoteChannel,
    open_terminal_channel,
)
from hermes.environments.remote.process_scripts import FORGET_SCRIPT
from hermes.environments.remote.run import RemoteExitMessage
from hermes.environments.remote.scripts import (
    ADD_REPORT_SCRIPT,
    CHANNEL_SHELL_NAME,
    RemoteShellStart,
    ScriptVariables,
    build_program,
)
from hermes.environments.shell import new_tree_mark

_INPUT_TIMEOUT_S = 10.0
"""Seconds to wait until a process reads its input."""
_RECONNECT_PAUSES_S = (0.5, 1, 2, 5, 10, 20, 30)
"""Seconds between attempts to reconnect."""


class RemoteProcessHandle(Value, frozen=True):
    """The parsed handle of a process."""

    place: str
    tree: str
    folder: str
    pid: int
    born: int

    @property
    def words(self) -> ScriptVariables:
        return {"folder": self.folder, "pid": self.pid, "born": self.born}


class RemoteProcess:
    """`position` is where to start reading; -1 is the oldest output that is kept."""

    def __init__(
        self, channels: ChannelPool, handle: RemoteProcessHandle, position: int = -1
    ) -> None:
        self.handle = msgspec.json.encode(handle).decode()
        self.pid: int | None = handle.pid
        self.ended = False
        self.channels, self._handle = channels, handle
        self._channel: RemoteChannel | None = None
        self._code: int | None = None
        self._position = position
        self._received = False
        self.blocked: list[BlockedAccess] = []
        """What the kernel refused; known when the process has ended."""

    async def output(self) -> bytes:
        while not self.ended:
            self._channel = self._channel or await self._follow()
            try:
                data = await self._channel.read_output()
            except ChannelBroken:
                self._channel = None
                continue
            if data:
                self._position += len(data)
                return data
            await self._finish(self._channel)
        return b""

    async def write(self, data: bytes) -> None:
        word = ""
        with anyio.move_on_after(_INPUT_TIMEOUT_S):
            word, _ = await self.channels.run_program(
                scripts.FEED_SCRIPT, self._handle.words, data, timeout=2 * _INPUT_TIMEOUT_S
            )
        if word != "0":
            raise ToolError("the process does not take its input")

    async def wait(self) -> int | None:
        if not self.ended and self._code is None:
            word, _ = await self.channels.run_program(
                scripts.AWAIT_SCRIPT, self._handle.words, hold=True, timeout=None
            )
            self._take(word)
        return self._code

    async def kill(self) -> None:
        await self.channels.end_tree(self._handle.tree, self._handle.pid, grace=STOP_GRACE_S)

    async def runs(self) -> bool:
        return not self.ended and await probe_process(self.channels, self._handle) == "runs"

    async def close(self) -> None:
        """Stops reading; the process continues."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await self.channels.abandon(channel)

    async def _follow(self) -> RemoteChannel:
        channel = await self._connect()
        words: ScriptVariables = {
            **self._handle.words,
            "position": self._position,
            "window": scripts.OUTPUT_WINDOW_BYTES,
            "limit": scripts.MAX_LOG_BYTES,
        }
        try:
            await channel.send(
                build_program(scripts.FOLLOW_SCRIPT, channel.nonce, words, quiet=True), hold=True
            )
        except BaseException:
            self.channels.drop(channel)
            raise
        self.channels.refill()
        self._position, self._received = max(0, self._position), True
        return channel

    async def _connect(self) -> RemoteChannel:
        """Retries: the process continues to run during a network failure."""
        for pause in _RECONNECT_PAUSES_S if self._received else ():
            with suppress(EnvironmentFailed):
                return await self.channels.acquire()
            await anyio.sleep(pause)
        return await self.channels.acquire()

    def _take(self, word: str | None) -> None:
        last = RemoteExitMessage(word)
        self._code = last.code
        self.blocked += last.blocked

    async def _finish(self, channel: RemoteChannel) -> None:
        """Removes its files on the host, after its last output was read."""
        self.channels.release(channel)
        self._channel, self.ended = None, True
        if self._code is None:
            self._take(channel.last_word)
        with suppress(EnvironmentFailed):
            await self.channels.run_program(scripts.FORGET_SCRIPT, self._handle.words)


async def start_remote(
    channels: ChannelPool, of: RemoteShellStart, folder: str, *, tree: str, long: str
) -> RemoteProcess:
    """`folder` is created for the process; `long` is saved in it as the file `command`."""
    word, output = await channels.run_program(
        scripts.start_script(of),
        {**of.words, "folder": folder, "long": long, "wrap": scripts.WRAP_SCRIPT},
        hold=True,
    )
    text = output.decode("utf-8", "replace")
    pid, _, born = text.partition(" ")
    if word != "0" or not (pid.isdigit() and born.isdigit()):
        raise EnvironmentFailed(
            f"{channels.client.place} cannot start a process in {folder}: {text}"
        )
    handle = RemoteProcessHandle(channels.client.place, tree, folder, int(pid), int(born))
    return RemoteProcess(channels, handle, position=0)


def parse_handle(handle: str) -> RemoteProcessHandle | None:
    try:
        return msgspec.json.decode(handle, type=RemoteProcessHandle)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


async def probe_process(
    channels: ChannelPool, handle: RemoteProcessHandle
) -> Literal["runs", "ended", "gone"]:
    """`ended`: its last output can still be read."""
    word, _ = await channels.run_program(scripts.PROBE_SCRIPT, handle.words)
    if word == "0":
        return "runs"
    return "ended" if word == "2" else "gone"


_TERMINAL_FINAL_OUTPUT_TIMEOUT_S = 1.0

# A terminal would echo or truncate the program, so it is read from a file.
_STORE_PROGRAM_SCRIPT = r"""
mkdir -m 700 -- "$folder" && cat > "$folder/program" || return 1
[[ -z $long ]] || builtin printf %s "$long" > "$folder/command"
"""
_READ_PROGRAM_SCRIPT = r"""printf '\0hermes:ready:%s\n' $$; . "$1"/program"""


class RemoteTerminal:
    def __init__(
        self, channels: ChannelPool, channel: RemoteChannel, tree: str, folder: str
    ) -> None:
        self.pid: int | None = channel.pid
        self.handle = f"terminal:{tree}"
        self.ended = False
        self._channels, self._channel, self._tree, self._folder = channels, channel, tree, folder
        self._code: int | None = None
        self.blocked: list[BlockedAccess] = []
        """What the kernel refused; known when the process has ended."""

    async def output(self) -> bytes:
        if self.ended:
            return b""
        try:
            data = await self._channel.read_output()
        except ChannelBroken as broken:
            self._code = broken.code or None
            data = b""
        if not data:
            await self.close()
        return data

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self.ended:
            raise ToolError("the process does not take its input")
        await self._channel.write(data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"))

    async def wait(self) -> int | None:
        """Without a reader, the exit code of the client program is used."""
        code = await self._channel.client.wait()
        return self._code if self.ended else code

    async def kill(self) -> None:
        await self._channels.end_tree(self._tree, self._channel.pid, grace=STOP_GRACE_S)
        await self._channels.run_program(
            FORGET_SCRIPT, {"folder": self._folder}
        )  # if that has ended too
        with anyio.move_on_after(_TERMINAL_FINAL_OUTPUT_TIMEOUT_S):
            while await self.output():
                pass

    async def close(self) -> None:
        if not self.ended:
            self.ended = True
            last = RemoteExitMessage(self._channel.last_word)
            if last.code is not None:
                self._code = last.code
            self.blocked += last.blocked
            self._channels.drop(self._channel)


async def start_remote_terminal(
    channels: ChannelPool, of: RemoteShellStart, folder: str, *, tree: str, long: str
) -> RemoteTerminal:
    nonce = new_tree_mark()
    run = f"{of.before}\n{of.inner}\nword=$?"
    body = f'{run}\n{ADD_REPORT_SCRIPT}\nrm -rf -- "$folder"'
    words = {**of.words, "folder": folder, "report": f"{folder}/report"}
    text = build_program(body, nonce, words, quiet=True) + 'exit "${word%% *}"\n'
    word, output = await channels.run_program(
        _STORE_PROGRAM_SCRIPT, {"folder": folder, "long": long}, text.encode()
    )
    if word != "0":
        raise EnvironmentFailed(
            f"{channels.client.place} cannot keep a file: {output.decode(errors='replace')}"
        )
    argv = ("bash", "--norc", "-c", _READ_PROGRAM_SCRIPT, CHANNEL_SHELL_NAME, folder)
    channel = open_terminal_channel(
        channels.client.words(argv, terminal=True), channels.client.variables
    )
    channel.expect(nonce)
    try:
        with anyio.fail_after(CHANNEL_TIMEOUT_S):
            await channel.ready()
    except (ChannelBroken, TimeoutError) as error:
        channels.drop(channel)
        raise EnvironmentFailed(f"{channels.client.place} gives no terminal: {error}") from error
    except BaseException:
        channels.drop(channel)
        raise
    return RemoteTerminal(channels, channel, tree, folder)
