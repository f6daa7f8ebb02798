"""Lines of a home that hold all the words of a search, or some of them, the best first."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial, reduce

import apsw

from hermes.core.recall import Hits, Line, Search
from hermes.memory.search.finding import Bounds, bounds, count, newest, rarity, weighed
from hermes.memory.search.lines import neighbours, read_lines
from hermes.memory.search.marks import marked, narrowed
from hermes.memory.search.query import Query, Term, read_query, term_of
from hermes.memory.search.ranking import score
from hermes.memory.search.widening import MOST, Neighbours, Ranked, widened

CANDIDATES = 100
"""Lines that hold all the words and are read to be ranked; the newest of them."""
TEXTS = "{body facts} : "


def search(index: apsw.Connection, journal: apsw.Connection, wanted: Search) -> Hits:
    query, narrow = _read(wanted)
    within = bounds(index, wanted.since, wanted.until)
    ranked = _all(index, journal, query, narrow, within)
    some = partial(_some, index, journal, query, narrow, within)
    return widened(query, wanted.limit, ranked, some, partial(_beside, index, journal))


def _read(wanted: Search) -> tuple[Query, list[str]]:
    query, narrow = read_query(wanted.words), narrowed(wanted)
    service = term_of(wanted.service)
    if service is not None:
        narrow.append(service.expression)
    return query, narrow


def _all(
    index: apsw.Connection,
    journal: apsw.Connection,
    query: Query,
    narrow: Sequence[str],
    within: Bounds,
) -> Ranked:
    if not query.needed and not narrow:
        return []
    if not query.needed:  # only filters: what happened there last
        seqs = newest(index, query.without(" AND ".join(narrow)), within, limit=MOST)
        lines = read_lines(journal, seqs)
        return [(lines[seq], 0.0) for seq in seqs if seq in lines]
    texts = f"{TEXTS}({query.expression()})"
    seqs = newest(index, " AND ".join([texts, *narrow]), within, limit=CANDIDATES)
    now, weights = datetime.now(UTC), _weights(index, query.terms)
    lines = read_lines(journal, seqs)
    scored = [(line, score(line, weights, now)) for line in lines.values()]
    return sorted(scored, key=lambda each: (-each[1], -each[0].seq))


def _some(
    index: apsw.Connection,
    journal: apsw.Connection,
    query: Query,
    narrow: Sequence[str],
    within: Bounds,
    limit: int,
) -> Ranked:
    """Part of the words, or the same error with other numbers in it."""
    ways = [f"{TEXTS}{term.expression}" for term in query.terms]
    ways += [marked("error", each) for each in query.signatures]
    unwanted = reduce(lambda so_far, term: f"{so_far} NOT {term.expression}", query.unwanted, "")
    also = [*narrow[:-1], narrow[-1] + unwanted] if narrow else []
    found = weighed(index, ways, within, also=also, limit=limit)
    lines = read_lines(journal, [seq for seq, _ in found])
    if query.unwanted and not narrow:
        without = {seq for term in query.unwanted for seq in _holding(index, term, lines)}
        found = [(seq, points) for seq, points in found if seq not in without]
    return [(lines[seq], points) for seq, points in found if seq in lines]


def _holding(index: apsw.Connection, term: Term, lines: Mapping[int, Line]) -> list[int]:
    sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid = ?"
    asked = ((seq, index.execute(sql, (term.expression, seq)).get) for seq in lines)
    return [seq for seq, found in asked if found is not None]


def _weights(index: apsw.Connection, terms: Sequence[Term]) -> dict[Term, float]:
    if len(terms) == 1:
        return {terms[0]: 1.0}
    total = int(index.execute("SELECT lines FROM state").get)
    return {term: rarity(count(index, term.expression), total) for term in terms}


def _beside(index: apsw.Connection, journal: apsw.Connection, seqs: Sequence[int]) -> Neighbours:
    beside = neighbours(index, seqs)
    near = read_lines(journal, (seq for pair in beside.values() for seq in pair if seq is not None))
    return {
        seq: (near.get(before or 0), near.get(after or 0))
        for seq, (before, after) in beside.items()
    }
