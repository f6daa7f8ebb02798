"""Asking the past: what a search and a recall are given, and what they answer."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from hermes.core.messages import Value

HitKind = Literal["message", "call", "result", "summary", "fact", "title", "event"]
Speaker = Literal["user", "assistant", "tool"]
OPEN_ONE = "[open one: hermes sessions show RUN --at NUMBER]"
"""How an answer of the agent's search ends: by it nobody indexes what was found as if it were new.
"""


class Search(Value, kw_only=True, frozen=True):
    """Words as a person types them, and what narrows them down.

    `"a phrase"`, `begin*`, `-without`, `this OR that`; other words must all occur, in any form.
    """

    words: str
    limit: int = 10
    session: str = ""
    """A run, with its subagents."""
    kind: HitKind | None = None
    role: Speaker | None = None
    service: str = ""
    """A name that must occur."""
    since: datetime | None = None
    until: datetime | None = None


class Line(Value, kw_only=True, frozen=True):
    """One message, call, result or remembered fact, as it was said."""

    seq: int
    """Its number in the journal."""
    run: str
    kind: HitKind
    at: datetime
    role: Speaker = "user"
    speaker: str = ""
    """Who said it, or which tool."""
    source: str = ""
    """The id it had where it came from; empty unless it was imported."""
    text: str = ""


class Hit(Value, kw_only=True, frozen=True):
    line: Line
    score: float
    snippet: str
    """The part of the text that matters."""
    marks: tuple[tuple[int, int], ...] = ()
    """Where in the snippet the words stand."""
    before: Line | None = None
    after: Line | None = None


class Hits(Value, kw_only=True, frozen=True):
    hits: tuple[Hit, ...] = ()
    relaxed: bool = False
    """Nothing, or too little, held all the words: some of these hold only a part of them."""
    notices: tuple[str, ...] = ()
    """What the person should know about this answer."""


class Remembered(Value, kw_only=True, frozen=True):
    """A passage that recall brings back."""

    line: Line
    score: float
    why: str = ""

    @property
    def id(self) -> str:
        """What a person knows its source by."""
        return self.line.source or str(self.line.seq)


class Searches(Protocol):
    """Everything that was said and done, by its words. Raises `StoreError`."""

    async def search(self, wanted: Search) -> Hits: ...


class Recalls(Protocol):
    """What the past has to say to a question, best first. Raises `StoreError`."""

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[Remembered]: ...
