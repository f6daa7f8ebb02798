"""Conversations from elsewhere are taken in once, whatever the file looks like."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from hermes.core.errors import HermesError
from hermes.core.events.memory import MessageImported
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.session_import import (
    ImportLineInvalid,
    SessionImportResult,
    import_lines,
    parse_message_time,
)
from hermes.memory.journal.sqlite_journal import SqliteJournal

pytestmark = pytest.mark.anyio


def line(number: int, **more: object) -> bytes:
    given = {"id": f"m{number}", "session": "talk", "speaker": "Ada", "text": f"text {number}"}
    return msgspec.json.encode({**given, "at": "2026-01-02T12:00:00Z", **more})


async def kept(journal: InMemoryJournal) -> list[MessageImported]:
    return [event for event in journal.events if isinstance(event, MessageImported)]


async def test_each_message_is_taken_in_once_in_order() -> None:
    journal = InMemoryJournal()
    lines = [line(n, session=f"s{n % 3}") for n in range(1200)]
    first = await import_lines(journal, lines)
    again = await import_lines(journal, [*lines, line(5000)])
    assert (first.added, first.known, first.sessions) == (1200, 0, 3)
    assert (again.added, again.known) == (1, 1200)
    ids = [event.id for event in await kept(journal)]
    assert ids == [*(f"m{n}" for n in range(1200)), "m5000"]
    assert [run.messages for run in await journal.runs()] == [1, 400, 400, 400]


async def test_a_session_is_listed_with_its_first_words(tmp_path: Path) -> None:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        await import_lines(journal, [line(1), line(2)])
        (run,) = await journal.runs()
    assert (run.id, run.task, run.messages) == ("talk", "imported: text 1", 2)
    assert run.started_at == datetime(2026, 1, 2, 12, tzinfo=UTC)


async def test_bad_lines_are_counted_and_named_and_the_rest_goes_on() -> None:
    bad = [b"{", b"[]", b'{"session": "s"}', line(1, text=" "), line(1, session=""), b"\xff\xfe"]
    bad += [line(1, at="yesterday-ish"), line(1, text=7)]
    found = await import_lines(journal := InMemoryJournal(), [line(0), b"\n", *bad, line(9)])
    assert (found.added, found.rejected) == (2, len(bad))
    assert found.mistakes[0].startswith("line 3: ")
    assert "2026-03-02T14:05:00Z" in found.mistakes[6]
    assert [event.id for event in await kept(journal)] == ["m0", "m9"]


async def test_strict_stops_at_the_first_bad_line_and_keeps_what_came_before() -> None:
    journal = InMemoryJournal()
    with pytest.raises(HermesError, match="line 2: "):
        await import_lines(journal, [line(0), b"{", line(1)], strict=True)
    assert [event.id for event in await kept(journal)] == ["m0"]


async def test_ten_megabytes_are_taken_in_and_told(tmp_path: Path) -> None:
    text = "word " * 2_000_000
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        found = await import_lines(journal, [line(1, text=text), line(2)])
        read = [recorded.event async for recorded in journal.read(kinds=["message.imported"])]
    assert found == SessionImportResult(added=2, long=1, sessions=1)
    assert isinstance(read[0], MessageImported)
    assert read[0].text == text


async def test_without_an_id_the_words_say_whether_it_is_known() -> None:
    journal = InMemoryJournal()
    given = [line(1, id=""), line(2, id=""), line(1, id="")]
    assert (await import_lines(journal, given)).added == 2
    assert (await import_lines(journal, given)).added == 0


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        ("2026-01-02T12:00:00+02:00", datetime(2026, 1, 2, 10, tzinfo=UTC)),
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
    ],
)
async def test_times_are_read_as_people_write_them(at: str | float, moment: datetime) -> None:
    assert parse_message_time(at) == moment


@pytest.mark.parametrize("at", ["soon", 1e300, "2026-99-99"])
async def test_what_is_no_time_is_refused(at: str | float) -> None:
    with pytest.raises(ImportLineInvalid):
        parse_message_time(at)
