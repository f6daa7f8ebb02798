"""A background process elsewhere that outlives our connection and us; see `remote_process_scripts`.

One line follows what it prints, from when somebody first asks until its end. When that line breaks
and the place can be reached again, another goes on where it left off.
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
"""Seconds to wait for a process to take its input."""
_RECONNECT_PAUSES_S = (0.5, 1, 2, 5, 10, 20, 30)
"""Seconds between attempts to reach a place again."""


class RemoteProcessHandle(Value, frozen=True):
    """What a handle tells."""

    place: str
    tree: str
    folder: str
    pid: int
    born: int

    @property
    def words(self) -> ScriptVariables:
        return {"folder": self.folder, "pid": self.pid, "born": self.born}


class RemoteProcess:
    """`position` is what to listen from on; -1 begins at the oldest output that is kept."""

    def __init__(self, lines: ChannelPool, where: RemoteProcessHandle, position: int = -1) -> None:
        self.handle = msgspec.json.encode(where).decode()
        self.pid: int | None = where.pid
        self.ended = False
        self.lines, self._where = lines, where
        self._line: RemoteChannel | None = None
        self._code: int | None = None
        self._position = position
        self._heard = False
        self.blocked: list[BlockedAccess] = []
        """What the kernel refused it, known when it has ended."""

    async def output(self) -> bytes:
        while not self.ended:
            self._line = self._line or await self._follow()
            try:
                data = await self._line.read_output()
            except ChannelBroken:
                self._line = None
                continue
            if data:
                self._position += len(data)
                return data
            await self._finish(self._line)
        return b""

    async def write(self, data: bytes) -> None:
        word = ""
        with anyio.move_on_after(_INPUT_TIMEOUT_S):
            word, _ = await self.lines.run_program(
                scripts.FEED_SCRIPT, self._where.words, data, timeout=2 * _INPUT_TIMEOUT_S
            )
        if word != "0":
            raise ToolError("the process does not take its input")

    async def wait(self) -> int | None:
        if not self.ended and self._code is None:
            word, _ = await self.lines.run_program(
                scripts.AWAIT_SCRIPT, self._where.words, hold=True, timeout=None
            )
            self._take(word)
        return self._code

    async def kill(self) -> None:
        await self.lines.end_tree(self._where.tree, self._where.pid, grace=STOP_GRACE_S)

    async def runs(self) -> bool:
        return not self.ended and await probe_process(self.lines, self._where) == "runs"

    async def close(self) -> None:
        """Listen no more; the process goes on."""
        line, self._line = self._line, None
        if line is not None:
            await self.lines.abandon(line)

    async def _follow(self) -> RemoteChannel:
        line = await self._reached()
        words: ScriptVariables = {
            **self._where.words,
            "position": self._position,
            "window": scripts.OUTPUT_WINDOW_BYTES,
            "limit": scripts.MAX_LOG_BYTES,
        }
        try:
            await line.send(
                build_program(scripts.FOLLOW_SCRIPT, line.nonce, words, quiet=True), hold=True
            )
        except BaseException:
            self.lines.drop(line)
            raise
        self.lines.restock()
        self._position, self._heard = max(0, self._position), True
        return line

    async def _reached(self) -> RemoteChannel:
        """What goes on without us need not be given up because of a minute without network."""
        for pause in _RECONNECT_PAUSES_S if self._heard else ():
            with suppress(EnvironmentFailed):
                return await self.lines.acquire()
            await anyio.sleep(pause)
        return await self.lines.acquire()

    def _take(self, word: str | None) -> None:
        last = RemoteExitMessage(word)
        self._code = last.code
        self.blocked += last.blocked

    async def _finish(self, line: RemoteChannel) -> None:
        """Its last words were read: nothing of it need stay there."""
        self.lines.release(line)
        self._line, self.ended = None, True
        if self._code is None:
            self._take(line.last_word)
        with suppress(EnvironmentFailed):
            await self.lines.run_program(scripts.FORGET_SCRIPT, self._where.words)


async def start_remote(
    lines: ChannelPool, of: RemoteShellStart, folder: str, *, tree: str, long: str
) -> RemoteProcess:
    """`folder` will be the process's own; `long` is kept in it as the file `command`."""
    word, said = await lines.run_program(
        scripts.start_script(of),
        {**of.words, "folder": folder, "long": long, "wrap": scripts.WRAP_SCRIPT},
        hold=True,
    )
    told = said.decode("utf-8", "replace")
    pid, _, born = told.partition(" ")
    if word != "0" or not (pid.isdigit() and born.isdigit()):
        raise EnvironmentFailed(f"{lines.client.place} cannot start a process in {folder}: {told}")
    where = RemoteProcessHandle(lines.client.place, tree, folder, int(pid), int(born))
    return RemoteProcess(lines, where, position=0)


