"""Two processes that both hold the schedule, killed again and again: one outcome each."""

import random
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import anyio

from hermes.core.events import Event
from hermes.core.events.base import UnknownEvent
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobAdded,
    JobDue,
    JobEnded,
    JobMissed,
    JobSchedule,
    JobSkipped,
    JobSpec,
)
from hermes.memory.store import StoreLocation, open_journal
from hermes.scheduler.cron import due_times

ROUNDS = 12
MAX_WAIT_S = 60.0
"""For the last process to give an outcome to everything that the killed ones left."""
SPEC = JobSpec(
    name="work",
    task="x",
    overlap="parallel",
    late_s=5.0,
    schedule=JobSchedule(text="", zone="UTC", every_s=1.0, anchor=datetime.now(UTC)),
)


async def append(place: StoreLocation, *events: Event) -> None:
    async with open_journal(place) as journal:
        await journal.append(*events)


async def read(place: StoreLocation) -> list[Event | UnknownEvent]:
    async with open_journal(place) as journal:
        return [each.event async for each in journal.read()]


def play(place: str, folder: Path) -> None:
    """Starts two schedulers, kills one or both at random moments, and lets one finish."""
    program = [sys.executable, str(Path(__file__).with_name("schedule_process.py"))]
    chance = random.Random(7)
    running: list[subprocess.Popen[bytes]] = []
    for _ in range(ROUNDS):
        while len(running) < 2:
            running.append(subprocess.Popen([*program, place, str(folder)]))
        time.sleep(chance.uniform(0.2, 2.0))
        victim = running.pop(chance.randrange(2))
        victim.kill()
        victim.wait()
    running.append(subprocess.Popen([*program, place, str(folder)]))
    started = datetime.now(UTC)
    give_up = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < give_up:
        due, open_ = due_and_open(anyio.run(read, Path(place)))
        last = max((each.due for each in due.values()), default=started)
        if last > started and all((last - each.due).total_seconds() < 2 for each in open_):
            break
        time.sleep(0.5)
    for each in running:
        each.kill()
        each.wait()


def due_and_open(
    events: list[Event | UnknownEvent],
) -> tuple[dict[str, JobDue], list[JobDue]]:
    """What was due, and which of it has no outcome yet."""
    due = {each.occurrence: each for each in events if isinstance(each, JobDue)}
    closed = {each.occurrence for each in events if isinstance(each, JobEnded | JobSkipped)}
    return due, [each for each in due.values() if each.occurrence not in closed]


def check(events: list[Event | UnknownEvent], folder: Path) -> None:
    due, open_ = due_and_open(events)
    ended = Counter(each.occurrence for each in events if isinstance(each, JobEnded))
    missed = [each for each in events if isinstance(each, JobMissed)]
    assert due
    last = max(each.due for each in due.values())
    begin = next(each.at for each in events if isinstance(each, JobAdded))
    times = [*takewhile(lambda each: each <= last, due_times(SPEC.schedule, begin))]
    run = {each.due for each in due.values()}
    gone = {each for one in missed for each in times if one.first <= each <= one.last}
    assert run | gone == set(times)
    assert all((last - each.due).total_seconds() < 4 for each in open_), "only the last moments"
    assert all(count == 1 for count in ended.values())
    effects = Counter((folder / "effects").read_text().splitlines())
    assert all(count == 1 for count in effects.values()), "an attempt began twice"


def test_kills_of_processes_on_sqlite(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    anyio.run(append, place, JobAdded(run=SCHEDULE_RUN, spec=SPEC))
    play(str(place), tmp_path)
    check(anyio.run(read, place), tmp_path)
