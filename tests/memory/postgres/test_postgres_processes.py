"""Several processes share one database, and any of them may die at any moment."""

import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest
from real_postgres import Server

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.verification import verify
from hermes.memory.postgres.journal import PostgresJournal
from warm_interpreter import WarmInterpreter

TORTURE = Path(__file__).parent.with_name("kill_torture.py")

ECHO = """
import sys
import anyio
from hermes.core.bus import Bus
from hermes.core.events.runs import RunRenamed
from hermes.memory.store import open_journal

async def main():
    async with open_journal(sys.argv[1]) as journal:
        bus = Bus(journal)
        async for recorded in bus.follow(run="ping"):
            title = recorded.event.title
            await bus.publish(RunRenamed(run="pong", title=title))
            if title == "end":
                return

anyio.run(main)
"""

HOLD = """
import sys
import anyio
from hermes.memory.postgres.journal import PostgresJournal

async def main():
    async with PostgresJournal.open(sys.argv[1]) as journal:
        assert await journal.claim(sys.argv[2]) == ""
        print("held", flush=True)
        await anyio.sleep(60)

anyio.run(main)
"""


def test_eight_processes_started_at_once_on_an_empty_database_lose_nothing(
    database: str, store_processes: WarmInterpreter
) -> None:
    start = store_processes.start
    writers = [start("write", database, f"writer {number}") for number in range(8)]
    assert [writer.wait(60) for writer in writers] == [0] * 8
    report = verify(database)
    assert (report.events, report.last, report.problems) == (800, 800, ())


def test_a_killed_writer_loses_nothing_it_acknowledged(database: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TORTURE), database, "25"],
        capture_output=True,
        text=True,
        timeout=600,  # only a hang takes that long, also on a busy machine
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdict = msgspec.json.decode(done.stdout)
    assert verdict["acknowledged"] > 100
    expected = {"kills": 25, "lost": 0, "doubled": 0, "torn": 0, "verified": True}
    assert verdict | expected == verdict, verdict


class NotifiedPostgresJournal(PostgresJournal):
    """Polls once an hour: only a notification tells it of a commit in another process."""

    async def wait_for_event_after(self, after: int, timeout_s: float) -> bool:
        return await super().wait_for_event_after(after, 3600.0)


@pytest.mark.anyio
async def test_two_processes_follow_each_other_live(database: str) -> None:
    async with NotifiedPostgresJournal.open(database) as journal:
        bus = Bus(journal)
        with anyio.fail_after(120):
            async with await anyio.open_process(
                [sys.executable, "-c", ECHO, database], stderr=None
            ) as other:
                answers = bus.follow(run="pong")
                for title in [*map(str, range(20)), "end"]:
                    await bus.publish(RunRenamed(run="ping", title=title))
                    answer = await anext(answers)
                    assert isinstance(answer.event, RunRenamed)
                    assert answer.event.title == title
                await other.wait()
    assert other.returncode == 0


@pytest.mark.anyio
async def test_a_run_belongs_to_one_process_until_that_one_dies(database: str) -> None:
    async with PostgresJournal.open(database) as journal:
        with anyio.fail_after(120):
            command = [sys.executable, "-c", HOLD, database, "run-1"]
            async with await anyio.open_process(command, stderr=None) as other:
                assert other.stdout is not None
                assert (await other.stdout.receive()).strip() == b"held"
                assert str(other.pid) in await journal.claim("run-1")
                assert await journal.claim("run-2") == ""
                other.kill()
                await other.wait()
            for _ in range(1000):  # the server sees the end of it a moment later
                if await journal.claim("run-1") == "":
                    break
                await anyio.sleep(0.01)
            else:
                pytest.fail("the run still belongs to a dead process")


@pytest.mark.anyio
async def test_a_run_that_another_took_while_the_server_was_away_cannot_be_written(
    own_server: Server,
) -> None:
    url = own_server.url()
    async with PostgresJournal.open(url) as first, PostgresJournal.open(url) as second:
        assert await first.claim("run-1") == ""
        assert await first.claim("run-2") == ""
        own_server.kill()
        own_server.start()
        assert await second.claim("run-1") == ""
        with pytest.raises(StoreError, match="another process took over run-1"):
            await first.append(RunRenamed(run="run-1/2", title="too late"))
        assert await first.append(RunRenamed(run="run-2", title="mine")) == range(1, 2)
        assert "run-2" not in await second.claim("run-3")
        assert await second.claim("run-2") != ""
