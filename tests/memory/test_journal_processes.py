"""Several processes share one journal, and any of them may die at any moment."""

import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.streams.text import TextReceiveStream

from hermes.core.bus import Bus
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from warm_interpreter import WarmInterpreter

TORTURE = Path(__file__).with_name("kill_torture.py")

ECHO = """
import sys
from pathlib import Path
import anyio
from hermes.core.bus import Bus
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.sqlite_journal import SqliteJournal

async def main():
    async with SqliteJournal.open(Path(sys.argv[1])) as journal:
        bus = Bus(journal)
        async for recorded in bus.follow(run="ping"):
            title = recorded.event.title
            await bus.publish(RunRenamed(run="pong", title=title))
            if title == "end":
                return

anyio.run(main)
"""


@pytest.mark.anyio
async def test_two_processes_follow_each_other_live(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    waits: list[float] = []
    async with SqliteJournal.open(path) as journal:
        bus = Bus(journal)
        with anyio.fail_after(120):
            async with await anyio.open_process(
                [sys.executable, "-c", ECHO, str(path)], stderr=None
            ) as other:
                answers = bus.follow(run="pong")
                for title in [*map(str, range(20)), "end"]:
                    asked = anyio.current_time()
                    await bus.publish(RunRenamed(run="ping", title=title))
                    answer = await anext(answers)
                    assert isinstance(answer.event, RunRenamed)
                    assert answer.event.title == title
                    waits.append(anyio.current_time() - asked)
                await other.wait()
    assert other.returncode == 0
    # Looking again every second would make all but the first of these last far longer.
    assert min(waits[1:]) < 0.3
    assert verify(path).ok


@pytest.mark.anyio
async def test_waiting_for_others_takes_no_processor_time(tmp_path: Path) -> None:
    watcher = """
import resource, sys
from pathlib import Path
import anyio
from hermes.memory.journal.sqlite_journal import SqliteJournal

async def main():
    async with SqliteJournal.open(Path(sys.argv[1])) as journal:
        with anyio.move_on_after(0.2):
            await journal.changed(0)
        print("ready", flush=True)
        before = resource.getrusage(resource.RUSAGE_SELF)
        with anyio.move_on_after(0.6):
            await journal.changed(0)
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, flush=True)

anyio.run(main)
"""
    command = [sys.executable, "-c", watcher, str(tmp_path / "journal.db")]
    with anyio.fail_after(120):
        async with await anyio.open_process(command, stderr=None) as process:
            assert process.stdout is not None
            text = "".join([piece async for piece in TextReceiveStream(process.stdout)])
    ready, used = text.split()
    assert ready == "ready"
    assert float(used) < 0.06


@pytest.mark.anyio
async def test_without_a_notice_from_the_kernel_a_change_is_still_found(tmp_path: Path) -> None:
    poller = """
import os, resource, sys
from pathlib import Path
import anyio
from hermes.memory.journal.sqlite_journal import CommitWatch, SqliteJournal

async def main():
    path = Path(sys.argv[1])
    async with SqliteJournal.open(path) as journal:
        await journal.last()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        try:
            while True:
                os.dup(0)
        except OSError:
            pass
        with CommitWatch(path, print) as watch:
            assert watch.poll_interval_s == 0.1, "the kernel gave a descriptor beyond the limit"
        print("ready", flush=True)
        await journal.changed(0)

anyio.run(main)
"""
    path = tmp_path / "journal.db"
    command = [sys.executable, "-c", poller, str(path)]
    with anyio.fail_after(120):
        async with (
            SqliteJournal.open(path) as journal,
            await anyio.open_process(command, stderr=None) as process,
        ):
            assert process.stdout is not None
            assert (await TextReceiveStream(process.stdout).receive()).strip() == "ready"
            await journal.append(RunRenamed(run="r", title="t"))
            assert await process.wait() == 0


def test_processes_started_at_once_on_a_new_home_all_get_their_turn(
    tmp_path: Path, store_processes: WarmInterpreter
) -> None:
    path = tmp_path / "home" / "journal.db"
    start = store_processes.start
    writers = [start("write", str(path), f"writer {number}") for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    report = verify(path)
    assert (report.events, report.problems) == (400, ())


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TORTURE), str(tmp_path), "300"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdict = msgspec.json.decode(done.stdout)
    assert verdict["acknowledged"] > 1000
    expected = {"kills": 300, "lost": 0, "doubled": 0, "torn": 0, "verified": True}
    assert verdict | expected == verdict, verdict
