"""What has filled a file system is found, cleared and put back; data of people is no suspect."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.declared.experiments.growth import find_deleted_files, find_growth
from hermes.declared.experiments.put_back import archive_script, find_targets
from hermes.declared.experiments.suspects import Suspect, growth_suspects
from hermes.declared.experiments.trial import Revert
from hermes.declared.revert import plan_revert
from hermes.declared.state import LENGTH, STAMP, Item, ItemId, State, StateChange
from hermes.declared.store import StateStore

SINCE = 1_700_000_000
OUTPUT = f"""\
file 9000000 {SINCE - 500}.000 /data/log/shop.log
file 8000000 {SINCE + 5}.120 /data/log/new.log
file 7000000 {SINCE - 500}.000 /data/log/unknown.log
file 6000000 {SINCE - 500}.000 /data/log/slow.log
file 5000000 {SINCE + 5}.000 /data/uploads/film.mp4
file 1000000 {SINCE + 5}.000 /dev/shm/frame-1
file 1000000 {SINCE + 5}.000 /dev/shm/taken
file 1000000 {SINCE - 5}.000 /dev/shm/older
used /dev/shm/taken
"""


def log_item(size: int) -> Item:
    return Item("", {"type": "file", "data": "yes", STAMP: f"{size}:1:2:3"})


async def listed(script: str, stdin: bytes) -> tuple[int, bytes]:
    assert f"@{SINCE}.000" in script
    return 0, OUTPUT.encode()


@pytest.mark.anyio
async def test_logs_that_grew_and_new_files_in_memory() -> None:
    sizes = {"/data/log/shop.log": 16, "/data/log/slow.log": 5_000_000}
    items = {ItemId("file", path): log_item(size) for path, size in sizes.items()}
    known = State(host="web", at=datetime.fromtimestamp(SINCE, UTC), items=items)
    found = {each.item.key: each for each in await find_growth(listed, known)}
    assert list(found) == ["/data/log/shop.log", "/data/log/new.log", "/dev/shm/frame-1"]
    before = found["/data/log/shop.log"].before
    assert before is not None
    assert before.attributes[LENGTH] == "16"
    assert found["/dev/shm/frame-1"].before is None


@pytest.mark.anyio
async def test_large_deleted_files_that_programs_hold_are_named() -> None:
    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        return 0, b"12582912 tracer /data/trace.log (deleted)\n4096 bash /tmp/x (deleted)\n"

    assert await find_deleted_files(run) == ["tracer holds 12 MB in /data/trace.log (deleted)"]


def grown(path: Path, length: int) -> StateChange:
    before, after = (
        Item("", {"type": "file", LENGTH: str(size)}) for size in (length, path.stat().st_size)
    )
    return StateChange(ItemId("file", str(path)), before, after)


def run(command: str) -> None:
    subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.command
def test_a_log_is_shortened_and_put_back(tmp_path: Path) -> None:
    store, log = StateStore(tmp_path / "states"), tmp_path / "shop.log"
    log.write_text("started\n" + "noise\n" * 1000)
    whole = log.read_text()
    plan = plan_revert(grown(log, 8), store, str(tmp_path))
    assert not plan.impossible
    for step in plan.steps:
        run(step.command)
    assert log.read_text() == "started\n"
    for step in reversed(plan.steps):
        run(step.undo)
    assert log.read_text() == whole


@pytest.mark.command
def test_on_a_copy_it_is_cut_off_where_it_ended(tmp_path: Path) -> None:
    store, log = StateStore(tmp_path / "states"), tmp_path / "shop.log"
    log.write_text("started\nnoise\n")
    suspect = Suspect(change=grown(log, 8))
    assert suspect.is_growth
    script, _ = archive_script(find_targets(Revert(suspect=suspect), store.content))
    run(script)
    assert log.read_text() == "started\n"


def test_many_files_in_one_folder_are_one_suspect() -> None:
    item = Item("", {"type": "file", LENGTH: "1000000"})
    changes = [StateChange(ItemId("file", f"/dev/shm/f-{n}"), None, item) for n in range(13)]
    found = growth_suspects(changes)
    assert [len(each.changes) for each in found] == [13]
    assert found[0].is_growth
