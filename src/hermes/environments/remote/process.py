"""A background process elsewhere that outlives our connection and us; see `remote_process_scripts`.

One line follows what it prints, from when somebody first asks until its end. When that line breaks
and the place can be reached again, another goes on where it left off.
"""

from contextlib import suppress
from typing import Literal

import anyio
import msgspec

from hermes.core.actions import Blocked
from hermes.core.errors import PlaceFailed, ToolError
from hermes.core.messages import Value
from hermes.environments.processes.tree import GRACE
from hermes.environments.remote import process_scripts as scripts
from hermes.environments.remote.line import Line, LineBroken
from hermes.environments.remote.lines import Lines
from hermes.environments.remote.scripts import Start, Words, program
from hermes.environments.remote.word import LastWord

_PATIENCE = 10.0
"""Seconds to wait for a process to take its input."""
_PAUSES = (0.5, 1, 2, 5, 10, 20, 30)
"""Seconds between attempts to reach a place again."""


class Whereabouts(Value, frozen=True):
    """What a handle tells."""

    place: str
    tree: str
    folder: str
    pid: int
    born: int

    @property
    def words(self) -> Words:
        return {"folder": self.folder, "pid": self.pid, "born": self.born}


class RemoteProcess:
    """`position` is what to listen from on; -1 begins at the oldest output that is kept."""

    def __init__(self, lines: Lines, where: Whereabouts, position: int = -1) -> None:
        self.handle = msgspec.json.encode(where).decode()
        self.pid: int | None = where.pid
        self.ended = False
        self.lines, self._where = lines, where
        self._line: Line | None = None
        self._code: int | None = None
        self._position = position
        self._heard = False
        self.blocked: list[Blocked] = []
        """What the kernel refused it, known when it has ended."""

    async def output(self) -> bytes:
        while not self.ended:
            self._line = self._line or await self._follow()
            try:
                data = await self._line.piece()
            except LineBroken:
                self._line = None
                continue
            if data:
                self._position += len(data)
                return data
            await self._finish(self._line)
        return b""

    async def write(self, data: bytes) -> None:
        word = ""
        with anyio.move_on_after(_PATIENCE):
            word, _ = await self.lines.ask(
                scripts.FEED, self._where.words, data, patience=2 * _PATIENCE
            )
        if word != "0":
            raise ToolError("the process does not take its input")

    async def wait(self) -> int | None:
        if not self.ended and self._code is None:
            word, _ = await self.lines.ask(
                scripts.AWAIT, self._where.words, hold=True, patience=None
            )
            self._take(word)
        return self._code

    async def kill(self) -> None:
        await self.lines.end(self._where.tree, self._where.pid, grace=GRACE)

    async def runs(self) -> bool:
        return not self.ended and await look(self.lines, self._where) == "runs"

    async def close(self) -> None:
        """Listen no more; the process goes on."""
        line, self._line = self._line, None
        if line is not None:
            await self.lines.abandon(line)

    async def _follow(self) -> Line:
        line = await self._reached()
        words: Words = {
            **self._where.words,
            "position": self._position,
            "window": scripts.WINDOW,
            "limit": scripts.LONGEST_LOG,
        }
        try:
            await line.send(program(scripts.FOLLOW, line.nonce, words, quiet=True), hold=True)
        except BaseException:
            self.lines.drop(line)
            raise
        self.lines.restock()
        self._position, self._heard = max(0, self._position), True
        return line

    async def _reached(self) -> Line:
        """What goes on without us need not be given up because of a minute without network."""
        for pause in _PAUSES if self._heard else ():
            with suppress(PlaceFailed):
                return await self.lines.take()
            await anyio.sleep(pause)
        return await self.lines.take()

    def _take(self, word: str | None) -> None:
        last = LastWord(word)
        self._code = last.code
        self.blocked += last.blocked

    async def _finish(self, line: Line) -> None:
        """Its last words were read: nothing of it need stay there."""
        self.lines.done(line)
        self._line, self.ended = None, True
        if self._code is None:
            self._take(line.word)
        with suppress(PlaceFailed):
            await self.lines.ask(scripts.FORGET, self._where.words)


async def start(lines: Lines, of: Start, folder: str, *, tree: str, long: str) -> RemoteProcess:
    """`folder` will be the process's own; `long` is kept in it as the file `command`."""
    word, said = await lines.ask(
        scripts.start(of),
        {**of.words, "folder": folder, "long": long, "wrap": scripts.WRAP},
        hold=True,
    )
    told = said.decode("utf-8", "replace")
    pid, _, born = told.partition(" ")
    if word != "0" or not (pid.isdigit() and born.isdigit()):
        raise PlaceFailed(f"{lines.client.place} cannot start a process in {folder}: {told}")
    where = Whereabouts(lines.client.place, tree, folder, int(pid), int(born))
    return RemoteProcess(lines, where, position=0)


def whereabouts(handle: str) -> Whereabouts | None:
    try:
        return msgspec.json.decode(handle, type=Whereabouts)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


async def look(lines: Lines, where: Whereabouts) -> Literal["runs", "ended", "gone"]:
    """`ended`: there are last words of it to be read."""
    word, _ = await lines.ask(scripts.LOOK, where.words)
    if word == "0":
        return "runs"
    return "ended" if word == "2" else "gone"
