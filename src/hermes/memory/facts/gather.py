"""From the events of one run to what may be worth a fact, without a model."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hermes.core.events.runs import MessageAdded, RunStarted, TurnStarted, TurnUndone
from hermes.core.protocols import Recorded
from hermes.core.remembering import HOUSE
from hermes.memory.facts.deeds import Deed, deeds_of, edits, failures, remediations
from hermes.memory.facts.fact import Candidate, one_line
from hermes.memory.facts.hostile import wants_keeping
from hermes.memory.facts.sayings import sayings
from hermes.memory.facts.topology import topology

MOST = 60
"""Candidates of one reading: a run that says more than that is a log, and logs are searched."""
MOST_HOSTILE = 3
OWN_TOOLS = frozenset({"memory", "recall", "session_search", "todo", "clarify"})
"""Tools that answer with what is known already: learning from them is hearing an echo."""
PEOPLE = ("cli", "python", "chat")


def gather(records: Sequence[Recorded]) -> list[Candidate]:
    deeds = [deed for deed in deeds_of(records) if deed.tool not in OWN_TOOLS]
    found = (
        *_said(records),
        *remediations(deeds),
        *edits(deeds),
        *_read(deeds),
        *failures(deeds),
    )
    return list(islice(_once(found), MOST))


def _said(records: Sequence[Recorded]) -> Iterator[Candidate]:
    """What people said, in runs in which it is people who speak."""
    begun = next((r.event for r in records if isinstance(r.event, RunStarted)), None)
    if begun is not None and (begun.parent or begun.origin not in PEOPLE):
        return
    undone = {r.event.turn for r in records if isinstance(r.event, TurnUndone)}
    turn, before = 0, ""
    for recorded in records:
        event = recorded.event
        if isinstance(event, TurnStarted):
            turn = event.turn
        if not isinstance(event, MessageAdded) or turn in undone:
            continue
        text = event.message.text
        if event.message.role == "assistant":
            before = text
        elif event.message.role == "user" and not text.startswith(HOUSE):
            yield from sayings(text, recorded.seq, event.at, before)
            yield from topology(text[:20_000], recorded.seq, event.at, "person")


def _read(deeds: Iterable[Deed]) -> Iterator[Candidate]:
    """What outputs tell about the house they come from; what they ask for is only kept as such."""
    for deed in deeds:
        lines = [line for line in deed.output.splitlines() if wants_keeping(line[:2_000])]
        for line in lines[:MOST_HOSTILE]:
            yield Candidate(
                memory="episodic",
                text=f"`{deed.shown}` printed: {one_line(line, 300)}",
                quote=one_line(line, 300),
                sources=(deed.finished,),
                relation="asks-to-be-kept",
                trust="quarantined",
                at=deed.at,
            )
        if not lines:
            yield from topology(deed.output, deed.finished, deed.at, "system")


def _once(found: Iterable[Candidate]) -> Iterator[Candidate]:
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for candidate in found:
        mark = candidate.id, candidate.sources
        if mark not in seen:
            seen.add(mark)
            yield candidate
