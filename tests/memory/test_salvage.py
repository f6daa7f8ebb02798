"""Whatever happened to the file, every event that can still be read is saved."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import anyio
import apsw
import pytest

from hermes.core.errors import StoreError
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, RunDeleted
from hermes.core.messages import Message
from hermes.memory.journal.maintenance import compact
from hermes.memory.journal.reading import BODY_SQL
from hermes.memory.journal.recovery import SalvageResult, salvage
from hermes.memory.journal.rows import row_from_event
from hermes.memory.journal.sqlite_file import connect, open_for_writing
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.memory.journal.writer import insert_rows

EVENTS = 400


def text_of(number: int) -> str:
    """Of every length: within a page, over one overflow page, over many."""
    chance = random.Random(number)
    return f"{number} " + chance.randbytes(chance.choice([1, 100, 2500, 25000])).hex()


def said(number: int) -> MessageAdded:
    return MessageAdded(run="r", message=Message(role="user", text=text_of(number)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "journal.db"
    append(file, *map(said, range(1, EVENTS + 1)))
    return file


def append(path: Path, *events: Event) -> list[int]:
    async def work() -> list[int]:
        async with SqliteJournal.open(path) as journal:
            return list(await journal.append(*events))

    return anyio.run(work)


def texts(path: Path) -> dict[int, str]:
    async def work() -> dict[int, str]:
        async with SqliteJournal.open(path) as journal:
            return {
                recorded.seq: recorded.event.message.text
                async for recorded in journal.read()
                if isinstance(recorded.event, MessageAdded)
            }

    return anyio.run(work)


def missing(report: SalvageResult) -> set[int]:
    return {seq for first, last in report.lost for seq in range(first, last + 1)}


def whole(path: Path) -> None:
    pass


def smashed_header(path: Path) -> None:
    path.write_bytes(os.urandom(4096) + path.read_bytes()[4096:])


def lost_tables(path: Path) -> None:
    """The page of the schema and the tops of all trees."""
    path.write_bytes(bytes(6 * 4096) + path.read_bytes()[6 * 4096 :])


def holes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in random.Random(7).sample(range(1, len(data) // 4096), 10):
        data[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
    path.write_bytes(data)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 777)


@pytest.mark.parametrize(
    ("harm", "least"),
    [(whole, 400), (smashed_header, 399), (lost_tables, 350), (holes, 300), (cut_in_half, 100)],
)
def test_every_readable_event_moves_to_a_new_file_under_its_own_number(
    path: Path, harm: Callable[[Path], None], least: int
) -> None:
    harm(path)
    damaged = path.read_bytes()
    report = salvage(path)
    assert report.saved >= least
    assert Path(report.original).read_bytes() == damaged
    assert report.original != report.into == str(path)
    kept = texts(path)
    assert kept == {seq: text_of(seq) for seq in kept}
    assert kept.keys() == set(range(1, EVENTS + 1)) - missing(report) or harm is cut_in_half
    assert len(kept) == report.saved
    assert report.doubtful == ()
    after = verify(path)
    assert (after.problems, after.gaps) == ((), report.lost)


def test_a_salvaged_journal_goes_on_and_gives_no_number_twice(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA secure_delete=ON")  # else they are found in the free pages
    connection.execute("DELETE FROM event WHERE seq > 390 OR seq = 7")
    connection.close()
    report = salvage(path)
    assert report.lost == ((7, 7), (391, 400))
    assert append(path, said(401)) == [401]
    assert verify(path).problems == ()


def test_what_is_only_in_the_log_is_saved_too(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "journal.db"
    copy.parent.mkdir()
    connection = open_for_writing(path)
    insert_rows(connection, [row_from_event(said(number)) for number in range(401, 411)])
    for name in ("journal.db", "journal.db-wal"):  # as a crash would leave them
        (copy.parent / name).write_bytes((path.parent / name).read_bytes())
    connection.close()
    os.truncate(copy, 0)
    report = salvage(copy)
    kept = texts(copy)
    assert set(range(401, 411)) <= kept.keys()
    assert report.saved == len(kept)
    assert Path(report.original + "-wal").exists()


def test_an_altered_text_is_kept_and_named(path: Path) -> None:
    connection = connect(path)
    connection.execute(
        f"UPDATE event SET body = replace(CAST({BODY_SQL} AS TEXT), 'user', 'tool') WHERE seq = 9"
    )
    connection.close()
    report = salvage(path)
    assert (report.saved, report.doubtful) == (EVENTS, (9,))


def test_purged_texts_stay_purged(path: Path) -> None:
    append(path, RunDeleted(run="r"))
    compact(path)
    report = salvage(path)
    assert (report.saved, report.lost, report.doubtful) == (EVENTS + 1, (), ())
    assert (texts(path)) == {}
    assert verify(path).problems == ()


def test_saving_into_another_file_leaves_the_original_where_it_is(path: Path) -> None:
    before = path.read_bytes()
    report = salvage(path, path.with_name("saved.db"))
    assert (report.original, path.read_bytes()) == (str(path), before)
    assert verify(path.with_name("saved.db")).events == EVENTS
    with pytest.raises(StoreError, match="there already"):
        salvage(path, path.with_name("saved.db"))


def test_a_journal_in_use_is_not_swapped_under_its_users(path: Path) -> None:
    user = open_for_writing(path)
    with pytest.raises(StoreError, match="locked"):
        salvage(path)
    assert insert_rows(user, [row_from_event(said(401))]) == 401
    user.close()
    assert verify(path).events == 401


def test_nothing_to_salvage_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no journal at"):
        salvage(tmp_path / "journal.db")


def test_a_file_of_noise_gives_an_empty_journal_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    noise = random.Random(3)
    path.write_bytes(b"".join(b"\x0d" + noise.randbytes(4095) for _ in range(50)))
    assert salvage(path).saved == 0
    assert verify(path).problems == ()
