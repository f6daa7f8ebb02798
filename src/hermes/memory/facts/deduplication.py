"""Decides what a candidate is: a new fact, a known one, or the end of another."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from hermes.core.events.memory import FactConfirmed, FactEnded, FactNoted
from hermes.core.foreign_text import one_line
from hermes.memory.facts.fact import (
    MAX_FACT_CHARS,
    MAX_QUOTE_CHARS,
    MAX_SOURCES,
    TRUST_RANK,
    Fact,
    FactCandidate,
    FactQuery,
    content_fields,
    split_words,
)
from hermes.memory.facts.sqlite_facts import SqliteFacts

MIN_WORD_OVERLAP = 0.8
_FILLER_WORDS = frozenset(
    split_words(
        "a an the is are was be to of on in at for and or that this it its with by as from our my "
        "your we i you please"
    )
)
_NEGATION_WORDS = frozenset(split_words("not never no isn doesn don won cannot longer"))
_IDENTIFIER_SIGN = re.compile(r"[\d_./:@-]")

FactEvent = FactNoted | FactConfirmed | FactEnded


async def resolve_candidates(
    store: SqliteFacts, candidates: Iterable[FactCandidate], *, run: str, at: datetime
) -> list[FactEvent]:
    """The events to record. The store must have caught up with the journal."""
    events: list[FactEvent] = []
    new: dict[str, FactCandidate] = {}
    for candidate in candidates:
        events += await _resolve_candidate(store, candidate, run, at, new)
        new.setdefault(candidate.id, candidate)
    return events


async def _resolve_candidate(
    store: SqliteFacts,
    candidate: FactCandidate,
    run: str,
    at: datetime,
    new: dict[str, FactCandidate],
) -> list[FactEvent]:
    if candidate.id in new:
        return [_confirmed_event(candidate.id, candidate, run, at)]
    known = await store.get(candidate.id)
    if known is not None and known.state == "forgotten" and candidate.trust != "person":
        return []
    if known is not None and known.state == "current":
        return _confirmation(known, candidate, run, at)
    near = await _similar_facts(store, candidate)
    twin = next((fact for fact in near if says_the_same(fact, candidate)), None)
    if twin is not None:
        return _confirmation(twin, candidate, run, at)
    old = await _contradicted_facts(store, candidate, near)
    noted = _noted_event(candidate, run, at, tuple(fact.id for fact in old))
    return [noted, *(_ended_event(fact, candidate, run, at) for fact in old)]


async def _similar_facts(store: SqliteFacts, candidate: FactCandidate) -> Sequence[Fact]:
    found = await store.like(candidate.text, limit=20)
    return [fact for fact in found if fact.relation == candidate.relation]


async def _contradicted_facts(
    store: SqliteFacts, candidate: FactCandidate, similar: Sequence[Fact]
) -> Sequence[Fact]:
    """Facts that contradict it, of those that it may end."""
    if candidate.trust == "quarantined":
        return []
    keyed = await store.find(FactQuery(key=candidate.key)) if candidate.key else []
    denied = [fact for fact in similar if _negates(fact, candidate)]
    found = {fact.id: fact for fact in (*keyed, *denied) if fact.id != candidate.id}
    return [
        fact for fact in found.values() if TRUST_RANK[candidate.trust] >= TRUST_RANK[fact.trust]
    ]


def says_the_same(fact: Fact, candidate: FactCandidate | Fact) -> bool:
    """Return whether both say the same, perhaps in other words."""
    mine, theirs = _content_words(candidate.text), _content_words(fact.text)
    if fact.trust == "quarantined" or candidate.trust == "quarantined":
        return False  # an untrusted fact confirms nothing
    if mine & _NEGATION_WORDS != theirs & _NEGATION_WORDS or _identifying_words(
        mine
    ) != _identifying_words(theirs):
        return False
    alike = fact.memory == candidate.memory and fact.relation == candidate.relation
    if not alike or not mine | theirs:
        return False
    return len(mine & theirs) / len(mine | theirs) >= MIN_WORD_OVERLAP


def _negates(fact: Fact, candidate: FactCandidate) -> bool:
    mine, theirs = _content_words(candidate.text), _content_words(fact.text)
    return (
        bool(mine & _NEGATION_WORDS) != bool(theirs & _NEGATION_WORDS)
        and mine - _NEGATION_WORDS == theirs - _NEGATION_WORDS != set()
    )


def _content_words(text: str) -> set[str]:
    return {word for word in split_words(text) if word not in _FILLER_WORDS}


def _identifying_words(meaning: set[str]) -> set[str]:
    """Names, numbers, addresses: if they differ the facts differ, however alike the sentence."""
    return {word for word in meaning if _IDENTIFIER_SIGN.search(word)}


def _confirmation(fact: Fact, candidate: FactCandidate, run: str, at: datetime) -> list[FactEvent]:
    """Nothing when the candidate has the same sources as the fact."""
    again = bool(candidate.sources) and set(candidate.sources) <= set(fact.sources)
    if again or any(observation.at == candidate.at for observation in fact.seen):
        return []
    return [_confirmed_event(fact.id, candidate, run, at)]


def _noted_event(
    candidate: FactCandidate, run: str, at: datetime, supersedes: tuple[str, ...]
) -> FactNoted:
    content = content_fields(candidate) | {
        "text": one_line(candidate.text, MAX_FACT_CHARS),
        "quote": candidate.quote[:MAX_QUOTE_CHARS],
        "sources": candidate.sources[:MAX_SOURCES],
        "about": tuple(one_line(name, 100) for name in candidate.about[:16]),
    }
    return FactNoted(
        **content,
        run=run,
        at=at,
        fact=candidate.id,
        supersedes=supersedes,
        valid_from=candidate.at,
    )


def _confirmed_event(id: str, candidate: FactCandidate, run: str, at: datetime) -> FactConfirmed:
    return FactConfirmed(
        run=run,
        at=at,
        fact=id,
        sources=candidate.sources[:MAX_SOURCES],
        actor=candidate.actor,
        seen_at=candidate.at,
    )


def _ended_event(fact: Fact, candidate: FactCandidate, run: str, at: datetime) -> FactEnded:
    return FactEnded(
        run=run, at=at, fact=fact.id, by=candidate.id, reason="contradicted", actor=candidate.actor
    )
