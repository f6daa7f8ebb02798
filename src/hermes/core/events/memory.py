"""Facts, notes and reminders: what was learned, from which source, and what became of it."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent

MemoryKind = Literal["episodic", "semantic", "declarative"]
FactTrust = Literal["person", "system", "model", "imported", "quarantined"]


class MessageImported(BaseEvent, tag="message.imported", kw_only=True, frozen=True):
    """A line of an imported conversation; its run is the session it belongs to."""

    id: str
    speaker: str
    text: str


class FactNoted(BaseEvent, tag="memory.noted", kw_only=True, frozen=True):
    fact: str
    memory: MemoryKind
    text: str
    quote: str = ""
    """Verbatim words of a source: a fact noted by a model must quote one."""
    sources: tuple[int, ...] = ()
    """Numbers of the journal events it is based on."""
    about: tuple[str, ...] = ()
    """Services, hosts, files: its links to other facts."""
    relation: str = ""
    """depends-on, correlates-with, happens-at, fixed-by...; empty for a plain fact."""
    key: str = ""
    """Its subject, when only one fact about it can be true at a time."""
    trust: FactTrust = "system"
    actor: str = ""
    scope: Literal["own", "team"] = "own"
    supersedes: tuple[str, ...] = ()
    origin: str = ""
    """Where an imported fact was first noted."""
    valid_from: datetime | None = None
    """Since when it holds; when it was noted, if that is not known."""


class FactConfirmed(BaseEvent, tag="memory.confirmed", kw_only=True, frozen=True):
    """The same fact was found again, in the same or other words."""

    fact: str
    sources: tuple[int, ...] = ()
    actor: str = ""
    seen_at: datetime | None = None
    """When it was found, if that is not the time at which it was recorded."""


class FactEnded(BaseEvent, tag="memory.ended", kw_only=True, frozen=True):
    """A fact no longer holds; it stays readable with the time at which it ended."""

    fact: str
    by: str = ""
    """The fact that replaced it."""
    reason: str = ""
    actor: str = ""


class FactForgotten(BaseEvent, tag="memory.forgotten", kw_only=True, frozen=True):
    """A person removed it: from recall, search and every list; rules do not note it again."""

    fact: str
    by: str = ""


class FactsShown(BaseEvent, tag="memory.shown", kw_only=True, frozen=True):
    """Facts were shown to a model, so that their use can be judged by the outcome of the run."""

    facts: tuple[str, ...] = ()
    messages: tuple[int, ...] = ()
    query: str = ""
    where: Literal["core", "recall", "tool"] = "recall"


class RunSummarised(BaseEvent, tag="run.summarised", kw_only=True, frozen=True):
    summary: str
    method: Literal["model", "extract"] = "extract"
    upto: int = 0
    """The last journal event that it covers."""


class NoteChanged(BaseEvent, tag="note.changed", kw_only=True, frozen=True):
    """MEMORY.md or USER.md changed."""

    file: str
    by: str
    digest: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class MessageForgotten(BaseEvent, tag="message.forgotten", kw_only=True, frozen=True):
    """A message that is no longer found: it stays in the chain, not in search or recall."""

    seq: int
    by: str = ""
