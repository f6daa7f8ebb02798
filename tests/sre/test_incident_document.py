"""The report as a file: written once, whatever happens in between."""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from recorded_incident import RUN, resolved

from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentReopened, ReportWritten
from hermes.core.protocols import Journal
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.reports.report_file import write_report_file
from warm_interpreter import WarmInterpreter, WarmProcess, warm_interpreter

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
TORTURE = HERE / "report_torture.py"
KILLS = 12


async def said(journal: Journal) -> list[ReportWritten]:
    found = [each.event async for each in journal.read(kinds=("report.written",))]
    return [event for event in found if isinstance(event, ReportWritten)]


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def whole(file: Path) -> bool:
    return file.read_text().endswith("- Outcome: resolved\n")


async def test_the_file_and_the_event_say_the_same(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    path = await write_report_file(journal, Bus(journal), RUN, tmp_path / "incidents")
    assert path is not None
    assert path.name == "20260306-235802-disk-of-web-1-is-full-4f2a1c.md"
    (event,) = await said(journal)
    assert event.path == f"incidents/{path.name}" and event.text == path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert names(path.parent) == [".lock", path.name]


async def test_it_is_told_beside_the_loop(tmp_path: Path) -> None:
    threads: set[str] = set()

    class Overheard(str):
        """A command that knows where it is read."""

        __slots__ = ()

        def __getitem__(self, part: Any) -> str:
            threads.add(threading.current_thread().name)
            return super().__getitem__(part)

    recorder, journal = resolved(), InMemoryJournal()
    recorder.ran("c9", Overheard("systemctl restart web"), undo="true", attempt=2)
    await recorder.save(journal)
    path = await write_report_file(journal, Bus(journal), RUN, tmp_path)
    assert path is not None and "systemctl restart web" in path.read_text()
    assert threads and threading.main_thread().name not in threads


async def test_it_is_written_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    bus = Bus(journal)
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(write_report_file, journal, bus, RUN, tmp_path)
    assert len(await said(journal)) == 1


async def test_a_file_that_somebody_deleted_comes_back_as_it_was(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    path = await write_report_file(journal, Bus(journal), RUN, tmp_path)
    assert path is not None
    before = path.read_text()
    path.unlink()
    assert await write_report_file(journal, Bus(journal), RUN, tmp_path) == path
    assert path.read_text() == before and len(await said(journal)) == 1


async def test_an_incident_that_was_opened_again_gets_a_new_report(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    recorder = resolved()
    recorder.closed()
    await recorder.save(journal)
    first = await write_report_file(journal, Bus(journal), RUN, tmp_path)
    await journal.append(IncidentReopened(run=RUN, incident=RUN, by="ann", reason="it is back"))
    second = await write_report_file(journal, Bus(journal), RUN, tmp_path)
    assert first == second and second is not None
    assert "it is back" in second.read_text() and len(await said(journal)) == 2


async def test_a_folder_that_cannot_be_made_is_told_and_the_report_is_kept(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    blocked = tmp_path / "incidents"
    blocked.write_text("in the way")
    assert await write_report_file(journal, Bus(journal), RUN, blocked) is None
    assert await write_report_file(journal, Bus(journal), RUN, blocked) is None
    (event,) = await said(journal)
    assert event.path == "" and "could not be written to incidents" in event.trouble
    assert "Outcome: resolved" in event.text
    blocked.unlink()
    path = await write_report_file(journal, Bus(journal), RUN, blocked)
    assert path is not None and whole(path)
    assert (await said(journal))[-1].path == f"incidents/{path.name}"


@pytest.mark.command
async def test_a_disk_without_room_leaves_no_half_of_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "incidents"
    script = [sys.executable, str(HERE / "document_once.py"), str(folder), "500"]
    done = await anyio.run_process(script, check=False)
    path, count, trouble, kept = done.stdout.decode().split("\n")[:4]
    assert (path, count, kept) == ("None", "1", ""), done.stderr.decode()
    assert "could not be written" in trouble
    assert names(folder) == [".lock"]


async def test_a_run_that_is_no_incident_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="is no incident"):
        await write_report_file(InMemoryJournal(), Bus(InMemoryJournal()), "run-1", tmp_path)


@pytest.mark.command
async def test_several_processes_at_once_write_it_once(tmp_path: Path) -> None:
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        await resolved().save(journal)
    await anyio.to_thread.run_sync(_side_by_side, tmp_path, 4)
    async with SqliteJournal.open(tmp_path / "journal.db") as journal:
        (event,) = await said(journal)
    assert event.text == (tmp_path / event.path).read_text()


@pytest.mark.torture
async def test_killed_at_any_moment_it_is_written_whole_and_told_once(tmp_path: Path) -> None:
    chance = random.Random(8)
    with warm_interpreter(TORTURE) as python:
        for number in range(KILLS):
            home = tmp_path / str(number)
            home.mkdir()
            async with SqliteJournal.open(home / "journal.db") as journal:
                await resolved().save(journal)
            await anyio.to_thread.run_sync(_killed, python, home, chance.uniform(0.0, 0.03))
            async with SqliteJournal.open(home / "journal.db") as journal:
                path = await write_report_file(journal, Bus(journal), RUN, home / "incidents")
                assert path is not None and whole(path)
                (event,) = await said(journal)
                assert event.text == path.read_text()


@contextmanager
def _ready(python: WarmInterpreter, home: Path) -> Iterator[tuple[WarmProcess, IO[bytes]]]:
    """A process that has opened the journal, and the file in which a line lets it begin."""
    (stdin, to_process), (from_process, stdout) = os.pipe(), os.pipe()
    process = python.start(str(home), stdin=stdin, stdout=stdout)
    os.close(stdin)
    os.close(stdout)
    with os.fdopen(to_process, "wb", buffering=0) as begin, os.fdopen(from_process) as printed:
        assert printed.readline() == "ready\n"
        yield process, begin


def _side_by_side(home: Path, count: int) -> None:
    with warm_interpreter(TORTURE) as python, ExitStack() as stack:
        running = [stack.enter_context(_ready(python, home)) for _ in range(count)]
        for _, begin in running:
            begin.write(b"go\n")
        assert [process.wait() for process, _ in running] == [0] * count


def _killed(python: WarmInterpreter, home: Path, after: float) -> None:
    with _ready(python, home) as (process, begin):
        begin.write(b"go\n")
        time.sleep(after)  # the moment of the kill, not a wait for something
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
