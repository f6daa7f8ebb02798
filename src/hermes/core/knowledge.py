"""Asking the past: what a search and a recall are given, and what they answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.messages import Value

SearchHitKind = Literal["message", "call", "result", "summary", "fact", "title", "event"]
SpeakerRole = Literal["user", "assistant", "tool"]
OPEN_SESSION_HINT = "[open one: hermes sessions show RUN --at NUMBER]"
"""How an answer of the agent's search ends: by it nobody indexes what was found as if it were new.
"""


class SessionQuery(Value, kw_only=True, frozen=True):
    """Words as a person types them, and what narrows them down.

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
    """One message, call, result or remembered fact, as it was said."""

    seq: int
    """Its number in the journal."""
    run: str
    kind: SearchHitKind
    at: datetime
    role: SpeakerRole = "user"
    speaker: str = ""
    """Who said it, or which tool."""
    source: str = ""
    """The id it had where it came from; empty unless it was imported."""
    text: str = ""


class SearchHit(Value, kw_only=True, frozen=True):
    line: TranscriptLine
    score: float
    snippet: str
    """The part of the text that matters."""
    marks: tuple[tuple[int, int], ...] = ()
    """Where in the snippet the words stand."""
    before: TranscriptLine | None = None
    after: TranscriptLine | None = None


class SearchResults(Value, kw_only=True, frozen=True):
    hits: tuple[SearchHit, ...] = ()
    relaxed: bool = False
    """Nothing, or too little, held all the words: some of these hold only a part of them."""
    notices: tuple[str, ...] = ()
    """What the person should know about this answer."""


class RecalledLine(Value, kw_only=True, frozen=True):
    """A passage that recall brings back."""

    line: TranscriptLine
    score: float
    why: str = ""

    @property
    def id(self) -> str:
        """What a person knows its source by."""
        return self.line.source or str(self.line.seq)


class SearchesSessions(Protocol):
    """Everything that was said and done, by its words. Raises `StoreError`."""

    async def search(self, wanted: SessionQuery) -> SearchResults: ...


class RecallsLines(Protocol):
    """What the past has to say to a question, best first. Raises `StoreError`."""

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[RecalledLine]: ...


NoteAction = Literal["add", "replace", "remove", "read"]
NoteTarget = Literal["memory", "user"]


class KeepsNotes(Protocol):
    """The two short files that every session begins with. Raises `ToolError` for the model."""

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        """Do it and say what is there now, in words."""
        ...


SYSTEM_NOTE_PREFIX = "[Hermes:"
"""How everything begins that the house itself says in a conversation."""
NOTES_HEADING = """\
Notes from earlier sessions, as they were when this one began (the memory tool changes the files, \
not this copy). They tell what was so; look before you rely on them, and what the person says now \
counts more."""
RECALL_NOTE_PREFIX = f"{SYSTEM_NOTE_PREFIX} recalled"
"""How recalled text begins: shown to the model, never learned from, never taken for a wish."""


class SkillCard(Value, kw_only=True, frozen=True):
    """A skill in one line."""

    name: str
    description: str
    category: str = "general"
    playbook: bool = False
    """It has a runnable half."""


class ReadsSkillLibrary(Protocol):
    """The library as the agent may read it. Raises `ToolError` for the model."""

    async def categories(self) -> Sequence[tuple[str, int]]:
        """Each with how many skills it has."""
        ...

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        """Of one category, or of all; those that fit the task come first."""
        ...

    async def body(self, name: str) -> str: ...
    async def outline(self, name: str) -> str:
        """Its headings and linked files."""
        ...

    async def linked(self, name: str, file: str) -> str: ...
