"""The journal of the watch while its file cannot be written, on real small filesystems."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from hermes.core.bus import Bus
from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.events import Event
from hermes.core.events.incidents import AlertRaised, ChangeBegan, IncidentOpened
from hermes.core.events.operations import HealthChecked, JournalResumed, NotificationQueued
from hermes.core.events.runs import RunRenamed
from hermes.core.events.tools import ToolStarted
from hermes.core.messages import Risk
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.memory.journal.disk import MIB, DiskReserve
from hermes.memory.journal.held_events import HeldEvents
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from small_disk import breakable_disk, fail, fill, mount, read_only, repair, small_disk, unmount

pytestmark = pytest.mark.anyio

LONG = "x" * 20_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", size="12m") as folder:
        yield folder


def nearly_full(disk: Path) -> Path:
    """The file to remove when there should be space again."""
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 10 * MIB)
    return ballast


def named(title: object) -> RunRenamed:
    return RunRenamed(run="r", title=str(title))


def change() -> ChangeBegan:
    return ChangeBegan(run="i", incident="i", call_id="c", command="rm x", undo="", by="p")


async def stored(path: Path) -> list[Event]:
    async with SqliteJournal.open(path) as journal:
        return [each.event async for each in journal.read()]  # type: ignore[misc]


def titles(events: list[Event]) -> list[str]:
    return [each.title for each in events if isinstance(each, RunRenamed)]


def kinds(events: list[Event]) -> list[str]:
    return [each.kind for each in events if not isinstance(each, RunRenamed)]


async def until_full(journal: BufferedJournal) -> int:
    """Append until the journal is interrupted; returns how many were appended."""
    count = 0
    while journal.outage is None:
        count += 1
        await journal.append(named(f"{count}:{LONG}"))
    return count


async def test_on_a_full_disk_events_are_held_and_appended_in_order_when_there_is_space(
    disk: Path,
) -> None:
    path, ballast = disk / "journal.db", nearly_full(disk)
    async with BufferedJournal.open(path) as journal:
        count = await until_full(journal)
        assert journal.outage is not None
        assert "no space left" in journal.outage.reason
        numbers = [(await journal.append(named(f"{count + n}:")))[0] for n in (1, 2, 3)]
        assert numbers == list(range(numbers[0], numbers[0] + 3))
        assert await journal.last() == numbers[-1]
        assert not await journal.retry_write()
        ballast.unlink()
        assert await journal.retry_write()
        assert not journal.rebuild_needed.is_set()
        assert list(await journal.append(named(f"{count + 4}:"))) == [numbers[-1] + 2]
    events = await stored(path)
    assert [title.partition(":")[0] for title in titles(events)] == [
        str(n) for n in range(1, count + 5)
    ]
    assert kinds(events) == ["journal.interrupted", "journal.resumed"]
    assert [each.held for each in events if isinstance(each, JournalResumed)] == [5]
    assert verify(path).problems == ()


async def test_a_follower_sees_every_event_exactly_once_across_an_outage(disk: Path) -> None:
    path, ballast = disk / "journal.db", nearly_full(disk)
    seen: list[JournalRecord] = []
    all_seen = anyio.Event()

    async def follow(bus: Bus) -> None:
        async for recorded in bus.follow():
            seen.append(recorded)
            if len(seen) == 302:
                all_seen.set()

    async with BufferedJournal.open(path) as journal, anyio.create_task_group() as group:
        bus = Bus(journal)
        group.start_soon(follow, bus)
        for n in range(300):
            await bus.publish(named(f"{n}:{LONG[: 20_000 if n < 150 else 10]}"))
            if n == 200:
                assert journal.outage is not None
                ballast.unlink()
                assert await journal.retry_write()
        with anyio.fail_after(120):
            await all_seen.wait()
        group.cancel_scope.cancel()
    assert [each.seq for each in seen] == list(range(1, 303))
    assert [each.event for each in seen] == await stored(path)


async def test_the_reserve_keeps_the_journal_going_and_lets_changes_be_recorded(
    disk: Path,
) -> None:
    reserve = DiskReserve(disk / "reserve", size_bytes=16 * MIB)
    assert reserve.ensure()
    assert reserve.left_bytes == 12 * MIB // 8
    assert reserve.path.stat().st_blocks * 512 >= reserve.left_bytes
    path = disk / "journal.db"
    async with BufferedJournal.open(path, reserve=reserve) as journal:
        await journal.append(named("before"))
        ballast = fill(disk)
        await journal.append(named(os.urandom(50_000).hex()))
        await journal.append(change())
        assert journal.outage is None
        assert 0 < reserve.left_bytes < 12 * MIB // 8
        await journal.restore_reserve()
        await journal.restore_reserve()
        ballast.unlink()
        await journal.restore_reserve()
        assert reserve.left_bytes == 12 * MIB // 8
    assert kinds(await stored(path)) == ["change.began", "reserve.released", "reserve.restored"]
    assert verify(path).problems == ()


async def test_when_the_reserve_is_used_up_changes_are_refused_and_looking_is_not(
    disk: Path,
) -> None:
    reserve = DiskReserve(disk / "reserve", size_bytes=16 * MIB)
    reserve.ensure()
    async with BufferedJournal.open(disk / "journal.db", reserve=reserve) as journal:
        ballast = fill(disk)
        await until_full(journal)
        assert reserve.left_bytes == 0
        look = ToolStarted(run="i", call_id="a", risk=Risk.CHANGE, effects=("read",))
        await journal.append(look)
        for refused in (
            change(),
            ToolStarted(run="i", call_id="b", risk=Risk.CHANGE),
            ToolStarted(run="i", call_id="b", risk=Risk.CHANGE, effects=("read", "write")),
        ):
            with pytest.raises(StoreError, match="no change is made while the journal cannot"):
                await journal.append(named("with it"), refused)
        ballast.unlink()
        assert await journal.retry_write()
        await journal.append(change())
    events = await stored(disk / "journal.db")
    assert "with it" not in titles(events)
    assert events.count(look) == 1


async def test_a_filesystem_that_fails_is_let_go_so_that_it_can_be_repaired(
    tmp_path: Path,
) -> None:
    folder, image = tmp_path / "disk", tmp_path / "image"
    with breakable_disk(folder, image):
        path = folder / "home" / "journal.db"
        async with BufferedJournal.open(path) as journal:
            await journal.append(named(1), named(2))
            fail(folder)
            await journal.append(named(3))
            assert journal.outage is not None
            assert not await journal.retry_write()
            await journal.append(named(4))
            assert [each async for each in journal.read(after=2)][-1].event == named_like(4)
            repair(folder, image)
            assert await journal.retry_write()
            await journal.append(named(5))
        events = await stored(path)
        assert titles(events) == ["1", "2", "3", "4", "5"]
        assert verify(path).problems == ()


class named_like:  # noqa: N801 - reads as what it stands for
    def __init__(self, title: object) -> None:
        self._title = str(title)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunRenamed) and other.title == self._title


async def test_a_read_only_filesystem_is_noticed_although_nobody_writes(disk: Path) -> None:
    async with BufferedJournal.open(disk / "journal.db") as journal:
        await journal.append(named(1))
        await journal.check()
        assert journal.outage is None
        with read_only(disk):
            await journal.check()
            assert journal.outage is not None
            assert "read-only" in journal.outage.reason
            await journal.append(named(2))
            assert not await journal.retry_write()
        assert await journal.retry_write()
        assert not journal.rebuild_needed.is_set()
    assert titles(await stored(disk / "journal.db")) == ["1", "2"]


async def test_a_removed_home_is_made_again_with_what_was_held(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with BufferedJournal.open(home / "journal.db") as journal:
        await journal.append(named(1))
        shutil.rmtree(home)
        await journal.append(named(2))
        assert journal.outage is not None
        await journal.append(named(3))
        assert [each.seq async for each in journal.read(after=1)] == [2, 3, 4]
        assert await journal.retry_write()
        assert not journal.rebuild_needed.is_set()
    events = await stored(home / "journal.db")
    assert titles(events) == ["1", "2", "3"]
    assert [each.again for each in events if isinstance(each, JournalResumed)] == [1]
    assert verify(home / "journal.db").problems == ()


async def test_a_home_that_lost_its_long_history_has_readers_begin_anew(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with SqliteJournal.open(home / "journal.db") as before:
        await before.append(*map(named, range(5)))
    async with BufferedJournal.open(home / "journal.db") as journal:
        await journal.append(named("seen"))
        shutil.rmtree(home)
        await journal.append(named("held"))
        assert await journal.retry_write()
        assert journal.rebuild_needed.is_set()
    assert titles(await stored(home / "journal.db")) == ["held"]
    assert verify(home / "journal.db").problems == ()


async def test_an_unmounted_home_is_waited_for_and_nothing_is_written_twice(
    tmp_path: Path,
) -> None:
    folder, image = tmp_path / "disk", tmp_path / "image"
    with breakable_disk(folder, image):
        async with BufferedJournal.open(folder / "journal.db") as journal:
            await journal.append(named(1))
            unmount(folder)
            await journal.append(named(2))  # it reaches the file, but nobody can say so
            assert journal.outage is not None
            await journal.append(named(3))
            assert not await journal.retry_write()
            assert not (folder / "journal.db").exists()
            assert "mount" in journal.outage.reason
            mount("-o", "loop", str(image), str(folder))
            assert await journal.retry_write()
        assert titles(await stored(folder / "journal.db")) == ["1", "2", "3"]
        assert verify(folder / "journal.db").problems == ()


async def test_an_old_connection_leaves_the_log_of_a_new_journal_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "journal.db"
    old = await SqliteJournal.open_unmanaged(path)
    await old.append(named("old"))
    path.parent.rename(tmp_path / "moved")
    async with SqliteJournal.open(path) as new:
        await new.append(named("new"))
        await old.close()
        await new.append(named("newer"))
        assert path.with_name("journal.db-wal").exists()
    assert titles(await stored(path)) == ["new", "newer"]


async def test_a_journal_that_begins_on_a_full_disk_keeps_its_history_and_its_references(
    disk: Path,
) -> None:
    path = disk / "journal.db"
    async with SqliteJournal.open(path) as before:
        await before.append(named("old"), named("older"))
    ballast = fill(disk)
    async with BufferedJournal.open(path) as journal:
        assert journal.outage is not None
        (alert,) = await journal.append(AlertRaised(run="watch", fingerprint="f", title="t"))
        (opened,) = await journal.append(
            IncidentOpened(run="i", incident="i", title="t", severity="P1", alerts=(alert,))
        )
        await journal.append(
            NotificationQueued(run="i", notice=f"i:declared:{opened}", about="declared", title="t")
        )
        ballast.unlink()
        assert await journal.retry_write()
        assert journal.rebuild_needed.is_set()
    async with SqliteJournal.open(path) as after:
        records = [each async for each in after.read()]
    by_kind = {each.event.kind: each for each in records}
    incident = by_kind["incident.opened"]
    assert incident.event.alerts == (by_kind["alert.raised"].seq,)  # type: ignore[union-attr]
    queued = by_kind["notice.queued"].event
    assert isinstance(queued, NotificationQueued)
    assert queued.notice == f"i:declared:{incident.seq}"


async def test_what_another_process_wrote_meanwhile_has_readers_begin_anew(disk: Path) -> None:
    path, ballast = disk / "journal.db", nearly_full(disk)
    async with BufferedJournal.open(path) as journal:
        await until_full(journal)
        async with SqliteJournal.open(path) as other:
            ballast.unlink()
            await other.append(named("from elsewhere"))
        assert await journal.retry_write()
        assert journal.rebuild_needed.is_set()
        with anyio.move_on_after(0.1) as waited:
            await journal.changed(0)
        assert waited.cancelled_caught
    assert titles(await stored(path)).count("from elsewhere") == 1


async def test_the_past_is_refused_while_it_cannot_be_read_and_a_new_run_is_not(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with SqliteJournal.open(home / "journal.db") as journal:
        await journal.append(named("by an earlier process"))
    async with BufferedJournal.open(home / "journal.db") as journal:
        await journal.append(mine := named(2))
        shutil.rmtree(home)
        await journal.check()
        opened = IncidentOpened(run="i", incident="i", title="t", severity="P1")
        await journal.append(opened)
        assert [each.event async for each in journal.read(run="i")] == [opened]
        assert [each.event async for each in journal.read(after=1, kinds=[mine.kind])] == [mine]
        with pytest.raises(StoreError, match="is gone"):
            [each async for each in journal.read(run="r")]
        with pytest.raises(StoreError, match="is gone"):
            [each async for each in journal.read(kinds=["run.renamed"])]


async def test_a_damaged_file_is_still_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreCorrupt):
        async with BufferedJournal.open(path):
            pass


async def test_concurrent_appends_around_a_full_disk_are_all_kept_once(disk: Path) -> None:
    path, ballast = disk / "journal.db", nearly_full(disk)
    given: list[int] = []

    async def write(journal: Journal, n: int) -> None:
        given.extend(await journal.append(named(f"{n}:{os.urandom(20_000).hex()}")))

    async with BufferedJournal.open(path) as journal:
        async with anyio.create_task_group() as group:
            for n in range(120):
                group.start_soon(write, journal, n)
        assert journal.outage is not None
        ballast.unlink()
        assert await journal.retry_write()
    assert len(set(given)) == 120
    found = titles(await stored(path))
    assert sorted(int(each.partition(":")[0]) for each in found) == list(range(120))


def test_memory_is_bounded_and_what_tells_the_story_is_dropped_last() -> None:
    held = HeldEvents(10, max_events=100)
    held.add([AlertRaised(run="watch", fingerprint="f", title="t")])
    now = datetime.now(UTC)
    for _ in range(1000):
        held.add([HealthChecked(run="watch", ok=True, at=now)])
    assert len(held.entries) <= 100
    assert held.dropped_events == 1001 - len(held.entries)
    assert held.entries[0].event.kind == "alert.raised"
    for n in range(300):
        held.add([AlertRaised(run="watch", fingerprint=str(n), title="t")])
    assert len(held.entries) <= 100
    assert held.last_seq == 10 + 1301
    assert all(each.event.kind == "alert.raised" for each in held.entries)
    assert held.entries[-1].seq == held.last_seq


def test_memory_is_bounded_by_size_as_well() -> None:
    held = HeldEvents(0, max_bytes=100_000)
    for n in range(50):
        held.add([named(f"{n}{LONG}")])
    assert sum(each.size_bytes for each in held.entries) <= 100_000
    assert held.dropped_events
