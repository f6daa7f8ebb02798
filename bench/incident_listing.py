"""How long `hermes incident list` and `stats` take over years of incidents in a large journal.

    python bench/incident_listing.py --incidents 10000 --events 1000000

The journal is made once, in --folder, and kept there for the next time.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from tempfile import gettempdir

import anyio

from hermes.core.events import Event
from hermes.core.events.incidents import (
    IncidentAcknowledged,
    IncidentClosed,
    IncidentOpened,
    IncidentVerified,
    PhaseEntered,
    ReportWritten,
)
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import ToolResult
from hermes.memory.journal.sqlite_journal import SqliteJournal

BATCH = 2_000
BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
REPORT = "a line of a report that is as long as they are\n" * 80


def events(incidents: int, total: int) -> Iterator[Event]:
    """Each incident as a watcher writes it, among the many events of other work."""
    filler = max(0, total // max(incidents, 1) - 9)
    for number in range(incidents):
        at = BEGAN + timedelta(minutes=90 * number)
        run = f"incident-{at:%Y%m%d-%H%M%S}-{number:06x}"
        yield IncidentOpened(
            run=run, incident=run, at=at, title=f"service {number % 40} does not answer",
            severity="P1", service=f"svc-{number % 40}", fingerprint=f"svc:{number % 400}",
            since=at - timedelta(seconds=12),
        )  # fmt: skip
        for place, phase in enumerate(("assess", "reflex", "verify", "document"), start=1):
            moment = at + timedelta(seconds=place)
            yield PhaseEntered(run=run, incident=run, at=moment, phase=phase)  # type: ignore[arg-type]
        for _ in range(filler):
            result = ToolResult(call_id="c", content="x" * 60)
            yield ToolFinished(run="run-20240101-000000-abcdef", at=at, result=result)
        late = at + timedelta(seconds=30 + number % 300)
        yield IncidentAcknowledged(run=run, incident=run, at=late, by="ann")
        yield IncidentVerified(run=run, incident=run, at=late, ok=True, seconds=20)
        yield ReportWritten(run=run, incident=run, at=late, text=REPORT, path=f"incidents/{run}.md")
        yield IncidentClosed(
            run=run, incident=run, at=late, outcome="resolved",
            answered_by="playbook" if number % 3 else "model",
        )  # fmt: skip


async def fill(file: Path, incidents: int, total: int) -> None:
    async with SqliteJournal.open(file) as journal:
        source = events(incidents, total)
        while batch := list(islice(source, BATCH)):
            await journal.append(*batch)


def timed(home: Path, *words: str) -> float:
    variables = {**os.environ, "HERMES_HOME": str(home)}
    began = time.perf_counter()
    command = [sys.executable, "-m", "hermes.cli", *words]
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--incidents", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path(gettempdir()) / "hermes-incidents")
    given = parser.parse_args()
    home = given.folder / f"{given.incidents}-{given.events}"
    file = home / "journal.db"
    if not file.exists():
        home.mkdir(parents=True)
        anyio.run(fill, file, given.incidents, given.events)
    bare = min(timed(home, "--version") for _ in range(3))
    for words in (
        ("incident", "list"),
        ("incident", "list", "--limit", str(given.incidents), "--json"),
        ("incident", "show", "last"),
        ("incident", "stats"),
    ):
        best = min(timed(home, *words) for _ in range(3))
        sys.stdout.write(f"{' '.join(words):<44} {best:6.2f} s, {best / bare:5.1f} x --version\n")


if __name__ == "__main__":
    main()
