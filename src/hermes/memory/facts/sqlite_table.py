"""The table of facts in one SQLite file: its schema, queries and updates."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactsShown,
)
from hermes.core.events.runs import RunDeleted, TurnEnded
from hermes.core.protocols import JournalRecord
from hermes.memory.facts.fact import Fact, FactQuery, apply_event, erase_fact, split_words
from hermes.memory.journal.rows import to_micros
from hermes.memory.journal.sqlite_file import write_transaction

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
_CJK_SIGN = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Fact)


def decode_fact(body: bytes) -> Fact:
    return _decoder.decode(body)


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
    return None if body is None else _decoder.decode(body)


def find_facts(connection: apsw.Connection, wanted: FactQuery) -> list[Fact]:
    columns = ("state", "memory", "trust", "relation", "run", "key")
    filters = {name: value for name in columns if (value := getattr(wanted, name))}
    where = " AND ".join(f"{name} = ?" for name in filters) or "1"
    # Filtered by subject afterwards: `about` has several values.
    limit = wanted.limit if not wanted.about else -1
    sql = f"SELECT body FROM fact WHERE {where} ORDER BY confirmed DESC, number DESC LIMIT ?"
    found = [
        _decoder.decode(body) for (body,) in connection.execute(sql, (*filters.values(), limit))
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
    return [_decoder.decode(body) for (body,) in connection.execute(sql, (query, limit))]


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
        (*row, to_micros(fact.last_confirmed), _encoder.encode(fact)),
    ).get
    connection.execute("DELETE FROM fact_text WHERE rowid = ?", (number,))
    if fact.state == "current" and fact.trust != "quarantined":  # else it must not be found
        connection.execute(
            "INSERT INTO fact_text(rowid, body, about) VALUES(?, ?, ?)",
            (number, separate_cjk_signs(fact.text), separate_cjk_signs(" ".join(fact.about))),
        )
