"""Lines of the database that hold all the words of a search, or some of them, the best first."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.recall import Hits, Line, Search
from hermes.memory.postgres.finding import (
    EVERYWHERE,
    Narrow,
    count,
    narrowed,
    newest,
    places,
    size,
    weighed,
)
from hermes.memory.postgres.indexing import Database
from hermes.memory.postgres.wording import TEXTS, Wording, error_word
from hermes.memory.rows import read
from hermes.memory.search.finding import rarity
from hermes.memory.search.query import Query, Term, read_query, term_of
from hermes.memory.search.ranking import score
from hermes.memory.search.told import told
from hermes.memory.search.widening import MOST, Neighbours, Ranked, widened

CANDIDATES = 120
"""Lines that hold all the words and are read to be ranked; the newest of them."""


def search(connection: Database, wording: Wording, wanted: Search) -> Hits:
    query, narrow = read_query(wanted.words), narrowed(wanted)
    service = term_of(wanted.service)
    also = [] if service is None else [service]
    ranked = _all(connection, wording, query, also, narrow)
    some = partial(_some, connection, wording, query, also, narrow)
    return widened(query, wanted.limit, ranked, some, partial(_beside, connection))


def read_events(connection: Database, seqs: Iterable[int]) -> dict[int, Event | Unknown]:
    """What is damaged, or no longer there, is left out."""
    rows = connection.execute(
        "SELECT seq, at, run, kind, body FROM hermes.event WHERE seq = ANY(%s) "
        "AND body IS NOT NULL",
        (list(seqs),),
    )
    found: dict[int, Event | Unknown] = {}
    for seq, at, run, kind, body in rows:
        try:
            found[seq] = read(seq, at, run.encode(), kind.encode(), body.encode())
        except StoreCorrupt:
            continue
    return found


def read_lines(connection: Database, seqs: Iterable[int]) -> dict[int, Line]:
    events = read_events(connection, seqs)
    lines = ((seq, told(seq, event)) for seq, event in events.items())
    return {seq: line for seq, line in lines if line is not None}


def _all(
    connection: Database, wording: Wording, query: Query, also: Sequence[Term], narrow: Narrow
) -> Ranked:
    words = wording.query(query, *also)
    if not query.needed:  # only filters: what happened there last
        if not also and narrow == EVERYWHERE:
            return []
        seqs = newest(connection, words, narrow, MOST)
        lines = read_lines(connection, seqs)
        return [(lines[seq], 0.0) for seq in seqs if seq in lines]
    seqs = newest(connection, words, narrow, CANDIDATES)
    now, total = datetime.now(UTC), size(connection)
    weights = {
        term: rarity(count(connection, wording.term(term)), total) if query.terms[1:] else 1.0
        for term in query.terms
    }
    scored = [(line, score(line, weights, now)) for line in read_lines(connection, seqs).values()]
    return sorted(scored, key=lambda each: (-each[1], -each[0].seq))


def _some(
    connection: Database,
    wording: Wording,
    query: Query,
    also: Sequence[Term],
    narrow: Narrow,
    limit: int,
) -> Ranked:
    """Part of the words, or the same error with other numbers in it."""
    ways = [wording.term(term, TEXTS) for term in query.terms]
    ways += [f"'{error_word(each)}'" for each in query.signatures]
    more = [*(wording.term(term) for term in also), *wording.without(query)]
    ways = [" & ".join([way, *more]) for way in ways]
    found = weighed(connection, ways, narrow, limit)
    lines = read_lines(connection, [seq for seq, _ in found])
    return [(lines[seq], points) for seq, points in found if seq in lines]


def _beside(connection: Database, seqs: Sequence[int]) -> Neighbours:
    near = places(connection, seqs, 1)
    lines = read_lines(connection, near)
    at = {(run, position): lines.get(seq) for seq, (run, position, _) in near.items()}
    return {
        seq: (at.get((run, position - 1)), at.get((run, position + 1)))
        for seq, (run, position, _) in near.items()
    }
