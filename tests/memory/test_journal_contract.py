"""Every journal keeps the contract, whichever way it keeps the events."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.postgres.journal import PostgresJournal
from hermes.testing import JournalContract
from hermes.testing.journals import ListingJournal


class TestJournals(JournalContract):
    @pytest.fixture(
        params=[
            "memory",
            "sqlite",
            "buffered",
            pytest.param("postgres", marks=pytest.mark.daemon),
        ]
    )
    async def journal(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> AsyncIterator[ListingJournal]:
        if request.param == "memory":
            yield InMemoryJournal()
        elif request.param == "buffered":
            async with BufferedJournal.open(tmp_path / "home" / "journal.db") as buffered:
                yield buffered
        elif request.param == "postgres":
            async with PostgresJournal.open(request.getfixturevalue("database")) as on_server:
                yield on_server
        else:
            async with SqliteJournal.open(tmp_path / "home" / "journal.db") as opened:
                yield opened
