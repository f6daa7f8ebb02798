"""Adds known facts and passages below a request, as data and within a budget, and records which."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.memory import FactsShown, FactTrust
from hermes.core.events.runs import MessageAdded
from hermes.core.foreign_text import one_line, strip_hidden_characters
from hermes.core.knowledge import RECALL_NOTE_PREFIX, SYSTEM_NOTE_PREFIX, RecalledLine, RecallsLines
from hermes.core.messages import Message, Value
from hermes.memory.facts.fact import Fact
from hermes.memory.facts.prompt_injection import (
    asks_to_be_remembered,
    is_takeover_attempt,
)
from hermes.memory.facts.sqlite_facts import FactPassages, SqliteFacts
from hermes.memory.notes.prompt_section import estimate_tokens
from hermes.memory.search.question import is_contentless
from hermes.memory.search.recall import recall
from hermes.policy.taint.data_marks import mark_as_data

RECALL_HEADING = (
    f"{RECALL_NOTE_PREFIX} from earlier sessions because of the request above. It may be out of "
    "date or beside the point: check it before you rely on it. Nothing in it was said by the "
    "person now.]"
)
MAX_FACTS = 8
MAX_PASSAGES = 5
MAX_PASSAGE_CHARS = 400
MAX_QUERY_CHARS = 2_000
_TRUST_PHRASES: dict[FactTrust, str] = {
    "person": "a person said",
    "system": "seen",
    "model": "noted by a model",
    "imported": "imported",
    "quarantined": "",
}


class RecallItem(Value, frozen=True):
    line: str
    text: str
    fact: str = ""
    message: int = 0


async def recall_for_request(
    run: str,
    text: str,
    facts: SqliteFacts | None,
    recall_source: RecallsLines | None,
    *,
    tokens: int,
) -> tuple[Event, ...]:
    """The message with the recalled text and the event that records it; nothing if nothing fits."""
    # a lone surrogate cannot be searched for
    text = text[:MAX_QUERY_CHARS].encode(errors="replace").decode()
    if is_contentless(text):
        return ()
    found = await _recall_facts(facts, text) if facts is not None else []
    if recall_source is not None:
        known = {one.text for one in found}
        found += await _recall_passages(recall_source, run, text, known)
    shown = _within_budget(found, tokens - estimate_tokens(RECALL_HEADING) - 40)
    if not shown:
        return ()
    body = mark_as_data("\n".join(f"- {one.line}" for one in shown), "earlier sessions", run)
    return (
        MessageAdded(run=run, message=Message(role="user", text=f"{RECALL_HEADING}\n{body}")),
        FactsShown(
            run=run,
            facts=tuple(one.fact for one in shown if one.fact),
            messages=tuple(one.message for one in shown if one.message),
            query=one_line(text, 200),
        ),
    )


async def _recall_facts(store: SqliteFacts, text: str) -> list[RecallItem]:
    await store.catch_up()
    now = datetime.now(UTC)
    found = await recall(FactPassages(store), text, limit=MAX_FACTS, now=now)
    facts = [await store.get(one.id) for one in found]
    return [
        RecallItem(_fact_line(fact), fact.text, fact=fact.id)
        for fact in facts
        if fact and not is_takeover_attempt(fact.text)
    ]


async def _recall_passages(
    recall_source: RecallsLines, run: str, text: str, known: set[str]
) -> list[RecallItem]:
    """Passages of other sessions; the model sees this run anyway, and facts are already there."""
    found = await recall_source.recall(text, limit=2 * MAX_PASSAGES)
    return [
        RecallItem(_passage_line(one), one.line.text, message=one.line.seq)
        for one in found
        if one.line.run != run
        and one.line.kind != "fact"
        and one.line.text not in known
        and not one.line.text.startswith(SYSTEM_NOTE_PREFIX)
        and not asks_to_be_remembered(one.line.text)
    ][:MAX_PASSAGES]


def _fact_line(fact: Fact) -> str:
    times = f", {fact.confirmations + 1} times" if fact.confirmations else ""
    source = f"{fact.id}, {_TRUST_PHRASES[fact.trust]}{times}, last {fact.last_confirmed:%Y-%m-%d}"
    return f"{one_line(strip_hidden_characters(fact.text), MAX_PASSAGE_CHARS)} [{source}]"


def _passage_line(one: RecalledLine) -> str:
    line = one.line
    who = line.speaker or line.role
    text = one_line(strip_hidden_characters(line.text), MAX_PASSAGE_CHARS)
    return f"{text} [event {line.seq} of {line.run}, {who}, {line.at:%Y-%m-%d}]"


def _within_budget(found: Sequence[RecallItem], tokens: int) -> list[RecallItem]:
    shown: list[RecallItem] = []
    for one in found:
        tokens -= estimate_tokens(f"- {one.line}\n")
        if tokens < 0:
            break
        shown.append(one)
    return shown
