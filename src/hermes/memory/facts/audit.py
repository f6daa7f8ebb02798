"""Audits facts: duplicates, echoes, quotes that were never said, secrets, outdated facts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from hermes.core.events.memory import MessageImported
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.memory.facts.deduplication import says_the_same
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.facts.model_facts import quote_in_text
from hermes.memory.facts.sqlite_facts import SqliteFacts

FactProblemKind = Literal[
    "duplicate", "contradiction", "recall loop", "unsupported", "secret", "stale"
]
STALE_AFTER = timedelta(days=180)
SOURCE_KINDS = ("message.added", "message.imported", "tool.requested", "tool.finished")


class FactProblem(Value, kw_only=True, frozen=True):
    problem: FactProblemKind
    facts: tuple[str, ...]
    said: str


async def audit_facts(
    store: SqliteFacts, journal: Journal, *, redact: Callable[[str], str], now: datetime
) -> list[FactProblem]:
    facts = await store.find(FactQuery(limit=-1))
    texts = await _source_texts(journal, {seq for fact in facts for seq in fact.sources})
    found = [*_contradictions(facts)]
    seen: set[frozenset[str]] = set()
    for fact in facts:
        for other in await store.like(fact.text, limit=5):
            pair = frozenset((fact.id, other.id))
            if other.id != fact.id and pair not in seen and says_the_same(fact, other):
                seen.add(pair)
                both = tuple(sorted(pair))
                found.append(FactProblem(problem="duplicate", facts=both, said=fact.text))
        found += _problems_of_fact(fact, texts, redact, now)
    return found


def _problems_of_fact(
    fact: Fact, texts: Mapping[int, str], redact: Callable[[str], str], now: datetime
) -> Iterator[FactProblem]:
    own = [texts[seq] for seq in fact.sources if seq in texts]
    if any(text.startswith(RECALL_NOTE_PREFIX) for text in own):
        detail = "it rests on text that was itself recalled"
        yield FactProblem(problem="recall loop", facts=(fact.id,), said=detail)
    if why := _missing_support(fact, own):
        yield FactProblem(problem="unsupported", facts=(fact.id,), said=why)
    whole = f"{fact.text}\n{fact.quote}"
    if redact(whole) != whole:
        detail = f"holds a secret: hermes memory forget {fact.id}"
        yield FactProblem(problem="secret", facts=(fact.id,), said=detail)
    if fact.memory != "declarative" and now - fact.last_confirmed > STALE_AFTER:
        detail = f"last seen {fact.last_confirmed:%Y-%m-%d}, shown {fact.shown} times since noted"
        yield FactProblem(problem="stale", facts=(fact.id,), said=detail)


def _missing_support(fact: Fact, source_texts: Sequence[str]) -> str:
    if fact.trust == "imported":
        return ""  # its sources are in another journal
    if not fact.quote:
        return "a model noted it without a quote" if fact.trust == "model" and source_texts else ""
    if not source_texts:
        return "its source is no longer in the journal" if fact.sources else ""
    quote = fact.quote.rstrip("…")
    return (
        ""
        if any(quote_in_text(quote, text) for text in source_texts)
        else "its source does not say so"
    )


def _contradictions(facts: Sequence[Fact]) -> Iterator[FactProblem]:
    keyed: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.key and fact.trust != "quarantined":
            keyed.setdefault(fact.key, []).append(fact)
    for several in keyed.values():
        if len(several) > 1:
            detail = " / ".join(fact.text for fact in several)
            ids = tuple(fact.id for fact in several)
            yield FactProblem(problem="contradiction", facts=ids, said=detail)


async def _source_texts(journal: Journal, seqs: set[int]) -> dict[int, str]:
    """The texts of these events, in one pass over the journal."""
    texts: dict[int, str] = {}
    if not seqs:
        return texts
    async for recorded in journal.read(after=min(seqs) - 1, kinds=SOURCE_KINDS):
        if recorded.seq in seqs:
            texts[recorded.seq] = event_text(recorded.event)
    return texts


def event_text(event: object) -> str:
    """The text of an event that a fact may be based on."""
    match event:
        case MessageAdded(message=message):
            return message.text
        case MessageImported(text=text):
            return text
        case ToolRequested(call=call):
            return " ".join((call.name, *map(str, call.arguments.values())))
        case ToolFinished(result=result):
            return result.content
    return ""
