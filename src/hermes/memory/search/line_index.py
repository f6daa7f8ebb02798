"""What search and recall ask of an index, whatever store it is in.

Both stores find lines in limited time however common a word is. Where too many lines match, the
newest are taken: an index returns them in that order and stops. Ranking by rarity uses the postings
of the rarest words.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from hermes.core.errors import StoreCorrupt
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactNoted
from hermes.core.knowledge import SearchHitKind, SpeakerRole, TranscriptLine
from hermes.core.messages import Value
from hermes.memory.journal.rows import read_event
from hermes.memory.search.indexable_text import LINE_UPDATE_KINDS, line_from_event
from hermes.memory.search.query import QueryTerm

MAX_COUNTED_LINES = 10_000
"""The number at which counting the lines of a word ends."""
MAX_POSTINGS = 20_000
"""Entries of the index that one ranking may read."""
MAX_EMBEDDED_CHARS = 1000
"""Characters of a line that its vector represents."""
INDEX_BATCH_EVENTS = 1000
"""Events of one transaction: other indexing processes wait for it."""

Needle = QueryTerm | str
"""What a line must have: a word or phrase, or (as `str`) the signature of an error."""
IndexProgress = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""


class LineFilter(NamedTuple):
    """Restricts a query to some lines; empty fields match all."""

    session: str = ""
    """A run, with its subagents."""
    kind: SearchHitKind | None = None
    role: SpeakerRole | None = None
    since: datetime | None = None
    until: datetime | None = None
    service: QueryTerm | None = None
    excluded: tuple[QueryTerm, ...] = ()
    anywhere: bool = False
    """Words are also found in the date of a line, not only in its text."""

    @property
    def selects_lines(self) -> bool:
        """Whether the lines can be found without words."""
        return bool(self.session or self.kind or self.role or self.service)


class LinePosition(NamedTuple):
    position: int
    """In its session."""
    confirmed: datetime | None = None
    """When the fact in this line was last confirmed."""
    ended: bool = False
    """The fact in this line no longer holds."""


class ScoredSeq(NamedTuple):
    seq: int
    score: float
    """Higher is better: a sum of weights, negated bm25, or the cosine."""


class LineIndex(Protocol):
    """An index and its journal, on open connections of one thread."""

    def newest_event(self) -> int: ...
    def indexed_up_to(self) -> int: ...
    def index_batch(self) -> None:
        """Index the next events in one transaction."""

    def count_lines(self, session: str = "") -> int:
        """Lines of the index, or of one session; may be an estimate."""

    def count(self, needle: Needle, narrow: LineFilter) -> int:
        """Return how many lines match, whatever their time; may end early, or be an estimate."""

    def newest(
        self, groups: Sequence[Sequence[Needle]], narrow: LineFilter, limit: int
    ) -> list[int]:
        """Numbers of the lines with one needle of each group, the newest first."""

    def read_events(self, seqs: Iterable[int]) -> Mapping[int, Event | UnknownEvent]:
        """Damaged or deleted events are left out."""

    def nearby(self, seqs: Iterable[int], reach: int) -> Mapping[int, LinePosition]:
        """Those lines, and the lines near them in their sessions."""

    def catch_up(self, seconds: float | None = None, progress: IndexProgress | None = None) -> int:
        """Index new events. Returns how many events are still missing when the time was over."""
        deadline = None if seconds is None else time.monotonic() + seconds
        newest = self.newest_event()
        while (upto := self.indexed_up_to()) < newest:
            if deadline is not None and time.monotonic() > deadline:
                return newest - upto
            self.index_batch()
            if progress is not None:
                progress(self.indexed_up_to(), newest)
        return 0

    def read_lines(self, seqs: Iterable[int]) -> dict[int, TranscriptLine]:
        lines = (
            (seq, line_from_event(seq, event)) for seq, event in self.read_events(seqs).items()
        )
        return {seq: line for seq, line in lines if line is not None}

    def read_texts(self, seqs: Sequence[int]) -> list[tuple[int, str]]:
        """Return what the vectors of these lines represent."""
        lines = self.read_lines(seqs)
        return [(seq, lines[seq].text[:MAX_EMBEDDED_CHARS] if seq in lines else "") for seq in seqs]

    def by_weight(
        self, needles: Sequence[Needle], narrow: LineFilter, limit: int
    ) -> list[ScoredSeq]:
        """Lines with any of these, those with the most and rarest first.

        Very common words are only used while there are few candidates.
        """
        lines = self.count_lines()
        counted = [(self.count(needle, narrow), needle) for needle in dict.fromkeys(needles)]
        total: dict[int, float] = {}
        postings_left = MAX_POSTINGS
        for found, needle in sorted(counted, key=lambda each: each[0]):
            common = found >= MAX_COUNTED_LINES
            enough = postings_left < found or (common and len(total) >= limit)
            if not found or (total and enough):
                continue
            weight = rarity_weight(found, lines)
            # So common a word distinguishes nothing: as many as can be shown are enough.
            max_postings = limit if common else min(found, max(postings_left, limit))
            postings = self.newest([[needle]], narrow, max_postings)
            for seq in postings:
                total[seq] = total.get(seq, 0.0) + weight
            postings_left -= len(postings)
        best = heapq.nlargest(limit, ((score, seq) for seq, score in total.items()))
        return [ScoredSeq(seq, score) for score, seq in best]


def rarity_weight(holding_lines: int, total_lines: int) -> float:
    """The weight of a word that occurs in so many of so many lines."""
    if holding_lines >= MAX_COUNTED_LINES:
        holding_lines = max(holding_lines, total_lines // 5)  # not counted further; it is common
    return math.log(1 + (total_lines + 0.5) / (holding_lines + 0.5))


class IndexBatch(Protocol):
    """The lines of one transaction, collected and then written at once."""

    def add_line(self, line: TranscriptLine, fact: str) -> None: ...
    def apply_update(self, event: Event | UnknownEvent) -> None:
        """Apply what a later event says about lines: deleted, forgotten, confirmed, ended."""

    def write(self) -> None: ...

    def add_event(self, seq: int, at: int, run: bytes, kind: str, body: bytes) -> None:
        try:
            event = read_event(seq, at, run, kind.encode(), body)
        except StoreCorrupt:
            return  # `hermes journal verify` reports it; intact events can still be found
        if kind in LINE_UPDATE_KINDS:
            self.write()  # it may refer to an event in this batch
            self.apply_update(event)
        elif (line := line_from_event(seq, event)) is not None:
            self.add_line(line, event.fact if isinstance(event, FactNoted) else "")


PassageKind = Literal["episodic", "semantic", "declarative"]


class Passage(Value, frozen=True, kw_only=True):
    """One message, event or remembered fact."""

    seq: int
    """The store's own number."""
    source: str
    """Id of the message it came from: a person opens the source with it."""
    session: str
    position: int
    """Order inside its session: neighbours have consecutive positions."""
    at: datetime
    speaker: str = ""
    text: str = ""
    kind: PassageKind = "episodic"
    confirmed: datetime | None = None
    """When it was last confirmed; without it `at` counts."""


