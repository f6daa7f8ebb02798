"""The facts of a home in `memory.db`: updated from the journal, rebuilt when it is damaged."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import anyio.to_thread
import apsw
import msgspec
from msgspec.structs import replace

from hermes.core.errors import StoreError, StoreTooNew
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
)
from hermes.core.events.runs import RunDeleted, TurnEnded
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.facts.fact import (
    FACT_KINDS,
    Fact,
    FactQuery,
    apply_event,
    erase_fact,
    split_words,
)
from hermes.memory.journal.rows import to_micros
from hermes.memory.journal.sqlite_file import (
    APPLICATION_ID,
    LOCK_TIMEOUT_S,
    connect,
    create_file,
    enable_wal,
    write_transaction,
)
from hermes.memory.search.line_index import Passage, ScoredSeq
from hermes.plumbing.patterns import lazy_pattern

FACTS_VERSION = 1
FACTS_SCHEMA_SQL = f"""
CREATE TABLE fact(
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, state TEXT NOT NULL, memory TEXT NOT NULL,
    trust TEXT NOT NULL, relation TEXT NOT NULL, key TEXT NOT NULL, run TEXT NOT NULL,
    confirmed INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE INDEX fact_by_confirmation ON fact(confirmed);
CREATE INDEX fact_by_key ON fact(key) WHERE key != '';
CREATE INDEX fact_by_run ON fact(run);
CREATE VIRTUAL TABLE fact_text USING fts5(
    body, about, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TABLE shown(run TEXT, fact TEXT, PRIMARY KEY(run, fact)) WITHOUT ROWID;
CREATE TABLE progress(upto INTEGER NOT NULL);
INSERT INTO progress VALUES(0);
PRAGMA user_version={FACTS_VERSION};
"""
_CJK_SIGN = lazy_pattern(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
_fact_encoder = msgspec.json.Encoder()
_fact_decoder = msgspec.json.Decoder(Fact)


def read_progress(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT upto FROM progress").get)


def apply_records(
    connection: apsw.Connection, start: int, records: Sequence[JournalRecord], upto: int
) -> None:
    """Apply these events, unless another process was faster: each counts exactly once."""
    with write_transaction(connection):
        if read_progress(connection) == start:
            for recorded in records:
                _apply_event(connection, recorded.event)
            connection.execute("UPDATE progress SET upto = ?", (upto,))


def clear_facts(connection: apsw.Connection) -> None:
    """Start again: the journal is another one than before."""
    connection.execute(
        "BEGIN IMMEDIATE; DELETE FROM fact; DELETE FROM fact_text; DELETE FROM shown; "
        "UPDATE progress SET upto = 0; COMMIT"
    )


def get_fact(connection: apsw.Connection, id: str) -> Fact | None:
    body = connection.execute("SELECT body FROM fact WHERE id = ?", (id,)).get
    return None if body is None else _fact_decoder.decode(body)


def find_facts(connection: apsw.Connection, wanted: FactQuery) -> list[Fact]:
    columns = ("state", "memory", "trust", "relation", "run", "key")
    filters = {name: value for name in columns if (value := getattr(wanted, name))}
    where = " AND ".join(f"{name} = ?" for name in filters) or "1"
    # Filtered by subject afterwards: `about` has several values.
    limit = wanted.limit if not wanted.about else -1
    sql = f"SELECT body FROM fact WHERE {where} ORDER BY confirmed DESC, number DESC LIMIT ?"
    found = [
        _fact_decoder.decode(body)
        for (body,) in connection.execute(sql, (*filters.values(), limit))
    ]
    if wanted.about:
        about = wanted.about.casefold()
        found = [fact for fact in found if about in map(str.casefold, fact.about)]
    return found if wanted.limit < 0 else found[: wanted.limit]


def similar_facts(connection: apsw.Connection, text: str, limit: int) -> list[Fact]:
    query = match_any_query(split_words(text)[:64])
    if not query:
        return []
    sql = (
        "SELECT fact.body FROM fact_text JOIN fact ON fact.number = fact_text.rowid "
        "WHERE fact_text MATCH ? ORDER BY bm25(fact_text) LIMIT ?"
    )
    return [_fact_decoder.decode(body) for (body,) in connection.execute(sql, (query, limit))]


def match_any_query(terms: Iterable[str]) -> str:
    """A query that finds rows with any of these, each taken literally."""
    quoted = (separate_cjk_signs(term).replace('"', " ").strip() for term in terms)
    return " OR ".join(f'"{term}"' for term in dict.fromkeys(quoted) if term)


def separate_cjk_signs(text: str) -> str:
    """Chinese, Japanese and Korean without spaces would be one long word that is never found."""
    return text if text.isascii() else _CJK_SIGN.sub(r" \1 ", text)


def _apply_event(connection: apsw.Connection, event: Any) -> None:
    match event:
        case FactNoted() | FactConfirmed() | FactEnded() | FactForgotten():
            before = get_fact(connection, event.fact)
            after = apply_event(before, event)
            if after is not None and after != before:
                _save_fact(connection, after)
        case FactsShown():
            _count_shown(connection, event)
        case TurnEnded():
            _count_outcome(connection, event)
        case RunDeleted():
            for fact in find_facts(connection, FactQuery(state=None, run=event.run, limit=-1)):
                _save_fact(connection, erase_fact(fact))


def _count_shown(connection: apsw.Connection, event: FactsShown) -> None:
    for id in event.facts:
        fact = get_fact(connection, id)
        if fact is not None:
            _save_fact(connection, replace(fact, shown=fact.shown + 1))
            sql = "INSERT OR IGNORE INTO shown VALUES(?, ?)"
            connection.execute(sql, (event.run, id))


def _count_outcome(connection: apsw.Connection, event: TurnEnded) -> None:
    """The outcome of a turn says something about what was shown in it; an interruption does not."""
    ids = connection.execute("SELECT fact FROM shown WHERE run = ?", (event.run,)).fetchall()
    if not ids:
        return
    connection.execute("DELETE FROM shown WHERE run = ?", (event.run,))
    for (id,) in ids:
        fact = get_fact(connection, str(id))
        if fact is None or event.outcome == "interrupted":
            continue
        if event.outcome == "answered":
            _save_fact(connection, replace(fact, succeeded=fact.succeeded + 1))
        else:
            _save_fact(connection, replace(fact, failed=fact.failed + 1))


def _save_fact(connection: apsw.Connection, fact: Fact) -> None:
    row = (fact.id, fact.state, fact.memory, fact.trust, fact.relation, fact.key, fact.run)
    number = connection.execute(
        "INSERT INTO fact(id, state, memory, trust, relation, key, run, confirmed, body) "
        "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET state = excluded.state, "
        "key = excluded.key, trust = excluded.trust, run = excluded.run, "
        "confirmed = excluded.confirmed, body = excluded.body RETURNING number",
        (*row, to_micros(fact.last_confirmed), _fact_encoder.encode(fact)),
    ).get
    connection.execute("DELETE FROM fact_text WHERE rowid = ?", (number,))
    if fact.state == "current" and fact.trust != "quarantined":  # else it must not be found
        connection.execute(
            "INSERT INTO fact_text(rowid, body, about) VALUES(?, ?, ?)",
            (number, separate_cjk_signs(fact.text), separate_cjk_signs(" ".join(fact.about))),
        )


Answer = TypeVar("Answer")
CATCH_UP_BATCH_EVENTS = 500
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError)


class SqliteFacts:
    """A projection of the journal: nothing in the file is the only copy. Raises `StoreError`."""

    def __init__(self, path: Path, journal: Journal) -> None:
        self.path = path
        self.rebuilt = False
        """True when the file was damaged and had to be rebuilt."""
        self._journal = journal
        self._connection: apsw.Connection | None = None
        self._inode = 0
        self._lock = Lock()

    async def catch_up(self) -> int:
        """Read the events that are missing here; returns the number it has reached."""
        while True:
            newest = await self._journal.last()
            start = await self.ask(read_progress)
            if newest < start:
                await self.ask(clear_facts)
                continue
            if newest == start:
                return start
            await self._read_batches(start, newest)

    async def get(self, id: str) -> Fact | None:
        return await self.ask(partial(get_fact, id=id))

    async def find(self, query: FactQuery) -> Sequence[Fact]:
        """The latest confirmed first."""
        return await self.ask(partial(find_facts, wanted=query))

    async def like(self, text: str, *, limit: int = 10) -> Sequence[Fact]:
        """Current facts that share words with a text, best first; none that is quarantined."""
        return await self.ask(partial(similar_facts, text=text[:20_000], limit=limit))

    def close(self) -> None:
        with self._lock:
            self._close()

    async def _read_batches(self, start: int, newest: int) -> None:
        batch: list[JournalRecord] = []
        async for recorded in self._journal.read(after=start, kinds=FACT_KINDS):
            batch.append(recorded)
            if len(batch) == CATCH_UP_BATCH_EVENTS:
                upto = recorded.seq
                await self.ask(partial(apply_records, start=start, records=batch, upto=upto))
                start, batch = upto, []
        upto = max(newest, batch[-1].seq if batch else start)
        await self.ask(partial(apply_records, start=start, records=batch, upto=upto))

    async def ask(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        try:
            return await anyio.to_thread.run_sync(self._run_on_connection, work)
        except _DAMAGE_ERRORS as damage:
            if self.rebuilt:  # twice in one process: the disk is at fault, not the file
                raise self._explain(damage) from damage
            self.rebuilt = True
            await anyio.to_thread.run_sync(self._move_damaged_file)
        await self.catch_up()
        return await self.ask(work)

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
            if version > FACTS_VERSION:
                raise StoreTooNew(
                    f"{self.path} was written by a later Hermes; update this one, or delete the "
                    "file: it is rebuilt from the journal"
                )
            if version < FACTS_VERSION:
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
    connection.execute(f"{FACTS_SCHEMA_SQL} PRAGMA application_id={APPLICATION_ID};")


def _table_names(connection: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'fact_text_%'"
    return [str(name) for (name,) in connection.execute(sql).fetchall()]


_MAX_COUNTED_FACTS = 10_000
_MIN_CORPUS_FACTS = 1_000
"""A few facts do not show how rare a word is: they count as part of a larger collection."""


class FactPassages:
    """Fulfils `search.line_index.PassageStore`."""

    def __init__(self, facts: SqliteFacts) -> None:
        self._ask = facts.ask

    async def size(self, session: str | None) -> int:
        sql = "SELECT count(*) FROM fact WHERE state = 'current'"
        found = await self._ask(lambda connection: int(connection.execute(sql).get))
        return max(_MIN_CORPUS_FACTS, found)

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._ask(partial(_frequencies, terms=terms))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        return await self._ask(partial(_matching, terms=terms, limit=limit))

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Only those: facts have no neighbours."""
        return await self._ask(partial(_passages, seqs=seqs))


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
        _build_passage(number, _fact_decoder.decode(body))
        for number, body in connection.execute(sql, seqs)
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
