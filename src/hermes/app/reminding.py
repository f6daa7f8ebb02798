"""Puts what is known about a request below it, as data, within a budget, and writes down what."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.memory import FactsShown, Trust
from hermes.core.events.runs import MessageAdded
from hermes.core.messages import Message, Value
from hermes.core.recall import Recalls, Remembered
from hermes.core.remembering import HOUSE, RECALLED
from hermes.memory.facts.fact import Fact, one_line
from hermes.memory.facts.hostile import seizes, visible, wants_keeping
from hermes.memory.facts.passages import FactPassages
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.memory.notes.section import count_tokens
from hermes.memory.recall.question import is_contentless
from hermes.memory.recall.recall import recall
from hermes.policy.data_marks import as_data

HEAD = (
    f"{RECALLED} from earlier sessions because of the request above. It may be out of date or "
    "beside the point: check it before you rely on it. Nothing in it was said by the person now.]"
)
MOST_FACTS = 8
MOST_PASSAGES = 5
LONGEST = 400
ASKED = 2_000
_BY: dict[Trust, str] = {
    "person": "a person said",
    "system": "seen",
    "model": "noted by a model",
    "imported": "imported",
    "quarantined": "",
}


class Reminder(Value, frozen=True):
    line: str
    text: str
    fact: str = ""
    message: int = 0


async def remind(
    run: str, text: str, facts: SqliteFacts | None, past: Recalls | None, *, tokens: int
) -> tuple[Event, ...]:
    """The message that shows it and the event that says what was shown; nothing if nothing fits."""
    text = text[:ASKED].encode(errors="replace").decode()  # half a letter is no query
    if is_contentless(text):
        return ()
    found = await _facts(facts, text) if facts is not None else []
    if past is not None:
        known = {one.text for one in found}
        found += await _passages(past, run, text, known)
    shown = _within(found, tokens - count_tokens(HEAD) - 40)
    if not shown:
        return ()
    body = as_data("\n".join(f"- {one.line}" for one in shown), "earlier sessions", run)
    return (
        MessageAdded(run=run, message=Message(role="user", text=f"{HEAD}\n{body}")),
        FactsShown(
            run=run,
            facts=tuple(one.fact for one in shown if one.fact),
            messages=tuple(one.message for one in shown if one.message),
            query=one_line(text, 200),
        ),
    )


async def _facts(store: SqliteFacts, text: str) -> list[Reminder]:
    await store.catch_up()
    now = datetime.now(UTC)
    found = await recall(FactPassages(store), text, limit=MOST_FACTS, now=now)
    facts = [await store.get(one.source) for one in found]
    return [
        Reminder(_line(fact), fact.text, fact=fact.id)
        for fact in facts
        if fact and not seizes(fact.text)
    ]


async def _passages(past: Recalls, run: str, text: str, known: set[str]) -> list[Reminder]:
    """What was said elsewhere; this run is before the model's eyes anyway, facts are in already."""
    found = await past.recall(text, limit=2 * MOST_PASSAGES)
    return [
        Reminder(_said(one), one.line.text, message=one.line.seq)
        for one in found
        if one.line.run != run
        and one.line.kind != "fact"
        and one.line.text not in known
        and not one.line.text.startswith(HOUSE)
        and not wants_keeping(one.line.text)
    ][:MOST_PASSAGES]


def _line(fact: Fact) -> str:
    times = f", {fact.confirmations + 1} times" if fact.confirmations else ""
    source = f"{fact.id}, {_BY[fact.trust]}{times}, last {fact.last_confirmed:%Y-%m-%d}"
    return f"{one_line(visible(fact.text), LONGEST)} [{source}]"


def _said(one: Remembered) -> str:
    line = one.line
    who = line.speaker or line.role
    text = one_line(visible(line.text), LONGEST)
    return f"{text} [event {line.seq} of {line.run}, {who}, {line.at:%Y-%m-%d}]"


def _within(found: Sequence[Reminder], tokens: int) -> list[Reminder]:
    shown: list[Reminder] = []
    for one in found:
        tokens -= count_tokens(f"- {one.line}\n")
        if tokens < 0:
            break
        shown.append(one)
    return shown
