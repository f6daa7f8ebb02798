"""Looks for what should not be in a memory: doubles, echoes, quotes nobody said, secrets, rust."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from hermes.core.events.memory import MessageImported
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.core.remembering import RECALLED
from hermes.memory.facts.fact import Fact
from hermes.memory.facts.quoted import quote_holds
from hermes.memory.facts.settle import same
from hermes.memory.facts.store import FactStore, Wanted

Problem = Literal["duplicate", "contradiction", "recall loop", "unsupported", "secret", "stale"]
STALE = timedelta(days=180)
KINDS = ("message.added", "message.imported", "tool.requested", "tool.finished")


class Finding(Value, kw_only=True, frozen=True):
    problem: Problem
    facts: tuple[str, ...]
    said: str


async def audit(
    store: FactStore, journal: Journal, *, redact: Callable[[str], str], now: datetime
) -> list[Finding]:
    facts = await store.find(Wanted(limit=-1))
    texts = await _sources(journal, {seq for fact in facts for seq in fact.sources})
    found = [*_contradictions(facts)]
    seen: set[frozenset[str]] = set()
    for fact in facts:
        for other in await store.like(fact.text, limit=5):
            pair = frozenset((fact.id, other.id))
            if other.id != fact.id and pair not in seen and same(fact, other):
                seen.add(pair)
                both = tuple(sorted(pair))
                found.append(Finding(problem="duplicate", facts=both, said=fact.text))
        found += _one(fact, texts, redact, now)
    return found


def _one(
    fact: Fact, texts: Mapping[int, str], redact: Callable[[str], str], now: datetime
) -> Iterator[Finding]:
    own = [texts[seq] for seq in fact.sources if seq in texts]
    if any(text.startswith(RECALLED) for text in own):
        said = "it rests on text that was itself recalled"
        yield Finding(problem="recall loop", facts=(fact.id,), said=said)
    if why := _unsupported(fact, own):
        yield Finding(problem="unsupported", facts=(fact.id,), said=why)
    whole = f"{fact.text}\n{fact.quote}"
    if redact(whole) != whole:
        said = f"holds a secret: hermes memory forget {fact.id}"
        yield Finding(problem="secret", facts=(fact.id,), said=said)
    if fact.memory != "declarative" and now - fact.last_confirmed > STALE:
        said = f"last seen {fact.last_confirmed:%Y-%m-%d}, shown {fact.shown} times since noted"
        yield Finding(problem="stale", facts=(fact.id,), said=said)


def _unsupported(fact: Fact, own: Sequence[str]) -> str:
    if fact.trust == "imported":
        return ""  # its sources are in another journal
    if not fact.quote:
        return "a model noted it without a quote" if fact.trust == "model" and own else ""
    if not own:
        return "its source is no longer in the journal" if fact.sources else ""
    quote = fact.quote.rstrip("…")
    return "" if any(quote_holds(quote, text) for text in own) else "its source does not say so"


def _contradictions(facts: Sequence[Fact]) -> Iterator[Finding]:
    keyed: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.key and fact.trust != "quarantined":
            keyed.setdefault(fact.key, []).append(fact)
    for several in keyed.values():
        if len(several) > 1:
            said = " / ".join(fact.text for fact in several)
            ids = tuple(fact.id for fact in several)
            yield Finding(problem="contradiction", facts=ids, said=said)


async def _sources(journal: Journal, wanted: set[int]) -> dict[int, str]:
    """The words of these events, in one walk through the journal."""
    texts: dict[int, str] = {}
    if not wanted:
        return texts
    async for recorded in journal.read(after=min(wanted) - 1, kinds=KINDS):
        if recorded.seq in wanted:
            texts[recorded.seq] = text_of(recorded.event)
    return texts


def text_of(event: object) -> str:
    """What was said, asked for or printed in an event that a fact may rest on."""
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
