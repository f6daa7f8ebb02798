"""The agent can look into earlier sessions, and need not look into its own."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tool_setup import ToolSetup, local

from hermes.core.events.runs import MessageAdded
from hermes.core.knowledge import OPEN_SESSION_HINT
from hermes.core.messages import Message
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.search.session_search import SessionSearch
from hermes.tools.memory import make_session_search

pytestmark = pytest.mark.anyio

LONG_AGO = datetime.now(UTC) - timedelta(days=400)


def said(run: str, text: str, at: datetime | None = None) -> MessageAdded:
    return MessageAdded(
        run=run, at=at or datetime.now(UTC), message=Message(role="user", text=text)
    )


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[ToolSetup]:
    path = tmp_path / "journal.db"
    async with SqliteJournal.open(path) as journal:
        await journal.append(
            said("old", "nginx was edited by hand", LONG_AGO),
            said("old", "and reloaded"),
            said("newer", "nginx was edited by hand again"),
            said("run", "nginx: my own words of this very run"),
        )
    past = SessionSearch(path, tmp_path / "search.db")
    async with local(tmp_path) as environment:
        yield ToolSetup(environment, {"session_search": make_session_search(past)})
    past.close()


async def test_it_tells_run_number_time_words_and_neighbours(setup: ToolSetup) -> None:
    told = await setup.ok("session_search", query="edited by hand")
    assert "old #1 · " in told
    assert "newer #3 · " in told
    assert "after: (user) and reloaded" in told
    assert told.endswith(OPEN_SESSION_HINT)


async def test_its_own_run_is_left_out_unless_named(setup: ToolSetup) -> None:
    assert "very run" not in await setup.ok("session_search", query="nginx")
    assert "very run" in await setup.ok("session_search", query="nginx", session="run")


async def test_it_narrows_by_time_and_kind(setup: ToolSetup) -> None:
    told = await setup.ok("session_search", query="nginx edited", since="30d")
    assert "newer #3" in told
    assert "old #1" not in told
    assert "nothing found" in await setup.ok("session_search", query="nginx", kind="result")
    assert "is no time" in await setup.fails("session_search", query="nginx", since="soon")


async def test_without_a_journal_it_says_so(tmp_path: Path) -> None:
    past = SessionSearch(tmp_path / "journal.db", tmp_path / "search.db")
    async with local(tmp_path) as environment:
        setup = ToolSetup(environment, {"session_search": make_session_search(past)})
        told = await setup.fails("session_search", query="x")
    assert "cannot be searched now" in told
