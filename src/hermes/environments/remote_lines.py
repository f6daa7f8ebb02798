"""The lines to one place. One is always in waiting, so that a command need not wait for a line.

It also is what gets in when a place is so full that no new program can be started: the end of a
runaway command comes over it.
"""

import os
import signal
from contextlib import suppress

import anyio

from hermes.core.errors import PlaceFailed
from hermes.environments.process_leftover import Leftovers
from hermes.environments.process_spawn import Child
from hermes.environments.remote_client import Client
from hermes.environments.remote_line import Line, LineBroken, open_line
from hermes.environments.remote_scripts import END, WAIT_FOR_ONE, Words, program

PATIENCE = 30.0
"""Seconds for a line to be there, and for a short answer."""
_LEAVING = 2.0


class Lines:
    """With `waits`, one line is always in waiting once a first was taken."""

    def __init__(self, client: Client, *, waits: bool = True) -> None:
        self.client = client
        self._waits = waits
        self._spare: Line | None = None
        self._leftovers = Leftovers()
        self._leaving: list[Child] = []

    async def take(self) -> Line:
        """A line whose far end was heard. Raises `PlaceFailed`: then nothing has run there."""
        broken: LineBroken | None = None
        for _ in range(2):
            await self.client.reach()
            line = self._waiting() or self._open()
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
            reason = await self.client.broken(broken.code, broken.complaint, begun=False)
            if reason is not None:
                raise reason from broken
        raise PlaceFailed(
            f"no shell can be started in {self.client.place}, which must have bash: {broken}"
        ) from broken

    def restock(self) -> None:
        """Called when a command has begun: the next line comes up while it runs."""
        if self._waits and self._spare is None:
            with suppress(PlaceFailed):
                self._spare = self._open()

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
        patience: float | None = PATIENCE,
    ) -> tuple[str, bytes]:
        """The last word of a program of ours, and what it printed."""
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
            raise PlaceFailed(f"{self.client.place} did not answer in time") from error
        finally:
            if line.word is None:
                self.drop(line)
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
        await self.ask(END, words, hold=True, patience=grace + PATIENCE)

    async def close(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            self.drop(spare)
        self._leftovers.close()
        for child in self._leaving:
            if child.bury() is None:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        with anyio.move_on_after(_LEAVING, shield=True):
            for child in self._leaving:
                await child.wait()

    def _waiting(self) -> Line | None:
        line, self._spare = self._spare, None
        if line is not None and not line.alive:
            self.drop(line)
            return None
        return line

    def _open(self) -> Line:
        return open_line(self.client.words(WAIT_FOR_ONE), self.client.variables)

    def drop(self, line: Line) -> None:
        """End its client program. The far end has to be ended on its own."""
        line.close()
        self._part(line.client)

    def _part(self, child: Child) -> None:
        self._leaving = [each for each in (*self._leaving, child) if each.bury() is None]
