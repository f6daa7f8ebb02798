"""A home for tests of search: a real journal, real index files, and events that say something."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from hermes.core.events import Event
from hermes.core.events.memory import MessageImported
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.knowledge import SearchResults, SessionQuery
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.search.line_search import search_lines
from hermes.memory.search.session_search import SessionSearch

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


class Home:
    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal.db"
        self.index = folder / "search.db"
        self.past = SessionSearch(self.journal, self.index)

    def write(self, *events: Event) -> Sequence[int]:
        async def append() -> Sequence[int]:
            async with SqliteJournal.open(self.journal) as journal:
                return await journal.append(*events)

        return anyio.run(append)

    def find(self, words: str = "", **how: Any) -> SearchResults:
        return self.past.ask_blocking(
            partial(search_lines, wanted=SessionQuery(words=words, **how))
        )

    def texts(self, words: str = "", **how: Any) -> list[str]:
        return [hit.line.text for hit in self.find(words, **how).hits]

    def reopen(self) -> None:
        self.past.close()
        self.past = SessionSearch(self.journal, self.index)


def said(text: str, run: str = "r", role: str = "user", at: datetime = NOON) -> MessageAdded:
    return MessageAdded(run=run, at=at, message=Message(role=role, text=text))  # type: ignore[arg-type]


def ran(command: str, run: str = "r", call: str = "1") -> ToolRequested:
    return ToolRequested(run=run, call=ToolCall(call, "terminal", {"command": command}))


def came(content: str, run: str = "r", call: str = "1") -> ToolFinished:
    return ToolFinished(run=run, result=ToolResult(call_id=call, content=content))


def imported(number: int, text: str, run: str = "talk") -> MessageImported:
    return MessageImported(run=run, at=NOON, id=f"m{number}", speaker="Ada", text=text)
