"""Passages, and what recall needs of a store: candidates and their neighbours."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.memory import FactNoted
from hermes.core.messages import Value
from hermes.memory.search.indexable_text import line_from_event
from hermes.memory.search.line_index import ScoredSeq

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
        ...

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        """In how many passages each word occurs, stemmed by the store; it may stop counting early.

        A term that the store's tokenizer splits (`db-orders-2`) is a phrase.
        """
        ...

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        """Passages with any of the terms, the best first."""
        ...

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Those passages and `reach` before and after each in its session, every one once."""
        ...


class VectorStore(Protocol):
    """The vectors of lines, by number."""

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        """By cosine to a normalised float32 vector; nothing when it has no vectors of the model."""
        ...

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        """Cosine to each of those passages; the ones without a vector are left out."""
        ...


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
