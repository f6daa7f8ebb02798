"""Decides what a candidate is: new, known already, or the end of something else."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from hermes.core.events.memory import FactConfirmed, FactEnded, FactNoted
from hermes.memory.facts.fact import (
    LONGEST,
    LONGEST_QUOTE,
    MOST_SOURCES,
    RANK,
    Candidate,
    Fact,
    one_line,
    words,
)
from hermes.memory.facts.store import FactStore, Wanted

ALIKE = 0.8
_FILLER = frozenset(
    words(
        "a an the is are was be to of on in at for and or that this it its with by as from our my "
        "your we i you please"
    )
)
_NOT = frozenset(words("not never no isn doesn don won cannot longer"))
_TELLING = re.compile(r"[\d_./:@-]")

Settled = FactNoted | FactConfirmed | FactEnded


async def settle(
    store: FactStore, candidates: Iterable[Candidate], *, run: str, at: datetime
) -> list[Settled]:
    """The events to be written. The store must have caught up with the journal."""
    events: list[Settled] = []
    new: dict[str, Candidate] = {}
    for candidate in candidates:
        for event in await _one(store, candidate, run, at, new):
            events.append(event)
        new.setdefault(candidate.id, candidate)
    return events


async def _one(
    store: FactStore, candidate: Candidate, run: str, at: datetime, new: dict[str, Candidate]
) -> list[Settled]:
    if candidate.id in new:
        return [_confirm(candidate.id, candidate, run, at)]
    known = await store.get(candidate.id)
    if known is not None and known.state == "forgotten" and candidate.trust != "person":
        return []
    if known is not None and known.state == "current":
        return [] if _stale(known, candidate) else [_confirm(known.id, candidate, run, at)]
    near = await _near(store, candidate)
    twin = next((fact for fact in near if same(fact, candidate)), None)
    if twin is not None:
        return [] if _stale(twin, candidate) else [_confirm(twin.id, candidate, run, at)]
    old = await _contradicted(store, candidate, near)
    noted = _note(candidate, run, at, tuple(fact.id for fact in old))
    return [noted, *(_end(fact, candidate, run, at) for fact in old)]


async def _near(store: FactStore, candidate: Candidate) -> Sequence[Fact]:
    found = await store.like(candidate.text, limit=20)
    return [fact for fact in found if fact.relation == candidate.relation]


async def _contradicted(
    store: FactStore, candidate: Candidate, near: Sequence[Fact]
) -> Sequence[Fact]:
    """What cannot be true beside it, of those whom it may contradict."""
    if candidate.trust == "quarantined":
        return []
    keyed = await store.find(Wanted(key=candidate.key)) if candidate.key else []
    denied = [fact for fact in near if _denies(fact, candidate)]
    found = {fact.id: fact for fact in (*keyed, *denied) if fact.id != candidate.id}
    return [fact for fact in found.values() if RANK[candidate.trust] >= RANK[fact.trust]]


def same(fact: Fact, candidate: Candidate | Fact) -> bool:
    """Whether both say one thing, perhaps in other words."""
    mine, theirs = _meaning(candidate.text), _meaning(fact.text)
    if fact.trust == "quarantined" or candidate.trust == "quarantined":
        return False  # what nobody vouches for confirms nothing
    if mine & _NOT != theirs & _NOT or _telling(mine) != _telling(theirs):
        return False
    alike = fact.memory == candidate.memory and fact.relation == candidate.relation
    if not alike or not mine | theirs:
        return False
    return len(mine & theirs) / len(mine | theirs) >= ALIKE


def _denies(fact: Fact, candidate: Candidate) -> bool:
    mine, theirs = _meaning(candidate.text), _meaning(fact.text)
    return bool(mine & _NOT) != bool(theirs & _NOT) and mine - _NOT == theirs - _NOT != set()


def _meaning(text: str) -> set[str]:
    return {word for word in words(text) if word not in _FILLER}


def _telling(meaning: set[str]) -> set[str]:
    """Names, numbers, addresses: other ones are other facts, however alike the sentence."""
    return {word for word in meaning if _TELLING.search(word)}


def _stale(fact: Fact, candidate: Candidate) -> bool:
    """True when the candidate rests on what the fact rests on already."""
    again = bool(candidate.sources) and set(candidate.sources) <= set(fact.sources)
    return again or any(sighting.at == candidate.at for sighting in fact.seen)


def _note(candidate: Candidate, run: str, at: datetime, supersedes: tuple[str, ...]) -> FactNoted:
    return FactNoted(
        run=run,
        at=at,
        fact=candidate.id,
        memory=candidate.memory,
        text=one_line(candidate.text, LONGEST),
        quote=candidate.quote[:LONGEST_QUOTE],
        sources=candidate.sources[:MOST_SOURCES],
        about=tuple(one_line(name, 100) for name in candidate.about[:16]),
        relation=candidate.relation,
        key=candidate.key,
        trust=candidate.trust,
        actor=candidate.actor,
        origin=candidate.origin,
        scope=candidate.scope,
        supersedes=supersedes,
        valid_from=candidate.at,
    )


def _confirm(id: str, candidate: Candidate, run: str, at: datetime) -> FactConfirmed:
    return FactConfirmed(
        run=run,
        at=at,
        fact=id,
        sources=candidate.sources[:MOST_SOURCES],
        actor=candidate.actor,
        seen_at=candidate.at,
    )


def _end(fact: Fact, candidate: Candidate, run: str, at: datetime) -> FactEnded:
    return FactEnded(
        run=run, at=at, fact=fact.id, by=candidate.id, reason="contradicted", actor=candidate.actor
    )
