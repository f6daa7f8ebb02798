"""The facts of a home in `memory.db`: updated from the journal, rebuilt when it is damaged."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio.to_thread
import apsw

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.facts import sqlite_table
from hermes.memory.facts.fact import FACT_KINDS, Fact, FactQuery
from hermes.memory.facts.sqlite_table import decode_fact, match_any_query
from hermes.memory.journal.sqlite_file import (
    APPLICATION_ID,
    LOCK_TIMEOUT_S,
    connect,
    create_file,
    enable_wal,
)
from hermes.memory.search.line_index import ScoredSeq
from hermes.memory.search.passages import Passage

Answer = TypeVar("Answer")
CATCH_UP_BATCH_EVENTS = 500
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError)


class SqliteFacts:
    """Fulfils `FactStore`. Nothing in the file is the only copy of anything."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self.rebuilt = False
        """True when the file was damaged and had to be rebuilt."""
        self._journal = journal
        self._connection: apsw.Connection | None = None
        self._inode = 0
        self._lock = Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, journal: Journal) -> AsyncGenerator["SqliteFacts", None]:
        """Created if necessary, and caught up."""
        facts = cls(path, journal)
        try:
            await facts.catch_up()
            yield facts
        finally:
            facts.close()

    async def catch_up(self) -> int:
        while True:
            newest = await self._journal.last()
            start = await self._run(sqlite_table.read_progress)
            if newest < start:
                await self._run(sqlite_table.clear_facts)
                continue
            if newest == start:
                return start
            await self._read_batches(start, newest)

    async def get(self, id: str) -> Fact | None:
        return await self._run(partial(sqlite_table.get_fact, id=id))

    async def find(self, query: FactQuery) -> Sequence[Fact]:
        return await self._run(partial(sqlite_table.find_facts, wanted=query))

    async def like(self, text: str, *, limit: int = 10) -> Sequence[Fact]:
        return await self._run(partial(sqlite_table.similar_facts, text=text[:20_000], limit=limit))

    async def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        """For other modules that read the same file."""
        return await self._run(question)

    def close(self) -> None:
        with self._lock:
            self._close()

    async def _read_batches(self, start: int, newest: int) -> None:
        batch: list[JournalRecord] = []
        async for recorded in self._journal.read(after=start, kinds=FACT_KINDS):
            batch.append(recorded)
            if len(batch) == CATCH_UP_BATCH_EVENTS:
                upto = recorded.seq
                await self._run(
                    partial(sqlite_table.apply_records, start=start, records=batch, upto=upto)
                )
                start, batch = upto, []
        upto = max(newest, batch[-1].seq if batch else start)
        await self._run(partial(sqlite_table.apply_records, start=start, records=batch, upto=upto))

    async def _run(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        try:
            return await anyio.to_thread.run_sync(self._run_on_connection, work)
        except _DAMAGE_ERRORS as damage:
            if self.rebuilt:  # twice in one process: the disk is at fault, not the file
                raise self._explain(damage) from damage
            self.rebuilt = True
            await anyio.to_thread.run_sync(self._move_damaged_file)
        await self.catch_up()
        return await self._run(work)

    def _run_on_connection(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                return work(self._connection)
            except _DAMAGE_ERRORS:
                raise
            except (apsw.Error, OSError) as error:
                raise self._explain(error) from error

    def _open(self) -> apsw.Connection:
        create_file(self.path)
        self._inode = self.path.stat().st_ino
        connection = connect(self.path)
        try:
            enable_wal(connection, self.path, LOCK_TIMEOUT_S)
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            version = int(connection.execute("PRAGMA user_version").get)
            if version > sqlite_table.FACTS_VERSION:
                raise StoreTooNew(
                    f"{self.path} was written by a later Hermes; update this one, or delete the "
                    "file: it is rebuilt from the journal"
                )
            if version < sqlite_table.FACTS_VERSION:
                _create_tables(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _move_damaged_file(self) -> None:
        with self._lock:
            with suppress(apsw.Error):
                self._close()
            self._connection = None
            with suppress(OSError):
                if self.path.stat().st_ino != self._inode:
                    return  # another process was faster, and the file is new
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
            "delete the file and they are rebuilt from the journal"
        )


def _create_tables(connection: apsw.Connection) -> None:
    if connection.pragma("application_id") != APPLICATION_ID and _table_names(connection):
        raise apsw.NotADBError("it is a database of another program")  # renamed, not emptied
    for name in _table_names(connection):
        connection.execute(f'DROP TABLE "{name}"')
    connection.execute(f"{sqlite_table.FACTS_SCHEMA_SQL} PRAGMA application_id={APPLICATION_ID};")


def _table_names(connection: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'fact_text_%'"
    return [str(name) for (name,) in connection.execute(sql).fetchall()]


_MAX_COUNTED_FACTS = 10_000
_MIN_CORPUS_FACTS = 1_000
"""A few facts do not show how rare a word is: they count as part of a larger collection."""


class FactPassages:
    """Fulfils `search.passages.PassageStore`."""

    def __init__(self, facts: SqliteFacts) -> None:
        self._facts = facts

    async def size(self, session: str | None) -> int:
        return max(_MIN_CORPUS_FACTS, await self._facts.ask(_count_facts))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._facts.ask(partial(_frequencies, terms=terms))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        return await self._facts.ask(partial(_matching, terms=terms, limit=limit))

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Only those: facts have no neighbours."""
        return await self._facts.ask(partial(_passages, seqs=seqs))


def _count_facts(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM fact WHERE state = 'current'").get)


def _frequencies(connection: apsw.Connection, terms: Sequence[str]) -> list[int]:
    sql = "SELECT count(*) FROM (SELECT 1 FROM fact_text WHERE fact_text MATCH ? LIMIT ?)"
    queries = [match_any_query([term]) for term in terms]
    return [
        int(connection.execute(sql, (query, _MAX_COUNTED_FACTS)).get) if query else 0
        for query in queries
    ]


def _matching(connection: apsw.Connection, terms: Sequence[str], limit: int) -> list[ScoredSeq]:
    query = match_any_query(terms)
    if not query:
        return []
    sql = (
        "SELECT rowid, -bm25(fact_text, 1.0, 0.5) AS score FROM fact_text "
        "WHERE fact_text MATCH ? ORDER BY score DESC LIMIT ?"
    )
    return [ScoredSeq(seq, score) for seq, score in connection.execute(sql, (query, limit))]


def _passages(connection: apsw.Connection, seqs: Sequence[int]) -> list[Passage]:
    marks = ",".join("?" * len(seqs))
    sql = f"SELECT number, body FROM fact WHERE number IN ({marks})"
    return [
        _build_passage(number, decode_fact(body)) for number, body in connection.execute(sql, seqs)
    ]


def _build_passage(number: int, fact: Fact) -> Passage:
    return Passage(
        seq=number,
        source=fact.id,
        session="facts",
        position=number * 10,  # apart, so that two facts are not taken for a conversation
        at=fact.valid_from,
        text=fact.text,
        kind=fact.memory,
        confirmed=fact.last_confirmed,
    )
