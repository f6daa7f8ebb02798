"""What was learned from what happened, who vouches for it, and what became of it."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent

MemoryKind = Literal["episodic", "semantic", "declarative"]
FactTrust = Literal["person", "system", "model", "imported", "quarantined"]


class MessageImported(BaseEvent, tag="message.imported", kw_only=True, frozen=True):
    """A line of a conversation that was held elsewhere; its run is the session it belongs to."""

    id: str
    speaker: str
    text: str


class FactNoted(BaseEvent, tag="memory.noted", kw_only=True, frozen=True):
    fact: str
    memory: MemoryKind
    text: str
    quote: str = ""
    """Verbatim words of a source: what a model notes must be able to show one."""
    sources: tuple[int, ...] = ()
    """Numbers of the journal events it rests on."""
    about: tuple[str, ...] = ()
    """Services, hosts, files: what links it to others."""
    relation: str = ""
    """depends-on, correlates-with, happens-at, fixed-by...; empty for a plain fact."""
    key: str = ""
    """What it says something about, when only one such thing can be true at a time."""
    trust: FactTrust = "system"
    actor: str = ""
    scope: Literal["own", "team"] = "own"
    supersedes: tuple[str, ...] = ()
    origin: str = ""
    """Where an imported one was first noted."""
    valid_from: datetime | None = None
    """Since when it holds; when it was noted, if nobody knows better."""


class FactConfirmed(BaseEvent, tag="memory.confirmed", kw_only=True, frozen=True):
    """Seen again: the same thing in other words, or the same words again."""

    fact: str
    sources: tuple[int, ...] = ()
    actor: str = ""
    seen_at: datetime | None = None
    """When it was seen, if that is not the moment in which it was written down."""


class FactEnded(BaseEvent, tag="memory.ended", kw_only=True, frozen=True):
    """It no longer holds; it stays readable with the time at which it ended."""

    fact: str
    by: str = ""
    """The fact that took its place."""
    reason: str = ""
    actor: str = ""


class FactForgotten(BaseEvent, tag="memory.forgotten", kw_only=True, frozen=True):
    """A person wants it gone: out of recall, search and every list; rules do not note it again."""

    fact: str
    by: str = ""


class FactsShown(BaseEvent, tag="memory.shown", kw_only=True, frozen=True):
    """What was put before a model, so that its use can be judged by how the run ended."""

    facts: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()
    query: str = ""
    where: Literal["core", "recall", "tool"] = "recall"


class RunSummarised(BaseEvent, tag="run.summarised", kw_only=True, frozen=True):
    summary: str
    method: Literal["model", "extract"] = "extract"
    upto: int = 0
    """The last journal event it tells of."""


class NoteChanged(BaseEvent, tag="note.changed", kw_only=True, frozen=True):
    """MEMORY.md or USER.md changed."""

    file: str
    by: str
    digest: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class MessageForgotten(BaseEvent, tag="message.forgotten", kw_only=True, frozen=True):
    """A message that no longer is found: it stays in the chain, not in search or recall."""

    seq: int
    by: str = ""


MemoryEvent = (
    MessageImported
    | FactNoted
    | FactConfirmed
    | FactEnded
    | FactForgotten
    | FactsShown
    | RunSummarised
    | NoteChanged
    | MessageForgotten
)
