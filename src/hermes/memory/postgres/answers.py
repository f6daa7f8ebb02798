"""What recall asks of a store, answered by the database."""

from collections.abc import Sequence

from hermes.memory.postgres import finding
from hermes.memory.postgres.finding import count, places, weighed, within
from hermes.memory.postgres.hits import read_events
from hermes.memory.postgres.indexing import Database
from hermes.memory.postgres.wording import Wording
from hermes.memory.recall.store import Found, Passage
from hermes.memory.rows import moment
from hermes.memory.search.passages import passage
from hermes.memory.search.query import term_of


def size(connection: Database, _: Wording, *, session: str | None) -> int:
    return finding.size(connection, within(session))


def frequencies(
    connection: Database, wording: Wording, *, terms: Sequence[str], session: str | None
) -> Sequence[int]:
    narrow = within(session)
    read = [term_of(term) for term in terms]
    return [0 if one is None else count(connection, wording.term(one), narrow) for one in read]


def matching(
    connection: Database,
    wording: Wording,
    *,
    terms: Sequence[str],
    session: str | None,
    limit: int,
) -> Sequence[Found]:
    ways = [wording.term(one) for one in map(term_of, terms) if one is not None]
    return [Found(*each) for each in weighed(connection, ways, within(session), limit)]


def around(
    connection: Database, _: Wording, *, seqs: Sequence[int], reach: int
) -> Sequence[Passage]:
    near = places(connection, seqs, reach)
    passages = []
    for seq, event in read_events(connection, near).items():
        _run, position, confirmed = near[seq]
        when = None if confirmed is None else moment(confirmed)
        passages.append(passage(seq, event, position, when))
    return [each for each in passages if each is not None]
