"""One search from words to hits: all the words first, then, when that is too little, some."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.happening import Unknown
from hermes.core.recall import Hit, Hits, Line, Search
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
from hermes.memory.search.snippets import pattern, snippet
from hermes.memory.search.told import told

CANDIDATES = 120
"""Lines that hold all the words and are read to be ranked; the newest of them."""
MOST = 200
"""Hits that one search may have."""

Ranked = list[tuple[Line, float]]


def search(connection: Database, wording: Wording, wanted: Search) -> Hits:
    limit = max(1, min(wanted.limit, MOST))
    query, narrow = read_query(wanted.words), narrowed(wanted)
    service = term_of(wanted.service)
    also = [] if service is None else [service]
    ranked = _all(connection, wording, query, also, narrow)[:limit]
    relaxed: Ranked = []
    if len(ranked) < limit and (len(query.needed) > 1 or query.signatures):
        known = {line.seq for line, _ in ranked}
        some = _some(connection, wording, query, also, narrow, limit + len(known))
        relaxed = [each for each in some if each[0].seq not in known][: limit - len(ranked)]
    hits = _shown(connection, [*ranked, *relaxed], query.terms)
    return Hits(hits=hits, relaxed=bool(relaxed))


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


def _shown(connection: Database, ranked: Ranked, terms: Sequence[Term]) -> tuple[Hit, ...]:
    words = pattern(terms)
    near = places(connection, [line.seq for line, _ in ranked], 1)
    at = {(run, position): seq for seq, (run, position, _) in near.items()}
    lines = read_lines(connection, near)
    hits = []
    for line, points in ranked:
        piece, marks = snippet(line.text, words)
        run, position, _ = near.get(line.seq, (line.run, -9, None))
        before, after = (_short(lines.get(at.get((run, position + step), 0))) for step in (-1, 1))
        hits.append(
            Hit(
                line=line,
                score=round(points, 4),
                snippet=piece,
                marks=marks,
                before=before,
                after=after,
            )
        )
    return tuple(hits)


def _short(line: Line | None) -> Line | None:
    """A neighbour is there to be recognised, not to be read in full."""
    return None if line is None else replace(line, text=snippet(line.text, None)[0])
