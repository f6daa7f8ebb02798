"""A fact as it stands now, and one that is about to be noted."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Literal

from hermes.core.events.memory import MemoryKind, Trust
from hermes.core.messages import Value

LONGEST = 1_000
"""Characters of a fact: a longer text is a document, and its place is the journal."""
LONGEST_QUOTE = 500
MOST_SEEN = 32
MOST_SOURCES = 64

State = Literal["current", "ended", "forgotten"]
Scope = Literal["own", "team"]
"""team: told to those who subscribe to this home."""

_WORD = re.compile(r"[^\W_]+(?:[._:/@-]+[^\W_]+)*", re.UNICODE)
RANK: dict[Trust, int] = {"person": 4, "system": 3, "model": 2, "imported": 1, "quarantined": 0}
"""Whose word ends whose: nobody ends a fact of somebody who is trusted more."""


class Sighting(Value, frozen=True):
    at: datetime
    run: str = ""


class Fact(Value, kw_only=True, frozen=True):
    id: str
    memory: MemoryKind
    text: str
    quote: str = ""
    sources: tuple[int, ...] = ()
    about: tuple[str, ...] = ()
    relation: str = ""
    key: str = ""
    trust: Trust = "system"
    actor: str = ""
    origin: str = ""
    scope: Scope = "own"
    run: str = ""
    noted_at: datetime
    valid_from: datetime
    valid_to: datetime | None = None
    ended_by: str = ""
    supersedes: tuple[str, ...] = ()
    confirmations: int = 0
    last_confirmed: datetime
    seen: tuple[Sighting, ...] = ()
    """The latest times it was seen, oldest first: what patterns are read from."""
    shown: int = 0
    succeeded: int = 0
    """Turns that ended with an answer after it was shown in them."""
    failed: int = 0
    forgotten: bool = False

    @property
    def state(self) -> State:
        if self.forgotten:
            return "forgotten"
        return "current" if self.valid_to is None else "ended"


class Candidate(Value, kw_only=True, frozen=True):
    """Something that was seen in the journal and may be worth a fact."""

    memory: MemoryKind
    text: str
    quote: str = ""
    sources: tuple[int, ...] = ()
    about: tuple[str, ...] = ()
    relation: str = ""
    key: str = ""
    trust: Trust = "system"
    actor: str = ""
    origin: str = ""
    scope: Scope = "own"
    at: datetime | None = None

    @property
    def id(self) -> str:
        return fact_id(self.memory, self.relation, self.text)


def fact_id(memory: str, relation: str, text: str) -> str:
    """The same words give the same id in every process, so that two cannot note a fact twice."""
    said = "\x1f".join((memory, relation, " ".join(words(text))))
    return f"fact-{hashlib.sha256(said.encode(errors='replace')).hexdigest()[:12]}"


def words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def one_line(text: str, size: int = LONGEST) -> str:
    """On one line and no longer than `size`; only as much of a huge text is looked at as needed."""
    line = " ".join(text[: size * 4].split())
    return line if len(line) <= size else f"{line[: size - 1]}…"


def aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
