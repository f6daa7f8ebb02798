"""What only the journal on disk promises: a private file, few commits, nothing half done."""

import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.runs import RunRenamed
from hermes.core.events.tools import ToolApproved
from hermes.memory.journal.reading import StoreQueries, StoreReader
from hermes.memory.journal.sqlite_file import open_for_writing
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify

pytestmark = pytest.mark.anyio


def named(title: str | int) -> RunRenamed:
    return RunRenamed(run="r", title=str(title))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "journal.db"


async def everything(journal: SqliteJournal) -> list[Event | UnknownEvent]:
    return [recorded.event async for recorded in journal.read()]


async def test_a_new_home_is_private(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(named(1))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


async def test_events_are_there_after_closing_and_opening_again(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(named(1), named(2))
    async with SqliteJournal.open(path) as journal:
        assert await journal.append(named(3)) == range(3, 4)
        assert len(await everything(journal)) == 3
    assert verify(path).ok


async def test_appends_that_wait_together_share_one_commit(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(journal.append, named(number))
        log = path.with_name("journal.db-wal").stat().st_size
    # A commit of its own for each would write four pages of 4 KiB or more, two hundred times.
    assert log < 200 * 4096


async def test_closing_writes_what_was_appended_before(path: Path) -> None:
    async with SqliteJournal.open(path) as journal, anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(journal.append, named(number))
        await anyio.wait_all_tasks_blocked()
        await journal.close()
    assert verify(path).events == 30


async def test_a_closed_journal_says_so(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        pass
    with pytest.raises(StoreError, match="closed"):
        await journal.append(named(1))
    with pytest.raises(StoreError, match="closed"):
        await journal.last()
    await journal.close()


async def test_closing_ends_those_who_wait_for_a_change(path: Path) -> None:
    async with SqliteJournal.open(path) as journal, anyio.create_task_group() as group:

        async def wait() -> None:
            with pytest.raises(StoreError, match="closed"):
                await journal.changed(0)

        with anyio.fail_after(120):
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await journal.close()


async def test_a_cancelled_append_is_kept_whole_or_not_at_all(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        for number in range(60):
            with anyio.move_on_after(0.0001 * (number % 5)):
                await journal.append(*[named(number)] * 3)
        await journal.append(named("end"))
        titles = [event.title for event in await everything(journal)]  # type: ignore[union-attr]
    assert titles.pop() == "end"
    assert {titles.count(title) for title in titles} <= {3}
    assert verify(path).ok


async def test_no_thread_and_no_file_stays_open(path: Path) -> None:
    def writers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if "journal" in thread.name]

    async with SqliteJournal.open(path) as journal:
        with anyio.move_on_after(0.01):
            await journal.changed(0)
        await journal.append(named(1))
        assert writers() == ["journal-writer"]
    assert writers() == []
    assert not [name for name in open_files() if "journal.db" in name or "inotify" in name]


class CountingFile(apsw.VFSFile):
    def __init__(self, base: str, name: Any, flags: list[int], syncs: list[str]) -> None:
        super().__init__(base, name, flags)
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._syncs = syncs

    def xSync(self, flags: int) -> None:  # noqa: N802 - the name SQLite calls
        self._syncs.append(self._name)
        super().xSync(flags)


class CountingDisk(apsw.VFS):
    def __init__(self) -> None:
        self._base = apsw.vfs_names()[0]
        super().__init__("counting", self._base, makedefault=True)
        self.syncs: list[str] = []

    def xOpen(self, name: Any, flags: list[int]) -> CountingFile:  # noqa: N802 - as above
        return CountingFile(self._base, name, flags, self.syncs)


@contextmanager
def counting_disk() -> Iterator[CountingDisk]:
    disk = CountingDisk()
    try:
        yield disk
    finally:
        disk.unregister()


async def test_an_approval_is_on_the_disk_before_it_is_acknowledged(path: Path) -> None:
    with counting_disk() as disk:
        async with SqliteJournal.open(path) as journal:
            await journal.append(named("the log's first entry is always synced"))
            disk.syncs.clear()
            for number in range(10):
                await journal.append(named(number))
            assert disk.syncs == []
            await journal.append(ToolApproved(run="r", call_id="c", approved=True, by="me"))
            assert [Path(name).name for name in disk.syncs] == ["journal.db-wal"]
            disk.syncs.clear()
            await journal.append(named("as before"))
            assert disk.syncs == []


async def test_events_of_a_later_version_are_read_as_unknown(path: Path) -> None:
    body = '{"crew":3}'
    async with SqliteJournal.open(path) as journal:
        await journal.append(named(1))
        write(
            path,
            "INSERT INTO event(at,run,kind,digest,body) VALUES(0,'r','moon.landed',x'',?)",
            body,
        )
        (_, event) = await everything(journal)
    assert isinstance(event, UnknownEvent)
    assert (event.kind, event.body) == (
        "moon.landed",
        b'{"kind":"moon.landed","run":"r","at":"1970-01-01T00:00:00Z","crew":3}',
    )


@pytest.mark.parametrize(
    "damage",
    ["'{'", "'{}'", "'[]'", "''", "7", "CAST(x'7bff' AS TEXT)", "replace(body, 'title', 'x')"],
)
async def test_an_event_that_cannot_be_read_is_named_after_those_that_can(
    path: Path, damage: str
) -> None:
    seen = []
    async with SqliteJournal.open(path) as journal:
        await journal.append(*map(named, range(5)))
        write(path, f"UPDATE event SET body = {damage} WHERE seq = 4")
        with pytest.raises(StoreCorrupt, match=r"event 4 .*hermes journal salvage"):
            async for recorded in journal.read():
                seen.append(recorded.seq)
    assert seen == [1, 2, 3]


async def test_a_writer_that_never_lets_go_is_an_error_with_a_name(path: Path) -> None:
    async with SqliteJournal.open(path, timeout_s=0.1) as journal:
        await journal.append(named(1))
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"journal\.db locked"):
            await journal.append(named("lost"))
        assert len(await everything(journal)) == 1
        other.execute("ROLLBACK")
        other.close()
        assert await journal.append(named(2)) == range(2, 3)


async def test_what_goes_into_a_replaced_file_is_not_acknowledged(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(named(1))
        move_away(path)
        with pytest.raises(StoreError, match=r"journal\.db"):
            await journal.append(named(2))
        put_another_in_its_place(path)
        with pytest.raises(StoreError, match="replaced"):
            await journal.append(named(3))


def open_files() -> list[str]:
    found = []
    for link in Path("/proc/self/fd").glob("*"):
        with suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def move_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def put_another_in_its_place(path: Path) -> None:
    other = path.with_name("other.db")
    open_for_writing(other).close()
    other.rename(path)


def write(path: Path, sql: str, *values: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(sql, values)
    connection.close()


class CountedStore(StoreReader):
    """A store with a number of events, which counts the queries for it."""

    def __init__(self) -> None:
        super().__init__(StoreQueries(CountedStore.newest_event, *[CountedStore.newest_event] * 3))
        self.newest = self.queries = 0
        self.broken = False

    async def ask(self, question: Any) -> Any:
        await anyio.sleep(0.01)
        return question(self)

    def newest_event(self) -> int:
        self.queries += 1
        if self.broken:
            raise StoreError("broken")
        return self.newest


async def follow(reader: StoreReader, timeout_s: float = 0.1) -> None:
    while not await reader.wait_for_event_after(0, timeout_s):
        pass


async def test_all_who_wait_for_an_event_share_one_query() -> None:
    store = CountedStore()
    reader = store
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(follow, reader)
        await anyio.sleep(0.35)
        assert 2 <= store.queries <= 5
        store.newest = 1  # by a process that told nobody: the next poll finds it


async def test_a_query_that_failed_is_not_taken_for_an_answer() -> None:
    store = CountedStore()
    store.broken = True
    reader = store
    for _ in range(3):
        with pytest.raises(StoreError):
            await reader.wait_for_event_after(0, 60.0)


async def test_a_notification_leads_to_a_new_query_at_once() -> None:
    store = CountedStore()
    reader = store
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(follow, reader, 6000.0)
            await anyio.sleep(0.1)
            store.newest = 1
            reader.wake_waiters()
