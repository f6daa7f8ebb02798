"""The index is a projection: it follows the journal, and whatever happens to it, it comes back."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from search_home import NOON, Home, came, said

from hermes.core.errors import StoreError
from hermes.core.events.memory import (
    FactConfirmed,
    FactEnded,
    FactForgotten,
    FactNoted,
    MessageForgotten,
)
from hermes.core.events.runs import RunDeleted
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.memory.search.session_search import INDEX_VERSION


def damage_head(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def damage_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2048] = os.urandom(2048)
    path.write_bytes(data)


def an_older_version(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA user_version={INDEX_VERSION + 7}")
    connection.close()


def of_somebody_else(path: Path) -> None:
    path.unlink()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE diary(words); PRAGMA user_version=3")
    connection.close()


def test_what_was_just_written_is_found_at_once(home: Home) -> None:
    home.write(said("one apple"))
    assert home.texts("apple") == ["one apple"]
    home.write(said("two apples"))
    assert set(home.texts("apple")) == {"one apple", "two apples"}


@pytest.mark.parametrize(
    "harm", [damage_head, damage_middle, an_older_version, of_somebody_else, Path.unlink]
)
def test_an_index_that_is_not_right_is_made_anew_and_says_so(home: Home, harm: object) -> None:
    home.write(*(said(f"apple number {n}") for n in range(500)))
    assert home.texts("apple", limit=1)
    home.past.close()
    harm(home.index)  # type: ignore[operator]
    home.reopen()
    assert home.texts("apple 499", limit=1) == ["apple number 499"]
    told = any("rebuilt" in notice for notice in home.past.notices)
    assert told or harm is Path.unlink
    home.reopen()
    assert home.texts("apple 499", limit=1) == ["apple number 499"]
    assert home.past.notices == ()


def test_an_index_of_another_journal_is_not_believed(home: Home, tmp_path: Path) -> None:
    home.write(said("apple"), said("pear"))
    assert home.texts("apple") == ["apple"]
    home.past.close()
    for file in tmp_path.glob("journal.db*"):
        file.unlink()
    home.write(said("plum"), said("cherry"))
    home.reopen()
    assert home.texts("apple") == []
    assert home.texts("plum") == ["plum"]


def test_without_a_journal_it_says_that_there_is_nothing(home: Home) -> None:
    with pytest.raises(StoreError, match="nothing can be found"):
        home.find("apple")


def test_deleted_runs_forgotten_messages_and_facts_leave_at_once(home: Home) -> None:
    fact = FactNoted(run="c", at=NOON, fact="f1", memory="semantic", text="apple of knowledge")
    numbers = home.write(said("apple one", run="a"), said("apple two", run="b"), fact)
    assert len(home.texts("apple")) == 3
    home.write(RunDeleted(run="a"), MessageForgotten(run="b", seq=numbers[1]))
    assert home.texts("apple") == ["apple of knowledge"]
    home.write(said("apple late", run="a"))
    assert home.texts("apple") == ["apple of knowledge"]
    home.write(FactForgotten(run="c", fact="f1"))
    assert home.texts("apple") == []
    home.past.rebuild()
    assert home.texts("apple") == []


def test_the_forgotten_is_no_neighbour_either(home: Home) -> None:
    numbers = home.write(said("secret plan"), said("apple"), said("end"))
    home.write(MessageForgotten(run="r", seq=numbers[0]))
    (hit,) = home.find("apple").hits
    assert hit.before is None
    assert hit.after is not None


@pytest.mark.anyio
async def test_recall_sees_confirmation_and_leaves_out_what_ended(tmp_path: Path) -> None:
    home = Home(tmp_path)
    notes = [
        FactNoted(run="c", at=NOON, fact=f"f{n}", memory="semantic", text=f"apple {n}")
        for n in range(2)
    ]
    async with SqliteJournal.open(home.journal) as journal:
        numbers = await journal.append(*notes)
        await journal.append(FactConfirmed(run="c", fact="f0", seen_at=NOON))
        await journal.append(FactEnded(run="c", fact="f1"))
    found = await home.past.matching(["apple"], session=None, limit=10)
    assert {hit.seq for hit in found} == set(numbers)
    (passage,) = await home.past.around(numbers, 0)
    assert (passage.text, passage.kind, passage.confirmed) == ("apple 0", "semantic", NOON)
    home.past.close()


def test_a_damaged_event_hides_only_itself(home: Home) -> None:
    home.write(*(said(f"apple {n}") for n in range(9)))
    connection = apsw.Connection(str(home.journal))
    connection.execute("UPDATE event SET body = '{' WHERE seq = 4")
    connection.close()
    assert len(home.texts("apple")) == 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs more rights than this process has")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.command
def test_a_home_that_cannot_be_written_is_searched_in_memory(small_disk: Path) -> None:
    home = Home(small_disk)
    home.write(said("apple one"))
    assert home.texts("apple") == ["apple one"]
    home.past.close()
    home.write(said("apple two"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    home.reopen()
    try:
        assert set(home.texts("apple")) == {"apple one", "apple two"}
        assert any("in memory" in notice for notice in home.past.notices)
    finally:
        home.past.close()


@pytest.mark.command
def test_a_full_disk_stops_neither_the_search_nor_the_journal(small_disk: Path) -> None:
    home = Home(small_disk)
    words = [f"apple w{number}x{number * 7919 % 100_003} " * 8 for number in range(2000)]
    home.write(*map(came, words))
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 16384)
            file.flush()
    try:
        assert len(home.texts("apple", limit=10)) == 10
        assert any("in memory" in notice for notice in home.past.notices)
        ballast.unlink()
        home.write(said("apple last"))
        home.reopen()
        assert home.texts("apple last", limit=1) == ["apple last"]
        assert home.past.notices == ()
        assert verify(home.journal).ok
    finally:
        home.past.close()
