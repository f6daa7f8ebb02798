"""Searches sessions: ranks lines, and builds hits with snippets and neighbours."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Protocol, TypeVar

import anyio.to_thread
from msgspec.structs import replace

from hermes.core.knowledge import SearchHit, SearchResults, SessionQuery, TranscriptLine
from hermes.memory.search.line_index import (
    IndexProgress,
    LineFilter,
    LineIndex,
    Needle,
    Passage,
    ScoredSeq,
    build_passage,
    rarity_weight,
)
from hermes.memory.search.query import QueryTerm, SearchQuery, parse_query, parse_term

SNIPPET_CHARS = 240
_MAX_MATCHES = 24
"""Matches among which the best place for a snippet is chosen."""
_WORD_ENDINGS = ("ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "ly", "s", "e", "y")
_SPACE = re.compile(r"\s+")
MarkSpans = tuple[tuple[int, int], ...]


def term_pattern(terms: Sequence[QueryTerm]) -> re.Pattern[str] | None:
    """Finds the words in any of their forms: nearly what the stemmer takes for the same."""
    patterns = dict.fromkeys(pattern for term in terms for pattern in _term_patterns(term))
    if not patterns:
        return None
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE)


def make_snippet(text: str, words: re.Pattern[str] | None) -> tuple[str, MarkSpans]:
    """One short line around the position with most of the words."""
    matches = () if words is None else islice(words.finditer(text), _MAX_MATCHES)
    found = [(each.start(), each.group().lower()[:4]) for each in matches]
    start = _best_start(found) if found else 0
    start = max(0, min(start - SNIPPET_CHARS // 6, len(text) - SNIPPET_CHARS))
    if start:
        start = text.find(" ", start, start + 20) + 1 or start
    snippet = _SPACE.sub(" ", text[start : start + SNIPPET_CHARS]).strip()
    if start:
        snippet = f"…{snippet}"
    if start + SNIPPET_CHARS < len(text):
        snippet = f"{snippet}…"
    marks = () if words is None else tuple(each.span() for each in words.finditer(snippet))
    return snippet, marks


@lru_cache(maxsize=1024)
def strip_ending(word: str) -> str:
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


def _best_start(matches: Sequence[tuple[int, str]]) -> int:
    """The first position with the most different words within one snippet."""
    best, start, width = 0, matches[0][0], SNIPPET_CHARS * 3 // 4
    for at, _ in matches:
        kinds = len({word for position, word in matches if at <= position < at + width})
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
    """Return how often its rarest part occurs; once at least, since the index found it."""
    return max(1, min(text.count(strip_ending(word)) for word in term.words))


def _stand_together(text: str, terms: Sequence[QueryTerm]) -> bool:
    """The words are close to each other, in this order."""
    first, second = strip_ending(terms[0].words[0]), strip_ending(terms[1].words[0])
    at = text.find(first)
    return at >= 0 and text.find(second, at, at + len(first) + len(second) + 12) >= 0


MAX_HITS = 200
"""Hits that one search may have."""
MAX_RANKED_LINES = 100
"""Lines with all the words that are read and ranked; the newest of them."""
RankedLines = list[tuple[TranscriptLine, float]]


def search_lines(index: LineIndex, wanted: SessionQuery) -> SearchResults:
    query = parse_query(wanted.words)
    narrow = LineFilter(
        wanted.session,
        wanted.kind,
        wanted.role,
        wanted.since,
        wanted.until,
        parse_term(wanted.service),
        query.excluded,
    )
    limit = max(1, min(wanted.limit, MAX_HITS))
    ranked = _lines_with_all_words(index, query, narrow)[:limit]
    relaxed: RankedLines = []
    if len(ranked) < limit and (len(query.required) > 1 or query.signatures):
        known = {line.seq for line, _ in ranked}
        # Part of the words, or the same error with other numbers in it.
        needles: list[Needle] = [*query.terms, *query.signatures]
        others = _read_scored(index, index.by_weight(needles, narrow, limit + len(known)))
        relaxed = [each for each in others if each[0].seq not in known][: limit - len(ranked)]
    hits = _build_hits(index, query, [*ranked, *relaxed])
    return SearchResults(hits=hits, relaxed=bool(relaxed))


def _lines_with_all_words(index: LineIndex, query: SearchQuery, narrow: LineFilter) -> RankedLines:
    if not query.required:  # only filters: the newest lines
        seqs = index.newest((), narrow, MAX_HITS) if narrow.selects_lines else []
        return _read_scored(index, [ScoredSeq(seq, 0.0) for seq in seqs])
    seqs = index.newest(query.required, narrow, MAX_RANKED_LINES)
    now, weights = datetime.now(UTC), _term_weights(index, query.terms)
    lines = index.read_lines(seqs).values()
    scored = [(line, score_line(line, weights, now)) for line in lines]
    return sorted(scored, key=lambda each: (-each[1], -each[0].seq))


def _term_weights(index: LineIndex, terms: Sequence[QueryTerm]) -> dict[QueryTerm, float]:
    if len(terms) == 1:
        return {terms[0]: 1.0}
    total, everywhere = index.count_lines(), LineFilter(anywhere=True)
    return {term: rarity_weight(index.count(term, everywhere), total) for term in terms}


def _read_scored(index: LineIndex, found: Sequence[ScoredSeq]) -> RankedLines:
    lines = index.read_lines(seq for seq, _ in found)
    return [(lines[seq], score) for seq, score in found if seq in lines]


def _build_hits(index: LineIndex, query: SearchQuery, shown: RankedLines) -> tuple[SearchHit, ...]:
    words = term_pattern(query.terms)
    lines = {line.seq: line for line, _ in shown}
    near = index.nearby(lines, 1)
    lines |= index.read_lines(near.keys() - lines.keys())
    at = {
        (line.run, near[seq].position): replace(line, text=make_snippet(line.text, None)[0])
        for seq, line in lines.items()
        if seq in near
    }
    hits = []
    for line, score in shown:
        snippet, marks = make_snippet(line.text, words)
        position = near[line.seq].position if line.seq in near else -2
        hits.append(
            SearchHit(
                line=line,
                score=round(score, 4),
                snippet=snippet,
                marks=marks,
                before=at.get((line.run, position - 1)),
                after=at.get((line.run, position + 1)),
            )
        )
    return tuple(hits)


Answer = TypeVar("Answer")
INDEX_TIMEOUT_S = 2.0
"""Seconds that a query may wait for events that are not indexed yet."""


class IndexedSearch(Protocol):
    """Search and recall over the index of one journal.

    Fulfils `core.knowledge.SearchesSessions` and `line_index.PassageStore`.
    """

    @property
    def notices(self) -> tuple[str, ...]:
        """What the person should know about the index, each once."""

    def ask_blocking(
        self,
        question: Callable[[Any], Answer],
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
    ) -> Answer:
        """Bring the index up to date, then call the question with it."""

    def rebuild(self, progress: IndexProgress | None = None) -> None:
        """Delete the index and build it again."""

    def close(self) -> None: ...

    async def ask(self, question: Callable[[Any], Answer]) -> Answer:
        """The question is called with the `LineIndex` of the store."""
        work = partial(self.ask_blocking, question, seconds=INDEX_TIMEOUT_S)
        return await anyio.to_thread.run_sync(work)

    async def catch_up(
        self,
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
        close_after: bool = False,
    ) -> None:
        """`close_after` closes the files afterwards: occasional indexing then holds no memory."""

        def work() -> None:
            self.ask_blocking(no_query, seconds=seconds, progress=progress)
            if close_after:
                self.close()

        await anyio.to_thread.run_sync(work)

    async def search(self, wanted: SessionQuery) -> SearchResults:
        found = await self.ask(partial(search_lines, wanted=wanted))
        return replace(found, notices=self.notices)

    async def size(self, session: str | None) -> int:
        return await self.ask(lambda index: index.count_lines(session or ""))

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        read, narrow = [*map(parse_term, terms)], LineFilter(session or "", anywhere=True)
        return await self.ask(
            lambda index: [index.count(term, narrow) if term else 0 for term in read]
        )

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        read = [term for term in map(parse_term, terms) if term is not None]
        narrow = LineFilter(session or "", anywhere=True)
        return await self.ask(lambda index: index.by_weight(read, narrow, limit))

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        return await self.ask(partial(_read_passages, seqs=seqs, reach=reach))


def no_query(index: LineIndex) -> None:
    """For callers that only need the index to be up to date."""


def _read_passages(index: LineIndex, seqs: Sequence[int], reach: int) -> list[Passage]:
    near = {seq: at for seq, at in index.nearby(seqs, reach).items() if not at.ended}
    events = index.read_events(near)
    passages = (
        build_passage(seq, events[seq], at.position, at.confirmed)
        for seq, at in near.items()
        if seq in events
    )
    return [each for each in passages if each is not None]
