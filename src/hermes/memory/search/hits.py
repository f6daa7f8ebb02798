"""Ranks found lines, and builds hits with snippets and neighbours."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from msgspec.structs import replace

from hermes.core.knowledge import SearchHit, SearchResults, TranscriptLine
from hermes.memory.search.query import QueryTerm, SearchQuery

SNIPPET_CHARS = 240
_WORD_ENDINGS = ("ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "ly", "s", "e", "y")
_SPACE = re.compile(r"\s+")
MarkSpans = tuple[tuple[int, int], ...]


def term_pattern(terms: Sequence[QueryTerm]) -> re.Pattern[str] | None:
    """Finds the words in any of their forms: nearly what the stemmer takes for the same."""
    patterns = dict.fromkeys(pattern for term in terms for pattern in _term_patterns(term))
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def make_snippet(
    text: str, words: re.Pattern[str] | None, width: int = SNIPPET_CHARS
) -> tuple[str, MarkSpans]:
    """One line of about `width` characters around the position with most of the words."""
    found = [] if words is None else _first_matches(words, text)
    start = _best_start(found, width) if found else 0
    start = max(0, min(start - width // 6, len(text) - width))
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    snippet = _SPACE.sub(" ", text[start : start + width]).strip()
    if start:
        snippet = f"…{snippet}"
    if start + width < len(text):
        snippet = f"{snippet}…"
    marks = () if words is None else tuple(each.span() for each in words.finditer(snippet))
    return snippet, marks


@lru_cache(maxsize=1024)
def strip_ending(word: str) -> str:
    """The word without its ending."""
    lowered = word.lower()
    for ending in _WORD_ENDINGS:
        if lowered.endswith(ending) and len(lowered) - len(ending) >= 3:
            return lowered[: -len(ending)]
    return lowered


def _term_patterns(term: QueryTerm) -> list[str]:
    own = [re.escape(strip_ending(word)) for word in term.words]
    if not term.words[-1].isascii():
        return [re.escape(term.words[0][0]) if term.is_prefix else _join_cjk_pairs(term.words)]
    end = r"\w*" if term.is_prefix else r"\w{0,4}\b"
    patterns = [r"\b" + r"\w{0,4}[\W_]+".join(own) + end]
    if len(own) > 1:
        patterns.append(r"\w{0,4}[\W_]*".join(own) + end)  # the same, joined
    if term.alternative:
        patterns.append(r"[\W_]*".join(map(re.escape, term.alternative)) + r"\w*")
    return patterns


def _join_cjk_pairs(words: Sequence[str]) -> str:
    """Pairs of signs, joined again."""
    return re.escape("".join(word[0] for word in words[:-1]) + words[-1])


def _first_matches(
    words: re.Pattern[str], text: str, max_matches: int = 24
) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for each in words.finditer(text):
        found.append((each.start(), each.group().lower()[:4]))
        if len(found) == max_matches:
            break
    return found


def _best_start(matches: Sequence[tuple[int, str]], width: int) -> int:
    """The first position with the most different words within one width."""
    best, start = 0, matches[0][0]
    for at, _ in matches:
        kinds = len({word for position, word in matches if at <= position < at + width * 3 // 4})
        if kinds > best:
            best, start = kinds, at
    return start


_TYPICAL_LINE_CHARS = 600
"""Characters of a usual line."""
_TERM_SATURATION = 1.2
_HALF_LIFE_DAYS = 30.0
_MAX_RANKED_CHARS = 20_000
"""Characters of a text that are examined."""


def score_line(line: TranscriptLine, weights: Mapping[QueryTerm, float], now: datetime) -> float:
    text = line.text[:_MAX_RANKED_CHARS].lower()
    length = _TERM_SATURATION * (0.25 + 0.75 * len(text) / _TYPICAL_LINE_CHARS)
    total = 0.0
    for term, weight in weights.items():
        times = _count_term(text, term)
        total += weight * times * (1 + _TERM_SATURATION) / (times + length) if times else 0.0
    if len(weights) > 1 and _stand_together(text, tuple(weights)):
        total *= 1.2
    days = max(0.0, (now - line.at).total_seconds() / 86400)
    return float(total * (0.9 + 0.1 * 2 ** (-days / _HALF_LIFE_DAYS)))


def _count_term(text: str, term: QueryTerm) -> int:
    """How often its rarest part occurs; once at least, since the index found it."""
    return max(1, min(text.count(strip_ending(word)) for word in term.words))


def _stand_together(text: str, terms: Sequence[QueryTerm]) -> bool:
    """The words are close to each other, in this order."""
    first, second = strip_ending(terms[0].words[0]), strip_ending(terms[1].words[0])
    at = text.find(first)
    return at >= 0 and text.find(second, at, at + len(first) + len(second) + 12) >= 0


MAX_HITS = 200
"""Hits that one search may have."""

RankedLines = list[tuple[TranscriptLine, float]]
NeighbourLines = Mapping[int, tuple[TranscriptLine | None, TranscriptLine | None]]
"""The line before and the line after, by number."""


def build_hits(
    query: SearchQuery,
    limit: int,
    ranked: RankedLines,
    find_partial: Callable[[int], RankedLines],
    find_neighbours: Callable[[Sequence[int]], NeighbourLines],
) -> SearchResults:
    """`ranked` has all the words; `some` finds at most so many lines with a part of them."""
    limit = max(1, min(limit, MAX_HITS))
    ranked = ranked[:limit]
    relaxed: RankedLines = []
    if len(ranked) < limit and (len(query.required) > 1 or query.signatures):
        known = {line.seq for line, _ in ranked}
        others = [each for each in find_partial(limit + len(known)) if each[0].seq not in known]
        relaxed = others[: limit - len(ranked)]
    shown = [*ranked, *relaxed]
    words, near = term_pattern(query.terms), find_neighbours([line.seq for line, _ in shown])
    hits = []
    for line, points in shown:
        snippet, marks = make_snippet(line.text, words)
        before, after = map(_shorten_line, near.get(line.seq, (None, None)))
        hits.append(
            SearchHit(
                line=line,
                score=round(points, 4),
                snippet=snippet,
                marks=marks,
                before=before,
                after=after,
            )
        )
    return SearchResults(hits=tuple(hits), relaxed=bool(relaxed))


def _shorten_line(line: TranscriptLine | None) -> TranscriptLine | None:
    """A neighbour is only shown as context."""
    return None if line is None else replace(line, text=make_snippet(line.text, None)[0])
