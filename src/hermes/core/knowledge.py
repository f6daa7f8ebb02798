"""Protocols and values for session search, recall, notes and the skill library."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.messages import Value

SearchHitKind = Literal["message", "call", "result", "summary", "fact", "title", "event"]
SpeakerRole = Literal["user", "assistant", "tool"]
OPEN_SESSION_HINT = "[open one: hermes sessions show RUN --at NUMBER]"
"""The last line of the agent's search results: it keeps found text from being indexed as new."""


class SessionQuery(Value, kw_only=True, frozen=True):
    """Words as a person types them, and filters.

    `"a phrase"`, `begin*`, `-without`, `this OR that`; other words must all occur, in any form.
    """

    words: str
    limit: int = 10
    session: str = ""
    """A run, with its subagents."""
    kind: SearchHitKind | None = None
    role: SpeakerRole | None = None
    service: str = ""
    """A name that must occur."""
    since: datetime | None = None
    until: datetime | None = None


class TranscriptLine(Value, kw_only=True, frozen=True):
    """A message, call, result or remembered fact."""

    seq: int
    """Its number in the journal."""
    run: str
    kind: SearchHitKind
    at: datetime
    role: SpeakerRole = "user"
    speaker: str = ""
    """Who said it, or which tool."""
    source: str = ""
    """Its original id; empty unless it was imported."""
    text: str = ""


class SearchHit(Value, kw_only=True, frozen=True):
    line: TranscriptLine
    score: float
    snippet: str
    """The matching part of the text."""
    marks: tuple[tuple[int, int], ...] = ()
    """Positions of the words in the snippet."""
    before: TranscriptLine | None = None
    after: TranscriptLine | None = None


class SearchResults(Value, kw_only=True, frozen=True):
    hits: tuple[SearchHit, ...] = ()
    relaxed: bool = False
    """Too few lines had all the words: some of these have only a part of them."""
    notices: tuple[str, ...] = ()
    """Warnings about this result."""


class RecalledLine(Value, kw_only=True, frozen=True):
    """A passage that recall returns."""

    line: TranscriptLine
    score: float
    why: str = ""

    @property
    def id(self) -> str:
        """The name of its source for people."""
        return self.line.source or str(self.line.seq)


class SearchesSessions(Protocol):
    """Searches everything that was said and done, by its words. Raises `StoreError`."""

    async def search(self, wanted: SessionQuery) -> SearchResults: ...


class RecallsLines(Protocol):
    """Finds what earlier sessions say about a question, best first. Raises `StoreError`."""

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[RecalledLine]: ...


NoteAction = Literal["add", "replace", "remove", "read"]
NoteTarget = Literal["memory", "user"]


class KeepsNotes(Protocol):
    """The two note files that every session begins with. Raises `ToolError` for the model."""

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        """Apply the change and return the new content as text."""


SYSTEM_NOTE_PREFIX = "[Hermes:"
"""The prefix of everything that Hermes itself writes into a conversation."""
NOTES_HEADING = """\
Notes from earlier sessions, as they were when this one began (the memory tool changes the files, \
not this copy). They tell what was so; look before you rely on them, and what the person says now \
counts more."""
RECALL_NOTE_PREFIX = f"{SYSTEM_NOTE_PREFIX} recalled"
"""The prefix of recalled text: shown to the model, never learned from, never taken for a request.
"""


class SkillCard(Value, kw_only=True, frozen=True):
    """A skill in one line."""

    name: str
    description: str
    category: str = "general"
    playbook: bool = False
    """Whether it has a runnable part."""


class ReadsSkillLibrary(Protocol):
    """The skill library as the agent may read it. Raises `ToolError` for the model."""

    async def categories(self) -> Sequence[tuple[str, int]]:
        """Categories with the number of their skills."""

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        """Of one category, or of all; those that fit the task come first."""

    async def body(self, name: str) -> str: ...
    async def outline(self, name: str) -> str:
        """Its headings and linked files."""

    async def linked(self, name: str, file: str) -> str: ...
