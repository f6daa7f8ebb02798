"""What recall asks of a store, answered by the index and the journal of a home."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import apsw

from hermes.core.events.memory import FactNoted
from hermes.memory.recall.store import Found, Passage
from hermes.memory.search.finding import count, weighed
from hermes.memory.search.lines import read_events
from hermes.memory.search.marks import in_session
from hermes.memory.search.query import term_of
from hermes.memory.search.sessions import SessionSearch
from hermes.memory.search.told import told

SEEN = 4000
"""Characters of a passage that recall looks at."""


class Vectors(Protocol):
    """Where the vectors of lines are kept, by number."""

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]: ...
    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]: ...


class SqlitePassages:
    """Fulfils `RecallStore`; without `vectors` it knows only words."""

    def __init__(self, search: SessionSearch, vectors: Vectors | None = None) -> None:
        self._search = search
        self._vectors = vectors

    async def size(self, session: str | None) -> int:
        return await self._search.ask(partial(_size, session=session))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        return await self._search.ask(partial(_frequencies, terms=terms, session=session))

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[Found]:
        return await self._search.ask(partial(_matching, terms=terms, session=session, limit=limit))

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]:
        if self._vectors is None:
            return ()
        return await self._vectors.nearest(vector, model, session=session, limit=limit)

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        if self._vectors is None:
            return {}
        return await self._vectors.similarities(vector, model, seqs)

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        return await self._search.ask(partial(_around, seqs=seqs, reach=reach))


def _size(index: apsw.Connection, journal: apsw.Connection, *, session: str | None) -> int:
    if session is None:
        return int(index.execute("SELECT lines FROM state").get)
    found = index.execute("SELECT lines FROM session WHERE run = ?", (session,)).get
    return int(found or 0)


def _frequencies(
    index: apsw.Connection, journal: apsw.Connection, *, terms: Sequence[str], session: str | None
) -> Sequence[int]:
    scope = f" AND {in_session(session)}" if session else ""
    read = [term_of(term) for term in terms]
    return [0 if term is None else count(index, f"{term.expression}{scope}") for term in read]


def _matching(
    index: apsw.Connection,
    journal: apsw.Connection,
    *,
    terms: Sequence[str],
    session: str | None,
    limit: int,
) -> Sequence[Found]:
    read = dict.fromkeys(term.expression for term in map(term_of, terms) if term is not None)
    also = [in_session(session)] if session else []
    return [Found(*each) for each in weighed(index, list(read), also=also, limit=limit)]


def _around(
    index: apsw.Connection, journal: apsw.Connection, *, seqs: Sequence[int], reach: int
) -> Sequence[Passage]:
    places = _places(index, seqs, reach)
    events = read_events(journal, places)
    passages = []
    for seq, (position, confirmed) in places.items():
        event = events.get(seq)
        line = None if event is None else told(seq, event)
        if line is None:
            continue
        passages.append(
            Passage(
                seq=seq,
                source=line.source or str(seq),
                session=line.run,
                position=position,
                at=line.at,
                speaker=line.speaker or line.role,
                text=line.text[:SEEN],
                kind=event.memory if isinstance(event, FactNoted) else "episodic",
                confirmed=None if confirmed is None else datetime.fromtimestamp(confirmed, UTC),
            )
        )
    return passages


def _places(
    index: apsw.Connection, seqs: Sequence[int], reach: int
) -> dict[int, tuple[int, int | None]]:
    """Position and last confirmation of those lines and of the ones near them, by number."""
    asked = ", ".join(str(int(seq)) for seq in seqs)
    found = index.execute(
        "WITH asked AS (SELECT session, position FROM line WHERE seq IN (" + asked + ")) "
        "SELECT DISTINCT near.seq, near.position, confirmed FROM asked JOIN line near "
        "ON near.session = asked.session "
        "AND near.position BETWEEN asked.position - ? AND asked.position + ? "
        "LEFT JOIN fate ON fate.seq = near.seq "
        "WHERE ended IS NULL AND near.seq NOT IN (SELECT seq FROM gone)",
        (reach, reach),
    )
    return {seq: (position, confirmed) for seq, position, confirmed in found}
