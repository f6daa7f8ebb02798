"""Facts, queries for them, and how events change a fact."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Literal

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
"""Characters of a fact: a longer text is a document, and belongs into the journal."""
MAX_QUOTE_CHARS = 500
MAX_OBSERVATIONS = 32
MAX_SOURCES = 64

FactState = Literal["current", "ended", "forgotten"]
FactScope = Literal["own", "team"]
"""team: shared with the subscribers of this home."""

_WORD = re.compile(r"[^\W_]+(?:[._:/@-]+[^\W_]+)*", re.UNICODE)
TRUST_RANK: dict[FactTrust, int] = {
    "person": 4,
    "system": 3,
    "model": 2,
    "imported": 1,
    "quarantined": 0,
}
"""Which trust ends which: no fact is ended by a less trusted one."""


class FactObservation(Value, frozen=True):
    at: datetime
    run: str = ""


class FactContent(Value, kw_only=True, frozen=True):
    """The text of a fact and its origin: also the fields of `FactNoted`."""

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


def content_fields(source: FactContent | FactNoted) -> dict[str, Any]:
    return {name: getattr(source, name) for name in FactContent.__struct_fields__}


class Fact(FactContent, kw_only=True, frozen=True):
    id: str
    run: str = ""
    noted_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    ended_by: str = ""
    supersedes: tuple[str, ...] = ()
    confirmations: int = 0
    last_confirmed: datetime
    seen: tuple[FactObservation, ...] = ()
    """The latest times it was found, oldest first: patterns are derived from these."""
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


class FactCandidate(FactContent, kw_only=True, frozen=True):
    """Something found in the journal that may be worth a fact."""

    at: datetime | None = None

    @property
    def id(self) -> str:
        return fact_id(self.memory, self.relation, self.text)


def fact_id(memory: str, relation: str, text: str) -> str:
    """The same text gives the same id in every process, so that two cannot note a fact twice."""
    content = "\x1f".join((memory, relation, " ".join(split_words(text))))
    return f"fact-{hashlib.sha256(content.encode(errors='replace')).hexdigest()[:12]}"


def split_words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


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
"""The events that a store of facts is built from, in the order of their numbers."""


class FactQuery(Value, kw_only=True, frozen=True):
    """A query for facts; empty fields match all."""

    state: FactState | None = "current"
    memory: MemoryKind | None = None
    trust: FactTrust | None = None
    relation: str = ""
    about: str = ""
    run: str = ""
    key: str = ""
    limit: int = 100
    """-1 means all."""


FactChange = FactNoted | FactConfirmed | FactEnded | FactForgotten


def apply_event(fact: Fact | None, event: FactChange) -> Fact | None:
    """The fact afterwards; None while it is unknown: an event about an unknown fact has no
    effect."""
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
    """Only the id stays, which keeps rules from noting it again."""
    return replace(
        fact, forgotten=True, text="", quote="", about=(), key="", seen=(), sources=(), actor=""
    )


def _apply_noted(fact: Fact | None, event: FactNoted) -> Fact | None:
    if fact is not None and fact.forgotten and event.trust != "person":
        return fact
    if fact is not None and not fact.forgotten:
        began = _valid_from(event)
        if event.trust == "person":  # the scope is decided by people, not by rules
            fact = replace(fact, scope=event.scope)
        if fact.valid_to is None:
            return _apply_confirmed(fact, event.sources, began, event.run)
        again = replace(fact, valid_to=None, ended_by="", valid_from=max(began, fact.valid_to))
        return _apply_confirmed(again, event.sources, began, event.run)
    return _new_fact(event)


def _new_fact(event: FactNoted) -> Fact:
    began = _valid_from(event)
    content = content_fields(event) | {
        "text": event.text[:MAX_FACT_CHARS],
        "quote": event.quote[:MAX_QUOTE_CHARS],
        "sources": event.sources[:MAX_SOURCES],
    }
    return Fact(
        **content,
        id=event.fact,
        run=event.run,
        noted_at=with_timezone(event.at),
        valid_from=began,
        last_confirmed=began,
        supersedes=event.supersedes,
        seen=(FactObservation(began, event.run),),
    )


def _valid_from(event: FactNoted) -> datetime:
    """Never later than it was recorded, whatever a clock or an import says."""
    return min(with_timezone(event.valid_from or event.at), with_timezone(event.at))


def _apply_confirmed(fact: Fact, sources: tuple[int, ...], at: datetime, run: str) -> Fact:
    if sources and set(sources) <= set(fact.sources):
        return fact  # the same evidence again proves nothing new
    if any(sighting.at == at for sighting in fact.seen):
        return fact  # the same line of a log, read a second time
    kept = tuple(dict.fromkeys((*fact.sources, *sources)))
    seen = sorted((*fact.seen, FactObservation(at, run)), key=lambda sighting: sighting.at)
    return replace(
        fact,
        confirmations=fact.confirmations + 1,
        last_confirmed=max(fact.last_confirmed, at),
        sources=kept if len(kept) <= MAX_SOURCES else (kept[0], *kept[1 - MAX_SOURCES :]),
        seen=tuple(seen[-MAX_OBSERVATIONS:]),
    )
