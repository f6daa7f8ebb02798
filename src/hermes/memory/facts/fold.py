"""What an event does to a fact: the one reducer for every store, and for rebuilding one."""

from datetime import datetime

from msgspec.structs import replace

from hermes.core.events.memory import FactConfirmed, FactEnded, FactForgotten, FactNoted
from hermes.memory.facts.fact import (
    LONGEST,
    LONGEST_QUOTE,
    MOST_SEEN,
    MOST_SOURCES,
    Fact,
    Sighting,
    aware,
)

FactChange = FactNoted | FactConfirmed | FactEnded | FactForgotten


def apply(fact: Fact | None, event: FactChange) -> Fact | None:
    """The fact afterwards; None while it is not known: an event about nothing changes nothing."""
    if isinstance(event, FactNoted):
        return _note(fact, event)
    if fact is None or fact.forgotten:
        return fact
    if isinstance(event, FactConfirmed):
        return _confirm(fact, event.sources, aware(event.seen_at or event.at), event.run)
    if isinstance(event, FactEnded):
        # A clock that went back must not make a fact end before it began.
        return replace(fact, valid_to=max(aware(event.at), fact.valid_from), ended_by=event.by)
    return forget(fact)


def forget(fact: Fact) -> Fact:
    """Only the id stays, which says nothing and keeps rules from noting it again."""
    return replace(
        fact, forgotten=True, text="", quote="", about=(), key="", seen=(), sources=(), actor=""
    )


def _note(fact: Fact | None, event: FactNoted) -> Fact | None:
    if fact is not None and fact.forgotten and event.trust != "person":
        return fact
    if fact is not None and not fact.forgotten:
        began = _began(event)
        if event.trust == "person":  # who may hear of it is for people to say, not for rules
            fact = replace(fact, scope=event.scope)
        if fact.valid_to is None:
            return _confirm(fact, event.sources, began, event.run)
        again = replace(fact, valid_to=None, ended_by="", valid_from=max(began, fact.valid_to))
        return _confirm(again, event.sources, began, event.run)
    return _first(event)


def _first(event: FactNoted) -> Fact:
    began = _began(event)
    return Fact(
        id=event.fact,
        memory=event.memory,
        text=event.text[:LONGEST],
        quote=event.quote[:LONGEST_QUOTE],
        sources=event.sources[:MOST_SOURCES],
        about=event.about,
        relation=event.relation,
        key=event.key,
        trust=event.trust,
        actor=event.actor,
        origin=event.origin,
        scope=event.scope,
        run=event.run,
        noted_at=aware(event.at),
        valid_from=began,
        last_confirmed=began,
        supersedes=event.supersedes,
        seen=(Sighting(began, event.run),),
    )


def _began(event: FactNoted) -> datetime:
    """Never later than it was written down, whatever a clock or an import says."""
    return min(aware(event.valid_from or event.at), aware(event.at))


def _confirm(fact: Fact, sources: tuple[int, ...], at: datetime, run: str) -> Fact:
    if sources and set(sources) <= set(fact.sources):
        return fact  # the same evidence once more proves nothing new
    if any(sighting.at == at for sighting in fact.seen):
        return fact  # one line of a log, read a second time
    kept = tuple(dict.fromkeys((*fact.sources, *sources)))
    seen = sorted((*fact.seen, Sighting(at, run)), key=lambda sighting: sighting.at)
    return replace(
        fact,
        confirmations=fact.confirmations + 1,
        last_confirmed=max(fact.last_confirmed, at),
        sources=kept if len(kept) <= MOST_SOURCES else (kept[0], *kept[1 - MOST_SOURCES :]),
        seen=tuple(seen[-MOST_SEEN:]),
    )
