"""Recording is killed at each of its file operations: nothing is lost, nothing happens twice."""

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes.core.events.changes import ChangeSeen
from hermes.declared.change_log import UNKNOWN_AUTHOR, ChangeAuthor
from hermes.declared.collectors.collect import CollectOptions, collect_local_state
from hermes.declared.recording import publish_changes, record_round
from hermes.declared.state import State, StateChange
from hermes.declared.store import StateStore, StoreLimits
from hermes.memory.journal.sqlite_journal import SqliteJournal

HOST = "web"
MIN_KILLS = 60
FILES = tuple(f"deep/{number}.conf" for number in range(17))
"""So many that none of them changes all the time: those are not reported."""


async def run_nothing(script: str, stdin: bytes) -> tuple[int, bytes]:
    return 0, b""


async def unknown_authors(
    changes: Sequence[StateChange], after: datetime, until: datetime
) -> Sequence[ChangeAuthor]:
    return [UNKNOWN_AUTHOR for _ in changes]


class Recorder:
    def __init__(self, folder: Path) -> None:
        self.root, self.folder = folder / "host", folder / "states"
        self.journal = folder / "journal.db"
        (self.root / "deep").mkdir(parents=True)

    def edit(self, number: int) -> None:
        path = self.root / FILES[number % len(FILES)]
        path.write_text(f"value = {number}\n")

    def store(self) -> StateStore:
        return StateStore(self.folder, StoreLimits(states=4, live_states=2))

    async def record(self) -> None:
        store = self.store()
        options = CollectOptions(host=HOST, roots=(str(self.root),), server_settings=False)

        async def collect(known: State | None) -> State:
            return await collect_local_state(run_nothing, known=known, store=store, options=options)

        async with SqliteJournal.open(self.journal) as journal:
            await record_round(collect, store, HOST, known_good=True, find_authors=unknown_authors)
            await publish_changes(store, journal, journal.append)

    async def events(self) -> list[ChangeSeen]:
        async with SqliteJournal.open(self.journal) as journal:
            records = [each async for each in journal.read(kinds=("change.seen",))]
        found = [each.event for each in records if isinstance(each.event, ChangeSeen)]
        return [each for each in found if each.item_kind == "file" and each.key.endswith(".conf")]


def record_and_die(recorder: Recorder, operation: int) -> bool:
    """Whether it was killed; otherwise it had fewer file operations."""
    child = os.fork()
    if child == 0:
        left = operation

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            writes = event in ("os.rename", "os.remove", "os.mkdir") or (
                event == "open"
                and isinstance(arguments[2], int)
                and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            )
            if not writes:
                return  # also the event of the kill itself
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            anyio.run(recorder.record)
        except BaseException:  # noqa: BLE001 - a child of a test must not run the other tests
            os.write(2, traceback.format_exc().encode())
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def check_store(recorder: Recorder) -> None:
    store = recorder.store()
    assert [each.damaged for each in store.stored_states() if each.damaged] == []
    assert store.damaged_content() == ()
    for source in ("live", "known-good"):
        state = store.latest(HOST, source)
        for id, item in (state.items if state else {}).items():
            if id.key.startswith(str(recorder.root)) and item.digest:
                assert store.content(item.digest) is not None, id
    for each in store.changes.all():
        for item in (each.change.before, each.change.after):
            if item is not None and item.digest and each.change.item.key.endswith(".conf"):
                assert store.content(item.digest) is not None, each.change.item


@pytest.mark.skipif(sys.platform != "linux", reason="the collector reads /proc")
def test_kills_at_every_file_operation_lose_and_repeat_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    for number in range(len(FILES)):
        recorder.edit(number)
    anyio.run(recorder.record)
    kills, number = 0, len(FILES)
    while kills < MIN_KILLS:
        operation = 0
        while kills < 4 * MIN_KILLS:
            number += 1
            recorder.edit(number)
            killed = record_and_die(recorder, operation)
            check_store(recorder)
            kills += killed
            operation += 1
            if not killed:
                break
    anyio.run(recorder.record)
    events = anyio.run(recorder.events)
    ids = [each.change for each in events]
    assert len(ids) == len(set(ids)), "a change was published twice"
    by_id = {each.id: each.change for each in recorder.store().changes.all()}
    for name in FILES:
        path = recorder.root / name
        chain = [by_id[each.change] for each in events if each.key == str(path)]
        assert chain
        for before, after in pairwise(chain):
            assert before.after is not None
            assert after.before is not None
            assert before.after.digest == after.before.digest, "a change is missing"
        assert chain[-1].after is not None
        assert recorder.store().content(chain[-1].after.digest) == path.read_bytes()
