"""What the rest of the house asks of a store of facts; SQLite and PostgreSQL both can answer."""

from collections.abc import Sequence
from typing import Protocol

from hermes.core.events.memory import MemoryKind, Trust
from hermes.core.messages import Value
from hermes.memory.facts.fact import Fact, State

FACT_KINDS = (
    "memory.noted",
    "memory.confirmed",
    "memory.ended",
    "memory.forgotten",
    "memory.shown",
    "turn.ended",
    "run.deleted",
)
"""Events a store of facts is made of, in the order of their numbers."""


class Wanted(Value, kw_only=True, frozen=True):
    """Which facts; what is left empty does not matter."""

    state: State | None = "current"
    memory: MemoryKind | None = None
    trust: Trust | None = None
    relation: str = ""
    about: str = ""
    run: str = ""
    key: str = ""
    limit: int = 100
    """-1 means all."""


class FactStore(Protocol):
    """A projection of the journal: it may be thrown away at any time. Raises `StoreError`."""

    async def catch_up(self) -> int:
        """Read what the journal has and this store has not; the number it now stands at."""
        ...

    async def get(self, id: str) -> Fact | None: ...
    async def find(self, wanted: Wanted) -> Sequence[Fact]:
        """The latest confirmed first."""
        ...

    async def like(self, text: str, *, limit: int = 10) -> Sequence[Fact]:
        """Current facts that share words with a text, best first; none that is quarantined."""
        ...
