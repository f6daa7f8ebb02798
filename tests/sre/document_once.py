"""Run as a process of its own by a test: writes one report where files may not grow."""

import resource
import sys
from pathlib import Path

import anyio
from recorded_incident import RUN, resolved

from hermes.core.bus import Bus
from hermes.core.events.incidents import ReportWritten
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.reports.report_file import write_report_file


async def main(folder: Path, limit: int) -> None:
    journal = InMemoryJournal()
    await resolved().save(journal)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    path = await write_report_file(journal, Bus(journal), RUN, folder)
    said = [each for each in journal.events if isinstance(each, ReportWritten)]
    sys.stdout.write(f"{path}\n{len(said)}\n{said[-1].trouble}\n{said[-1].path}\n")


anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
