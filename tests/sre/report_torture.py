"""Run as a process of its own by a test, and killed at any moment: documents one incident."""

import sys
from pathlib import Path

import anyio
from recorded_incident import RUN

from hermes.core.bus import Bus
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.reports.report_file import write_report_file


async def document(home: Path) -> None:
    async with SqliteJournal.open(home / "journal.db") as journal:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        path = await write_report_file(journal, Bus(journal), RUN, home / "incidents")
    sys.stdout.write(f"{path}\n")


def main(home: str) -> None:
    anyio.run(document, Path(home))


anyio.run(anyio.sleep, 0)  # loads the event loop, once for all processes
