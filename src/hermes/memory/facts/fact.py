"""A fact as it stands now, and one that is about to be noted."""

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from msgspec.structs import replace

from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    FactTrust,
    MemoryKind,
)
from hermes.core.messages import Value

MAX_FACT_CHARS = 1_000
"""Characters of a fact: a longer text is a document, and its place is the journal."""
MAX_QUOTE_CHARS = 500
MAX_OBSERVATIONS = 32
MAX_SOURCES = 64

FactState = Literal["current", "ended", "forgotten"]
FactScope = Literal["own", "team"]
"""team: told to those who subscribe to this home."""

_WORD = re.compile(r"[^\W_]+(?:[._:/@-]+[^\W_]+)*", re.UNICODE)
TRUST_RANK: dict[FactTrust, int] = {
    "person": 4,
    "system": 3,
    "model": 2,
    "imported": 1,
    "quarantined": 0,
}
"""Whose word ends whose: nobody ends a fact of somebody who is trusted more."""


class FactObservation(Value, frozen=True):
    at: datetime
    run: str = ""


class Fact(Value, kw_only=True, frozen=True):
    id: str
    memory: MemoryKind
    text: str
    quote: str = ""
    sources: tuple[int, ...] = ()
    about: tuple[str, ...] = ()
    relation: str = ""
    key: str = ""
    trust: FactTrust = "system"
    actor: str = ""
    origin: str = ""
    scope: FactScope = "own"
    run: str = ""
    noted_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    ended_by: str = ""
    supersedes: tuple[str, ...] = ()
    confirmations: int = 0
    last_confirmed: datetime
    seen: tuple[FactObservation, ...] = ()
    """The latest times it was seen, oldest first: what patterns are read from."""
    shown: int = 0
    succeeded: int = 0
    """Turns that ended with an answer after it was shown in them."""
    failed: int = 0
    forgotten: bool = False

    @property
    def state(self) -> FactState:
        if self.forgotten:
            return "forgotten"
        return "current" if self.valid_to is None else "ended"


class FactCandidate(Value, kw_only=True, frozen=True):
    """Something that was seen in the journal and may be worth a fact."""

    memory: MemoryKind
    text: str
    quote: str = ""
    sources: tuple[int, ...] = ()
    about: tuple[str, ...] = ()
    relation: str = ""
    key: str = ""
    trust: FactTrust = "system"
    actor: str = ""
    origin: str = ""
    scope: FactScope = "own"
    at: datetime | None = None

    @property
    def id(self) -> str:
        return fact_id(self.memory, self.relation, self.text)


def fact_id(memory: str, relation: str, text: str) -> str:
    """The same words give the same id in every process, so that two cannot note a fact twice."""
    said = "\x1f".join((memory, relation, " ".join(split_words(text))))
    return f"fact-{hashlib.sha256(said.encode(errors='replace')).hexdigest()[:12]}"


def split_words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def one_line(text: str, size: int = MAX_FACT_CHARS) -> str:
    """On one line and no longer than `size`; only as much of a huge text is looked at as needed."""
    line = " ".join(text[: size * 4].split())
    return line if len(line) <= size else f"{line[: size - 1]}…"


def with_timezone(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


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


class FactQuery(Value, kw_only=True, frozen=True):
    """Which facts; what is left empty does not matter."""

    state: FactState | None = "current"
    memory: MemoryKind | None = None
    trust: FactTrust | None = None
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
    async def find(self, query: FactQuery) -> Sequence[Fact]:
        """The latest confirmed first."""
        ...

    async def like(self, text: str, *, limit: int = 10) -> Sequence[Fact]:
        """Current facts that share words with a text, best first; none that is quarantined."""
        ...


FactChange = FactNoted | FactConfirmed | FactEnded | FactForgotten


def apply_event(fact: Fact | None, event: FactChange) -> Fact | None:
    """The fact afterwards; None while it is not known: an event about nothing changes nothing."""
    if isinstance(event, FactNoted):
        return _apply_noted(fact, event)
    if fact is None or fact.forgotten:
        return fact
    if isinstance(event, FactConfirmed):
        return _apply_confirmed(
            fact, event.sources, with_timezone(event.seen_at or event.at), event.run
        )
    if isinstance(event, FactEnded):
        # A clock that went back must not make a fact end before it began.
        return replace(
            fact, valid_to=max(with_timezone(event.at), fact.valid_from), ended_by=event.by
        )
    return erase_fact(fact)


def erase_fact(fact: Fact) -> Fact:
    """Only the id stays, which says nothing and keeps rules from noting it again."""
    return replace(
        fact, forgotten=True, text="", quote="", about=(), key="", seen=(), sources=(), actor=""
    )


def _apply_noted(fact: Fact | None, event: FactNoted) -> Fact | None:
    if fact is not None and fact.forgotten and event.trust != "person":
        return fact
    if fact is not None and not fact.forgotten:
        began = _valid_from(event)
        if event.trust == "person":  # who may hear of it is for people to say, not for rules
            fact = replace(fact, scope=event.scope)
        if fact.valid_to is None:
            return _apply_confirmed(fact, event.sources, began, event.run)
        again = replace(fact, valid_to=None, ended_by="", valid_from=max(began, fact.valid_to))
        return _apply_confirmed(again, event.sources, began, event.run)
    return _new_fact(event)


def _new_fact(event: FactNoted) -> Fact:
    began = _valid_from(event)
    return Fact(
        id=event.fact,
        memory=event.memory,
        text=event.text[:MAX_FACT_CHARS],
        quote=event.quote[:MAX_QUOTE_CHARS],
        sources=event.sources[:MAX_SOURCES],
        about=event.about,
        relation=event.relation,
        key=event.key,
        trust=event.trust,
        actor=event.actor,
        origin=event.origin,
        scope=event.scope,
        run=event.run,
        noted_at=with_timezone(event.at),
        valid_from=began,
        last_confirmed=began,
        supersedes=event.supersedes,
        seen=(FactObservation(began, event.run),),
    )


def _valid_from(event: FactNoted) -> datetime:
    """Never later than it was written down, whatever a clock or an import says."""
    return min(with_timezone(event.valid_from or event.at), with_timezone(event.at))


def _apply_confirmed(fact: Fact, sources: tuple[int, ...], at: datetime, run: str) -> Fact:
    if sources and set(sources) <= set(fact.sources):
        return fact  # the same evidence once more proves nothing new
    if any(sighting.at == at for sighting in fact.seen):
        return fact  # one line of a log, read a second time
    kept = tuple(dict.fromkeys((*fact.sources, *sources)))
    seen = sorted((*fact.seen, FactObservation(at, run)), key=lambda sighting: sighting.at)
    return replace(
        fact,
        confirmations=fact.confirmations + 1,
        last_confirmed=max(fact.last_confirmed, at),
        sources=kept if len(kept) <= MAX_SOURCES else (kept[0], *kept[1 - MAX_SOURCES :]),
        seen=tuple(seen[-MAX_OBSERVATIONS:]),
    )
