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


class NotifiedJournal(SqliteJournal):
    """Polls once an hour: only a notification tells it of a commit in another process."""

    async def wait_for_event_after(self, after: int, timeout_s: float) -> bool:
        return await super().wait_for_event_after(after, 3600.0)


@pytest.mark.anyio
async def test_two_processes_follow_each_other_live(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with NotifiedJournal.open(path) as journal:
        bus = Bus(journal)
        with anyio.fail_after(120):
            async with await anyio.open_process(
                [sys.executable, "-c", ECHO, str(path)], stderr=None
            ) as other:
                answers = bus.follow(run="pong")
                for title in [*map(str, range(20)), "end"]:
                    await bus.publish(RunRenamed(run="ping", title=title))
                    answer = await anext(answers)
                    assert isinstance(answer.event, RunRenamed)
                    assert answer.event.title == title
                await other.wait()
    assert other.returncode == 0
    assert verify(path).ok


class CountingJournal(SqliteJournal):
    polls = 0

    async def wait_for_event_after(self, after: int, timeout_s: float) -> bool:
        self.polls += 1
        return await super().wait_for_event_after(after, timeout_s)


@pytest.mark.anyio
async def test_one_who_waits_for_others_polls_once_a_second_at_most(tmp_path: Path) -> None:
    async with CountingJournal.open(tmp_path / "journal.db") as journal:
        assert isinstance(journal, CountingJournal)
        began = anyio.current_time()
        with anyio.move_on_after(0.5):
            await journal.changed(0)
        assert journal.polls <= 2 + (anyio.current_time() - began)


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
        timeout=600,  # only a hang takes that long, also on a busy machine
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdict = msgspec.json.decode(done.stdout)
    assert verdict["acknowledged"] > 1000
    expected = {"kills": 300, "lost": 0, "doubled": 0, "torn": 0, "verified": True}
    assert verdict | expected == verdict, verdict