MAX_PASSAGE_CHARS = 4000
"""Characters of a passage that recall reads."""


class PassageStore(Protocol):
    """Raises `StoreError` when it cannot be read. `session=None` means all sessions."""

    async def size(self, session: str | None) -> int:
        """Passages in the scope; may be an estimate."""

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        """In how many passages each word occurs, stemmed by the store; it may stop counting early.

        A term that the store's tokenizer splits (`db-orders-2`) is a phrase.
        """

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        """Passages with any of the terms, the best first."""

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Those passages and `reach` before and after each in its session, every one once."""


class Embedder(Protocol):
    @property
    def model(self) -> str:
        """Its id, part of every vector's key: vectors of two models are never compared."""

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One normalised float32 vector (little endian) per text; takes milliseconds each."""


class VectorStore(Protocol):
    """The vectors of lines, by number."""

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        """By cosine to a normalised float32 vector; nothing when it has no vectors of the model."""

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        """Cosine to each of those passages; the ones without a vector are left out."""


def build_passage(
    seq: int, event: Event | UnknownEvent, position: int, confirmed: datetime | None
) -> Passage | None:
    line = line_from_event(seq, event)
    if line is None:
        return None
    return Passage(
        seq=seq,
        source=line.source or str(seq),
        session=line.run,
        position=position,
        at=line.at,
        speaker=line.speaker or line.role,
        text=line.text[:MAX_PASSAGE_CHARS],
        kind=event.memory if isinstance(event, FactNoted) else "episodic",
        confirmed=confirmed,
    )
