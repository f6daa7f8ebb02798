"""A full disk, a damaged file, a home that cannot be written: told clearly, and nothing is lost."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import apsw
import pytest

from hermes.core.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from hermes.core.events.runs import MessageAdded, RunRenamed
from hermes.core.messages import Message
from hermes.memory.journal.rows import row_from_event
from hermes.memory.journal.sqlite_file import check_wal, open_for_writing
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.memory.journal.writer import SqliteWriter

pytestmark = pytest.mark.anyio


def said(text: str) -> MessageAdded:
    return MessageAdded(run="r", message=Message(role="user", text=text))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs more rights than this process has")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_keeps_what_was_acknowledged_and_recovers(small_disk: Path) -> None:
    path = small_disk / "journal.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    acknowledged = 0
    async with SqliteJournal.open(path) as journal:
        with pytest.raises(StoreFull, match=r"no space left for the journal .*journal\.db"):
            while True:
                await journal.append(said("x" * 20_000))
                acknowledged += 1
        assert acknowledged > 5
        assert len([1 async for _ in journal.read()]) == acknowledged
        with pytest.raises(StoreFull):
            await journal.append(said("x" * 200_000))
        ballast.unlink()
        assert await journal.append(said("again")) == range(acknowledged + 1, acknowledged + 2)
    report = verify(path)
    assert (report.events, report.problems) == (acknowledged + 1, ())


async def test_a_disk_that_is_full_from_the_start_is_told_as_such(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 65536)
            file.flush()
    with pytest.raises(StoreFull):
        async with SqliteJournal.open(small_disk / "journal.db") as journal:
            await journal.append(said("x"))
    ballast.unlink()
    async with SqliteJournal.open(small_disk / "journal.db") as journal:
        assert await journal.append(said("x")) == range(1, 2)


async def test_a_journal_on_a_read_only_disk_can_be_asked_and_not_added_to(
    small_disk: Path,
) -> None:
    path = small_disk / "journal.db"
    async with SqliteJournal.open(path) as journal:
        await journal.append(RunRenamed(run="r", title="kept"))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)  # noqa: ASYNC221
    with pytest.raises(StoreReadOnly, match="cannot be written"):
        async with SqliteJournal.open(path):
            pass
    async with SqliteJournal.open(path, or_read_only=True) as journal:
        assert [each.event.run async for each in journal.read()] == ["r"]
        with pytest.raises(StoreReadOnly):
            await journal.append(RunRenamed(run="r", title="lost"))


async def test_a_full_file_fails_one_write_and_takes_the_next(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection = open_for_writing(path)
    connection.pragma("max_page_count", connection.pragma("page_count") + 20)
    writer = SqliteWriter(connection, path, lambda newest: None)
    try:
        with pytest.raises(StoreFull):
            await writer.submit([row_from_event(said(os.urandom(250_000).hex()))])
        assert await writer.submit([row_from_event(said("small"))]) == range(1, 2)
    finally:
        await anyio.to_thread.run_sync(writer.stop)
    assert verify(tmp_path / "journal.db").events == 1


async def filled(path: Path) -> None:
    async with SqliteJournal.open(path) as journal:
        await journal.append(*(said(f"{number} " * 300) for number in range(300)))


def smash_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 10 + path.read_bytes()[210:])


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_inside_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 1000)


def lose_all_but_the_log(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"x" * 9000)
    os.truncate(path, 0)


@pytest.mark.parametrize(
    "harm", [smash_header, cut_in_half, cut_inside_a_page, lose_all_but_the_log]
)
async def test_a_damaged_file_is_refused_with_the_commands_that_help(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    harm(path)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"hermes journal verify.*hermes journal salvage"):
        async with SqliteJournal.open(path):
            pass
    assert path.read_bytes() == before


async def test_damage_in_the_middle_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 3 * 4096] = b"\xff" * 3 * 4096
    path.write_bytes(data)
    async with SqliteJournal.open(path) as journal:
        with pytest.raises(StoreCorrupt, match="hermes journal salvage"):
            async for _ in journal.read():
                pass


async def test_a_file_of_a_later_version_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await filled(path)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="version 99"):
        async with SqliteJournal.open(path):
            pass
    assert path.read_bytes() == before


async def test_a_writer_stops_when_a_later_version_takes_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with SqliteJournal.open(path) as journal:
        await journal.append(said("x"))
        connection = apsw.Connection(str(path))
        connection.pragma("user_version", 99)
        connection.close()
        with pytest.raises(StoreTooNew):
            await journal.append(said("y"))


async def test_a_database_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs(x)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        async with SqliteJournal.open(path):
            pass


async def test_a_home_below_a_file_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("I am a file")
    path = tmp_path / "home" / "journal.db"
    with pytest.raises(StoreError, match=r"home.journal\.db.*(Not a directory|File exists)"):
        async with SqliteJournal.open(path):
            pass


OPEN = """
import os, sys
from pathlib import Path
import anyio
from hermes.core.errors import StoreError
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.sqlite_journal import SqliteJournal

async def main():
    try:
        async with SqliteJournal.open(Path(sys.argv[1])) as journal:
            await journal.append(RunRenamed(run="r", title="t"))
    except StoreError as error:
        print(type(error).__name__, error)

if os.geteuid() == 0:
    os.setuid(65534)
anyio.run(main)
"""


@pytest.mark.parametrize("there", [True, False])
async def test_a_home_that_cannot_be_written_is_named_with_the_reason(
    tmp_path: Path, there: bool
) -> None:
    path = tmp_path / "home" / "journal.db"
    if there:
        async with SqliteJournal.open(path) as journal:
            await journal.append(RunRenamed(run="r", title="t"))
        path.chmod(0o444)
    else:
        path.parent.mkdir()
    path.parent.chmod(0o555)
    for folder in path.parent.parents:  # so that another user gets that far
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to(tmp_path.parent.parent):
            folder.chmod(folder.stat().st_mode | 0o055)
    command = [sys.executable, "-c", OPEN, str(path)]
    done = await anyio.run_process(command, check=False, stderr=None)
    path.parent.chmod(0o755)
    kind = "StoreReadOnly" if there else "StoreError"
    assert done.stdout.decode().startswith(f"{kind} the journal {path} cannot be")
    advice = "see its permissions" if there else "set HERMES_HOME to a folder of yours"
    assert advice in done.stdout.decode()


def test_a_log_that_another_process_removes_while_it_is_checked_is_no_fault(tmp_path: Path) -> None:
    path, wal = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    path.write_text("a journal")
    rewrite = "import pathlib, sys\nfile = pathlib.Path(sys.argv[1])\nprint(flush=True)\n"
    rewrite += "while True:\n    file.write_text('a log')\n    file.unlink()\n"
    argv = [sys.executable, "-c", rewrite, str(wal)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        try:
            for _ in range(5000):
                check_wal(path)
        finally:
            other.kill()
