"""The queries of recall, for the SQLite index and journal."""

from collections.abc import Sequence
from datetime import UTC, datetime

import apsw

from hermes.memory.search.line_search import count_lines, lines_by_weight, read_events
from hermes.memory.search.passages import Passage, ScoredSeq, build_passage
from hermes.memory.search.query import parse_term
from hermes.memory.search.text_analysis import session_mark


def size(index: apsw.Connection, journal: apsw.Connection, *, session: str | None) -> int:
    if session is None:
        return int(index.execute("SELECT lines FROM state").get)
    found = index.execute("SELECT lines FROM session WHERE run = ?", (session,)).get
    return int(found or 0)


def frequencies(
    index: apsw.Connection, journal: apsw.Connection, *, terms: Sequence[str], session: str | None
) -> Sequence[int]:
    scope = f" AND {session_mark(session)}" if session else ""
    read = [parse_term(term) for term in terms]
    return [0 if term is None else count_lines(index, f"{term.expression}{scope}") for term in read]


def matching(
    index: apsw.Connection,
    journal: apsw.Connection,
    *,
    terms: Sequence[str],
    session: str | None,
    limit: int,
) -> Sequence[ScoredSeq]:
    read = dict.fromkeys(term.expression for term in map(parse_term, terms) if term is not None)
    also = [session_mark(session)] if session else []
    return [
        ScoredSeq(*each) for each in lines_by_weight(index, list(read), filters=also, limit=limit)
    ]


def around(
    index: apsw.Connection, journal: apsw.Connection, *, seqs: Sequence[int], reach: int
) -> Sequence[Passage]:
    positions = _nearby_lines(index, seqs, reach)
    events = read_events(journal, positions)
    passages = (
        build_passage(seq, events[seq], *position)
        for seq, position in positions.items()
        if seq in events
    )
    return [each for each in passages if each is not None]


def _nearby_lines(
    index: apsw.Connection, seqs: Sequence[int], reach: int
) -> dict[int, tuple[int, datetime | None]]:
    """Position and last confirmation of those lines and of the lines near them, by number."""
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
    return {
        seq: (position, None if confirmed is None else datetime.fromtimestamp(confirmed, UTC))
        for seq, position, confirmed in found
    }
