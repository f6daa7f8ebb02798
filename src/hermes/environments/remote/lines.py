"""The lines to one place. Some are always in waiting, so that a command need not wait for a line.

They also are what gets in when a place is so full that no new program can be started: the end of a
runaway command comes over one.
"""

import os
import signal
from contextlib import suppress

import anyio

from hermes.core.errors import PlaceFailed
from hermes.environments.processes.leftover import Leftovers
from hermes.environments.processes.spawn import Child
from hermes.environments.remote.client import Client
from hermes.environments.remote.line import Line, LineBroken, open_line
from hermes.environments.remote.scripts import END, WAIT_FOR_ONE, Words, program

PATIENCE = 30.0
"""Seconds for a line to be there, and for a short answer."""
WAITING = 2
"""Lines in waiting: with two, commands one after the other come up side by side."""
_LEAVING = 2.0
_ABANDONING = 5.0


class Lines:
    """`waiting` is how many lines to hold ready, once a first was taken."""

    def __init__(self, client: Client, *, waiting: int = WAITING) -> None:
        self.client = client
        self._wanted = waiting
        self._spare: list[Line] = []
        self._leftovers = Leftovers()
        self._leaving: list[Child] = []

    async def take(self) -> Line:
        """A line whose far end was heard. Raises `PlaceFailed`: then nothing has run there."""
        broken: LineBroken | None = None
        tries = 2
        while tries:
            await self.client.reach()
            spare = self._waiting()
            line = spare or self._open()
            tries -= spare is None
            try:
                with anyio.fail_after(PATIENCE):
                    await line.ready()
                return line
            except LineBroken as error:
                broken = error
            except TimeoutError:
                broken = LineBroken(255, f"no answer within {PATIENCE:.0f} seconds")
                self.drop(line)
            except BaseException:
                self.drop(line)
                raise
            if spare is not None:
                continue  # that line was opened a while ago: it tells of then, and not of now
            reason = await self.client.broken(broken.code, broken.complaint, begun=False)
            if reason is not None:
                raise reason from broken
        raise PlaceFailed(
            f"no shell can be started in {self.client.place}, which must have bash: {broken}"
        ) from broken

    def restock(self) -> None:
        """Called when a command has begun: the next lines come up while it runs."""
        with suppress(PlaceFailed):
            while len(self._spare) < self._wanted:
                self._spare.append(self._open())

    def done(self, line: Line) -> None:
        """Its last word has come. Somebody left behind may still print into it."""
        self._part(line.client)
        pipe = line.let_go()
        if pipe >= 0:
            self._leftovers.take(pipe)

    async def ask(
        self,
        body: str,
        words: Words | None = None,
        stdin: bytes = b"",
        *,
        hold: bool = False,
        ends_itself: bool = False,
        patience: float | None = PATIENCE,
    ) -> tuple[str, bytes]:
        """The last word of a program of ours, and what it printed. One that `ends_itself` when we
        hang up is left to do so; any other is ended when we no longer wait for it."""
        line = await self.take()
        said = bytearray()
        try:
            with anyio.fail_after(patience):
                await line.send(program(body, line.nonce, words), stdin, hold=hold)
                self.restock()
                while piece := await line.piece():
                    said += piece
        except LineBroken as broken:
            raise await self.why(broken) from broken
        except TimeoutError as error:
            await self._give_up(line, ends_itself)
            raise PlaceFailed(f"{self.client.place} did not answer in time") from error
        except BaseException:
            await self._give_up(line, ends_itself)
            raise
        self.done(line)
        return line.word or "", bytes(said)

    async def why(self, broken: LineBroken) -> PlaceFailed:
        reason = await self.client.broken(broken.code, broken.complaint, begun=True)
        return reason or PlaceFailed(f"{self.client.place} failed: {broken}")

    async def end(self, tree: str, leader: int, *, grace: float, hard: bool = False) -> None:
        """End all that carries the mark, or belongs to `leader`: asking first, for `grace`
        seconds. The leader gets a moment to tell; `hard` ends it before all others."""
        words: Words = {
            "mark": tree,
            "keep": leader,
            "grace": int(grace * 1000),
            "hard": "1" if hard else "",
        }
        await self.ask(END, words, hold=True, ends_itself=True, patience=grace + PATIENCE)

    async def abandon(self, line: Line) -> None:
        """Nobody listens to it any more. What it runs there would not notice that in every place,
        so it is ended."""
        self.drop(line)
        with anyio.move_on_after(_ABANDONING, shield=True), suppress(PlaceFailed):
            await self.end("none", line.pid, grace=0, hard=True)

    async def close(self) -> None:
        while self._spare:
            self.drop(self._spare.pop())
        self._leftovers.close()
        for child in self._leaving:
            if child.bury() is None:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        with anyio.move_on_after(_LEAVING, shield=True):
            for child in self._leaving:
                await child.wait()

    async def _give_up(self, line: Line, ends_itself: bool) -> None:
        if ends_itself:
            self.drop(line)
        else:
            await self.abandon(line)

    def _waiting(self) -> Line | None:
        while self._spare:
            line = self._spare.pop(0)
            if line.alive:
                return line
            self.drop(line)
        return None

    def _open(self) -> Line:
        return open_line(self.client.words(WAIT_FOR_ONE), self.client.variables)

    def drop(self, line: Line) -> None:
        """End its client program. The far end has to be ended on its own."""
        line.close()
        self._part(line.client)

    def _part(self, child: Child) -> None:
        self._leaving = [each for each in (*self._leaving, child) if each.bury() is None]
