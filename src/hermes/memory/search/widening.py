"""One search from words to hits: all the words first, then, when that is too little, some."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hermes.core.recall import Hit, Hits, Line
from hermes.memory.search.query import Query
from hermes.memory.search.snippets import pattern, snippet

MOST = 200
"""Hits that one search may have."""

Ranked = list[tuple[Line, float]]
Neighbours = Mapping[int, tuple[Line | None, Line | None]]
"""The line before and the line after, by number."""


def widened(
    query: Query,
    limit: int,
    ranked: Ranked,
    some: Callable[[int], Ranked],
    beside: Callable[[Sequence[int]], Neighbours],
) -> Hits:
    """`ranked` holds all the words; `some` finds at most so many lines that hold a part of them."""
    limit = max(1, min(limit, MOST))
    ranked = ranked[:limit]
    relaxed: Ranked = []
    if len(ranked) < limit and (len(query.needed) > 1 or query.signatures):
        known = {line.seq for line, _ in ranked}
        others = [each for each in some(limit + len(known)) if each[0].seq not in known]
        relaxed = others[: limit - len(ranked)]
    shown = [*ranked, *relaxed]
    words, near = pattern(query.terms), beside([line.seq for line, _ in shown])
    hits = []
    for line, points in shown:
        piece, marks = snippet(line.text, words)
        before, after = map(_short, near.get(line.seq, (None, None)))
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
    return Hits(hits=tuple(hits), relaxed=bool(relaxed))


def _short(line: Line | None) -> Line | None:
    """A neighbour is there to be recognised, not to be read in full."""
    return None if line is None else replace(line, text=snippet(line.text, None)[0])
