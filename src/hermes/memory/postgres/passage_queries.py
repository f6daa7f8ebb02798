"""The queries of recall, for PostgreSQL."""

from collections.abc import Sequence

from hermes.memory.journal.rows import from_micros
from hermes.memory.postgres import search
from hermes.memory.postgres.search import (
    count_lines,
    lines_by_weight,
    nearby_lines,
    read_events,
    session_condition,
)
from hermes.memory.postgres.text_index import PgConnection, TextSearchSyntax
from hermes.memory.search.passages import Passage, ScoredSeq, build_passage
from hermes.memory.search.query import parse_term


def size(connection: PgConnection, _: TextSearchSyntax, *, session: str | None) -> int:
    return search.estimate_lines(connection, session_condition(session))


def frequencies(
    connection: PgConnection,
    text_search: TextSearchSyntax,
    *,
    terms: Sequence[str],
    session: str | None,
) -> Sequence[int]:
    narrow = session_condition(session)
    read = [parse_term(term) for term in terms]
    return [
        0 if one is None else count_lines(connection, text_search.tsquery_term(one), narrow)
        for one in read
    ]


def matching(
    connection: PgConnection,
    text_search: TextSearchSyntax,
    *,
    terms: Sequence[str],
    session: str | None,
    limit: int,
) -> Sequence[ScoredSeq]:
    tsqueries = [text_search.tsquery_term(one) for one in map(parse_term, terms) if one is not None]
    return [
        ScoredSeq(*each)
        for each in lines_by_weight(connection, tsqueries, session_condition(session), limit)
    ]


def around(
    connection: PgConnection, _: TextSearchSyntax, *, seqs: Sequence[int], reach: int
) -> Sequence[Passage]:
    near = nearby_lines(connection, seqs, reach)
    passages = []
    for seq, event in read_events(connection, near).items():
        _run, position, confirmed = near[seq]
        when = None if confirmed is None else from_micros(confirmed)
        passages.append(build_passage(seq, event, position, when))
    return [each for each in passages if each is not None]
