"""What a watch holds in memory can be read beside it, and never outlives the trouble."""

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from hermes.app.journal.upkeep import JournalMonitor
from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.protocols import JournalRecord
from hermes.memory import held_copy
from hermes.memory.held_copy import HeldCopy, JournalWithHeld
from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.memory.store import open_journal
from hermes.sre.reports.report_data import list_incidents
from small_disk import read_only, small_disk

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", size="12m") as folder:
        yield folder


def opened(name: str) -> IncidentOpened:
    return IncidentOpened(run=name, incident=name, title=f"{name}: no answer", severity="P1")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while not condition():  # noqa: ASYNC110 - a file
            await anyio.sleep(0.05)


async def open_incidents(path: Path, copy: HeldCopy) -> list[str]:
    """As a command beside the watch sees them."""
    async with open_journal(path, or_read_only=True) as journal:
        held = copy.read()
        beside = JournalWithHeld(journal, held[1]) if held is not None else journal
        return [each.details.incident for each in await list_incidents(beside)]


async def test_a_command_beside_a_watch_sees_the_incidents_that_it_holds_in_memory(
    disk: Path, tmp_path: Path
) -> None:
    path, folder = disk / "journal.db", tmp_path / "run"
    copy, said = HeldCopy(path, folder), list[str]()
    async with BufferedJournal.open(path) as journal, anyio.create_task_group() as group:
        await journal.append(opened("before"))
        keeper = JournalMonitor(journal, say=said.append, copy=copy)
        with read_only(disk):
            await journal.check()
            await journal.append(opened("meanwhile"))
            group.start_soon(keeper.run)
            await until(lambda: copy.read() is not None)
            assert await open_incidents(path, copy) == ["before", "meanwhile"]
            assert copy.path is not None and copy.path.stat().st_mode & 0o777 == 0o600
            assert folder.stat().st_mode & 0o777 == 0o700
        await until(lambda: copy.read() is None)
        assert await open_incidents(path, copy) == ["before", "meanwhile"], "from the journal now"
        group.cancel_scope.cancel()


async def test_the_copy_of_a_watch_that_was_killed_is_removed_by_the_next_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    copy = HeldCopy(path, tmp_path)
    copy.write([JournalRecord(7, opened("lost"))])
    async with BufferedJournal.open(path) as journal, anyio.create_task_group() as group:
        group.start_soon(JournalMonitor(journal, copy=HeldCopy(path, tmp_path)).run)
        await until(lambda: copy.read() is None)
        group.cancel_scope.cancel()


def test_two_journals_have_two_copies(tmp_path: Path) -> None:
    one, other = (HeldCopy(tmp_path / name, tmp_path) for name in ("a.db", "b.db"))
    one.write([JournalRecord(1, opened("a"))])
    assert other.read() is None and one.read() is not None


def test_a_copy_that_is_too_large_or_cannot_be_read_is_none(tmp_path: Path) -> None:
    copy = HeldCopy(tmp_path / "j.db", tmp_path)
    text = "x" * (held_copy.COPY_BYTES_MOST // 4)
    alerts = [AlertRaised(run="watch", fingerprint="f", title="t", text=text)] * 5
    copy.write([JournalRecord(1, opened("a"))])
    copy.write([JournalRecord(number, alert) for number, alert in enumerate(alerts, 2)])
    assert copy.read() is None
    copy.write([JournalRecord(9, opened("b"))])
    assert copy.path is not None and copy.read() is not None
    copy.path.write_bytes(b"9 incident.opened {half")
    assert copy.read() is None


def test_without_a_runtime_folder_there_is_no_copy(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "not" / "there"):
        copy = HeldCopy(tmp_path / "j.db", folder)
        copy.write([JournalRecord(1, opened("a"))])
        assert copy.read() is None
    assert not list(tmp_path.iterdir())
