"""Facts as recall reads them: current ones that somebody vouches for."""

from collections.abc import Mapping, Sequence
from functools import partial

import apsw

from hermes.memory.facts.fact import Fact
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.memory.facts.table import any_of, decoded
from hermes.memory.recall.store import Found, Passage

_MOST_COUNTED = 10_000
_AS_IF = 1_000
"""How rare a word is cannot be told from a handful of facts: they count as part of a larger lot."""


class FactPassages:
    """Fulfils `recall.store.RecallStore`, over text alone."""

    def __init__(self, facts: SqliteFacts) -> None:
        self._facts = facts

    async def size(self, session: str | None) -> int:
        return max(_AS_IF, await self._facts.ask(_size))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._facts.ask(partial(_frequencies, terms=terms))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[Found]:
        return await self._facts.ask(partial(_matching, terms=terms, limit=limit))

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]:
        return ()

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        return {}

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Only those: facts have no neighbours."""
        return await self._facts.ask(partial(_passages, seqs=seqs))


def _size(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM fact WHERE state = 'current'").get)


def _frequencies(connection: apsw.Connection, terms: Sequence[str]) -> list[int]:
    sql = "SELECT count(*) FROM (SELECT 1 FROM fact_text WHERE fact_text MATCH ? LIMIT ?)"
    queries = [any_of([term]) for term in terms]
    return [
        int(connection.execute(sql, (query, _MOST_COUNTED)).get) if query else 0
        for query in queries
    ]


def _matching(connection: apsw.Connection, terms: Sequence[str], limit: int) -> list[Found]:
    query = any_of(terms)
    if not query:
        return []
    sql = (
        "SELECT rowid, -bm25(fact_text, 1.0, 0.5) AS score FROM fact_text "
        "WHERE fact_text MATCH ? ORDER BY score DESC LIMIT ?"
    )
    return [Found(seq, score) for seq, score in connection.execute(sql, (query, limit))]


def _passages(connection: apsw.Connection, seqs: Sequence[int]) -> list[Passage]:
    marks = ",".join("?" * len(seqs))
    sql = f"SELECT number, body FROM fact WHERE number IN ({marks})"
    return [_passage(number, decoded(body)) for number, body in connection.execute(sql, seqs)]


def _passage(number: int, fact: Fact) -> Passage:
    return Passage(
        seq=number,
        source=fact.id,
        session="facts",
        position=number * 10,  # apart, so that nobody takes two facts for a conversation
        at=fact.valid_from,
        text=fact.text,
        kind=fact.memory,
        confirmed=fact.last_confirmed,
    )
