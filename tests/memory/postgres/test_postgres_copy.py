"""A journal moves between file and database, may be killed on the way, and arrives whole."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import StoreError
from hermes.core.events.runs import MessageAdded, RunDeleted, RunStarted
from hermes.core.messages import Message
from hermes.memory.journal.maintenance import compact, export
from hermes.memory.journal.verification import verify
from hermes.memory.store import StoreLocation, open_journal
from hermes.memory.store_copy import copy_store
from warm_interpreter import WarmInterpreter

Ways = Callable[[], tuple[StoreLocation, StoreLocation]]


@pytest.fixture(params=["to the database", "to the file"])
def ways(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> tuple[StoreLocation, StoreLocation]:
    """Source and target."""
    file = tmp_path / "home" / "journal.db"
    return (file, database) if request.param == "to the database" else (database, file)


async def fill(place: StoreLocation, events: int, run: str = "r") -> None:
    async with open_journal(place) as journal:
        await journal.append(RunStarted(run=run, origin="cli", task="räksmörgås"))
        texts = (f"{number} \\ \x00 \U0001f990 " * 9 for number in range(events - 1))
        await journal.append(
            *(MessageAdded(run=run, message=Message(role="user", text=text)) for text in texts)
        )


def lines(place: StoreLocation) -> list[bytes]:
    return list(export(place))


def test_a_journal_arrives_whole_and_the_source_is_as_it_was(
    ways: tuple[StoreLocation, StoreLocation],
) -> None:
    here, there = ways
    anyio.run(fill, here, 1200)
    before = lines(here)
    told: list[tuple[int, int]] = []
    moved = copy_store(here, there, lambda safe, all_: told.append((safe, all_)))
    assert (moved.copied, moved.events, moved.last) == (1200, 1200, 1200)
    assert told[-1] == (1200, 1200)
    assert lines(there) == lines(here) == before
    assert verify(there).problems == ()
    anyio.run(fill, there, 3, "more")
    assert verify(there).last == 1203


def test_what_came_later_follows_and_nothing_is_copied_twice(
    ways: tuple[StoreLocation, StoreLocation],
) -> None:
    here, there = ways
    anyio.run(fill, here, 30)
    copy_store(here, there)
    anyio.run(fill, here, 20, "later")
    assert copy_store(here, there).copied == 20
    assert copy_store(here, there).copied == 0
    assert lines(there) == lines(here)


def test_there_and_back_again_is_the_same_journal(tmp_path: Path, database: str) -> None:
    here, back = tmp_path / "here.db", tmp_path / "back.db"
    anyio.run(fill, here, 300)
    first = copy_store(here, database)
    second = copy_store(database, back)
    assert first.digest == second.digest
    assert lines(back) == lines(here)


def test_texts_that_were_purged_stay_purged(ways: tuple[StoreLocation, StoreLocation]) -> None:
    async def delete(place: StoreLocation) -> None:
        async with open_journal(place) as journal:
            await journal.append(RunDeleted(run="r"))

    here, there = ways
    anyio.run(fill, here, 10)
    copy_store(here, there)
    anyio.run(delete, here)
    assert compact(here).purged == 10
    assert copy_store(here, there).purged == 10
    assert lines(there) == lines(here)
    assert not any(b"rgas" in line for line in lines(there))
    assert verify(there).problems == ()


def test_another_journal_is_never_overwritten(ways: tuple[StoreLocation, StoreLocation]) -> None:
    here, there = ways
    anyio.run(fill, here, 10)
    anyio.run(fill, there, 5, "other")
    kept = lines(there)
    with pytest.raises(StoreError, match=r"holds another journal \(5 events\)"):
        copy_store(here, there)
    assert lines(there) == kept


def test_a_target_that_was_used_since_is_left_alone(
    ways: tuple[StoreLocation, StoreLocation],
) -> None:
    here, there = ways
    anyio.run(fill, here, 10)
    copy_store(here, there)
    anyio.run(fill, there, 5, "used")
    with pytest.raises(StoreError, match="has been used since"):
        copy_store(here, there)
    assert copy_store(there, here).copied == 5


def test_a_source_that_is_not_there_is_told(tmp_path: Path, database: str) -> None:
    with pytest.raises(StoreError, match="there is no journal"):
        copy_store(tmp_path / "nothing.db", database)
    with pytest.raises(StoreError, match="there is no journal in"):
        copy_store(database + "?application_name=x", tmp_path / "file.db")
    with pytest.raises(StoreError, match="is the store already"):
        copy_store(database, database)


def test_a_move_killed_at_any_point_goes_on_and_arrives_whole(
    ways: tuple[StoreLocation, StoreLocation], store_processes: WarmInterpreter
) -> None:
    here, there = ways
    anyio.run(fill, here, 6000)
    chance = random.Random(11)
    killed = 0
    for _ in range(6):
        reading, writing = os.pipe()
        mover = store_processes.start("move", str(here), str(there), stdout=writing)
        os.close(writing)
        with os.fdopen(reading) as printed:
            printed.readline()  # the first page is safe
            time.sleep(chance.uniform(0, 0.08))
            os.kill(mover.pid, signal.SIGKILL)
            killed += mover.wait() != 0
    assert killed >= 2
    assert copy_store(here, there).events == 6000
    assert lines(there) == lines(here)
