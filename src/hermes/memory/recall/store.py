"""What recall asks of a store: candidates and their neighbours. SQLite and PostgreSQL give it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from hermes.core.messages import Value

Kind = Literal["episodic", "semantic", "declarative"]


class Passage(Value, frozen=True, kw_only=True):
    """One message, event or remembered fact."""

    seq: int
    """The store's own number."""
    source: str
    """Id of the message it came from: what a person opens."""
    session: str
    position: int
    """Order inside its session: neighbours have consecutive positions."""
    at: datetime
    speaker: str = ""
    text: str = ""
    kind: Kind = "episodic"
    confirmed: datetime | None = None
    """When it was last found to hold; without it `at` counts."""


class Found(NamedTuple):
    seq: int
    score: float
    """Higher is better: turned bm25, or the cosine."""


class RecallStore(Protocol):
    """Raises `StoreError` when it cannot be read. `session=None` means everywhere."""

    async def size(self, session: str | None) -> int:
        """Passages in the scope; an estimate will do."""
        ...

    async def frequencies(self, terms: Sequence[str], session: str | None) -> Sequence[int]:
        """In how many passages each word occurs, stemmed by the store; it may stop counting early.

        A term that the store's tokenizer splits (`db-orders-2`) is a phrase.
        """
        ...

    async def matching(
        self, terms: Sequence[str], *, session: str | None, limit: int
    ) -> Sequence[Found]:
        """Passages that hold any of the terms, the best first."""
        ...

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]:
        """By cosine to a normalised float32 vector; nothing when it has no vectors of the model."""
        ...

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        """Cosine to each of those passages; the ones without a vector are left out."""
        ...

    async def around(self, seqs: Sequence[int], reach: int) -> Sequence[Passage]:
        """Those passages and `reach` before and after each in its session, every one once."""
        ...