def parse_handle(handle: str) -> RemoteProcessHandle | None:
    try:
        return msgspec.json.decode(handle, type=RemoteProcessHandle)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


async def probe_process(
    lines: ChannelPool, where: RemoteProcessHandle
) -> Literal["runs", "ended", "gone"]:
    """`ended`: there are last words of it to be read."""
    word, _ = await lines.run_program(scripts.PROBE_SCRIPT, where.words)
    if word == "0":
        return "runs"
    return "ended" if word == "2" else "gone"


_TERMINAL_FINAL_OUTPUT_TIMEOUT_S = 1.0

# A program cannot be sent over a terminal, which would echo it, or cut it: it lies in a file.
_STORE_PROGRAM_SCRIPT = r"""
mkdir -m 700 -- "$folder" && cat > "$folder/program" || return 1
[[ -z $long ]] || builtin printf %s "$long" > "$folder/command"
"""
_READ_PROGRAM_SCRIPT = r"""printf '\0hermes:ready:%s\n' $$; . "$1"/program"""


class RemoteTerminal:
    def __init__(self, lines: ChannelPool, line: RemoteChannel, tree: str, folder: str) -> None:
        self.pid: int | None = line.pid
        self.handle = f"terminal:{tree}"
        self.ended = False
        self._lines, self._line, self._tree, self._folder = lines, line, tree, folder
        self._code: int | None = None
        self.blocked: list[BlockedAccess] = []
        """What the kernel refused it, known when it has ended."""

    async def output(self) -> bytes:
        if self.ended:
            return b""
        try:
            data = await self._line.read_output()
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
        await self._line.write(data.replace(b"\r\n", b"\r").replace(b"\n", b"\r"))

    async def wait(self) -> int | None:
        """Nobody need listen: then it is the client program that tells."""
        code = await self._line.client.wait()
        return self._code if self.ended else code

    async def kill(self) -> None:
        await self._lines.end_tree(self._tree, self._line.pid, grace=STOP_GRACE_S)
        await self._lines.run_program(
            FORGET_SCRIPT, {"folder": self._folder}
        )  # if that was ended as well
        with anyio.move_on_after(_TERMINAL_FINAL_OUTPUT_TIMEOUT_S):
            while await self.output():
                pass

    async def close(self) -> None:
        if not self.ended:
            self.ended = True
            last = RemoteExitMessage(self._line.last_word)
            if last.code is not None:
                self._code = last.code
            self.blocked += last.blocked
            self._lines.drop(self._line)


async def start_remote_terminal(
    lines: ChannelPool, of: RemoteShellStart, folder: str, *, tree: str, long: str
) -> RemoteTerminal:
    nonce = new_tree_mark()
    run = f"{of.before}\n{of.inner}\nword=$?"
    body = f'{run}\n{ADD_REPORT_SCRIPT}\nrm -rf -- "$folder"'
    words = {**of.words, "folder": folder, "report": f"{folder}/report"}
    text = build_program(body, nonce, words, quiet=True) + 'exit "${word%% *}"\n'
    word, said = await lines.run_program(
        _STORE_PROGRAM_SCRIPT, {"folder": folder, "long": long}, text.encode()
    )
    if word != "0":
        raise EnvironmentFailed(
            f"{lines.client.place} cannot keep a file: {said.decode(errors='replace')}"
        )
    argv = ("bash", "--norc", "-c", _READ_PROGRAM_SCRIPT, CHANNEL_SHELL_NAME, folder)
    line = open_terminal_channel(lines.client.words(argv, terminal=True), lines.client.variables)
    line.expect(nonce)
    try:
        with anyio.fail_after(CHANNEL_TIMEOUT_S):
            await line.ready()
    except (ChannelBroken, TimeoutError) as error:
        lines.drop(line)
        raise EnvironmentFailed(f"{lines.client.place} gives no terminal: {error}") from error
    except BaseException:
        lines.drop(line)
        raise
    return RemoteTerminal(lines, line, tree, folder)
