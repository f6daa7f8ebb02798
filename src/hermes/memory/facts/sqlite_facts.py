"""The facts of a home in `memory.db`: caught up from the journal, made anew when it is damaged."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio.to_thread
import apsw

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.protocols import Journal, Recorded
from hermes.memory.connection import PATIENCE, connect, make_file, use_wal
from hermes.memory.facts import table
from hermes.memory.facts.fact import Fact
from hermes.memory.facts.store import FACT_KINDS, Wanted
from hermes.memory.schema import APPLICATION

Answer = TypeVar("Answer")
BATCH = 500
_DAMAGE = (apsw.CorruptError, apsw.NotADBError)


class SqliteFacts:
    """Fulfils `FactStore`. Nothing in the file is the only copy of anything."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self.rebuilt = False
        """True when the file was damaged and had to be made anew."""
        self._journal = journal
        self._connection: apsw.Connection | None = None
        self._inode = 0
        self._lock = Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, journal: Journal) -> AsyncGenerator["SqliteFacts", None]:
        """Made if need be, and caught up."""
        facts = cls(path, journal)
        try:
            await facts.catch_up()
            yield facts
        finally:
            facts.close()

    async def catch_up(self) -> int:
        while True:
            newest = await self._journal.last()
            start = await self._do(table.progress)
            if newest < start:
                await self._do(table.reset)
                continue
            if newest == start:
                return start
            await self._read(start, newest)

    async def get(self, id: str) -> Fact | None:
        return await self._do(partial(table.get, id=id))

    async def find(self, wanted: Wanted) -> Sequence[Fact]:
        return await self._do(partial(table.find, wanted=wanted))

    async def like(self, text: str, *, limit: int = 10) -> Sequence[Fact]:
        return await self._do(partial(table.like, text=text[:20_000], limit=limit))

    async def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        """For others of this room that read the same file."""
        return await self._do(question)

    def close(self) -> None:
        with self._lock:
            self._close()

    async def _read(self, start: int, newest: int) -> None:
        batch: list[Recorded] = []
        async for recorded in self._journal.read(after=start, kinds=FACT_KINDS):
            batch.append(recorded)
            if len(batch) == BATCH:
                upto = recorded.seq
                await self._do(partial(table.advance, start=start, records=batch, upto=upto))
                start, batch = upto, []
        upto = max(newest, batch[-1].seq if batch else start)
        await self._do(partial(table.advance, start=start, records=batch, upto=upto))

    async def _do(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        try:
            return await anyio.to_thread.run_sync(self._work, work)
        except _DAMAGE as damage:
            if self.rebuilt:  # twice in one life: the disk is at fault, not the file
                raise self._explain(damage) from damage
            self.rebuilt = True
            await anyio.to_thread.run_sync(self._put_aside)
        await self.catch_up()
        return await self._do(work)

    def _work(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                return work(self._connection)
            except _DAMAGE:
                raise
            except (apsw.Error, OSError) as error:
                raise self._explain(error) from error

    def _open(self) -> apsw.Connection:
        make_file(self.path)
        self._inode = self.path.stat().st_ino
        connection = connect(self.path)
        try:
            use_wal(connection, self.path, PATIENCE)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            version = int(connection.execute("PRAGMA user_version").get)
            if version > table.VERSION:
                raise StoreTooNew(
                    f"{self.path} was written by a later Hermes; update this one, or delete the "
                    "file: it is made anew from the journal"
                )
            if version < table.VERSION:
                _make(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _put_aside(self) -> None:
        with self._lock:
            with suppress(apsw.Error):
                self._close()
            self._connection = None
            with suppress(OSError):
                if self.path.stat().st_ino != self._inode:
                    return  # another process was faster, and what lies there now is new
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    damaged = self.path.with_name(self.path.name + ending)
                    damaged.replace(self.path.with_name(f"{self.path.name}.damaged{ending}"))

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _explain(self, error: Exception) -> StoreError:
        return StoreError(
            f"the facts in {self.path} could not be read or written: {error}. Nothing is lost: "
            "delete the file and they are made anew from the journal"
        )


def _make(connection: apsw.Connection) -> None:
    if connection.pragma("application_id") != APPLICATION and _tables(connection):
        raise apsw.NotADBError("it is a database of another program")  # put aside, not emptied
    for name in _tables(connection):
        connection.execute(f'DROP TABLE "{name}"')
    connection.execute(f"{table.SHAPE} PRAGMA application_id={APPLICATION};")


def _tables(connection: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'fact_text_%'"
    return [str(name) for (name,) in connection.execute(sql).fetchall()]
