"""Writes the report of an incident to a file and publishes it, once, also after a crash.

The file name depends only on the incident, so that after a crash the same file is written again;
the event is published last.
"""

import errno
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from hermes.core.bus import Bus
from hermes.core.events.incidents import (
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
    ReportWritten,
)
from hermes.core.incident import IncidentDetails, incident_details
from hermes.core.protocols import Journal, JournalRecord
from hermes.plumbing.files import FileLock, write_atomically
from hermes.sre.reports.markdown import slug
from hermes.sre.reports.report_data import read_earlier_incidents, read_incident_records
from hermes.sre.reports.report_text import render_report

LOCK_FILE = ".lock"


async def write_report_file(journal: Journal, bus: Bus, run: str, folder: Path) -> Path | None:
    """Write the report of the incident of this run below `folder` (`incidents` in the home).

    None when no file could be written: the report is then only in the journal, with the reason.
    Raises `HermesError` when this run has no incident, and `StoreError`.
    """
    try:
        async with _locked_folder(folder):
            return await _write_once(journal, bus, run, folder)
    except OSError as error:
        await _publish_without_file(journal, bus, run, write_failure_text(folder, error))
        return None


def report_file_name(details: IncidentDetails) -> str:
    """Unique by the end of the id, also for the same second and title."""
    at = details.opened_at.astimezone(UTC)
    return f"{at:%Y%m%d-%H%M%S}-{slug(details.title)}-{slug(details.incident[-6:])}.md"


def write_failure_text(folder: Path, error: OSError) -> str:
    remedy = "make it writable for this user"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "free some space"
    return (
        f"the report could not be written to {folder.name}: {error.strerror}; {remedy}, then "
        "`hermes incident report ID --write` writes it"
    )


async def _write_once(journal: Journal, bus: Bus, run: str, folder: Path) -> Path:
    records = await read_incident_records(journal, run)
    details = _details_of(records)
    path = folder / report_file_name(details)
    done = find_written_report(records)
    if done is not None and done.path and await anyio.Path(path).exists():
        return path
    text = done.text if done is not None and done.path else ""
    text = text or await _render(journal, records)
    await anyio.to_thread.run_sync(write_atomically, path, text)
    if done is None or not done.path:
        name = f"{folder.name}/{path.name}"
        await bus.publish(ReportWritten(run=run, incident=details.incident, text=text, path=name))
    return path


async def _publish_without_file(journal: Journal, bus: Bus, run: str, why: str) -> None:
    records = await read_incident_records(journal, run)
    if find_written_report(records) is not None:
        return
    text, name = await _render(journal, records), _details_of(records).incident
    await bus.publish(ReportWritten(run=run, incident=name, text=text, trouble=why))


def _details_of(records: Sequence[JournalRecord]) -> IncidentDetails:
    opened = (each.event for each in records)
    return incident_details(next(each for each in opened if isinstance(each, IncidentOpened)))


async def _render(journal: Journal, records: Sequence[JournalRecord]) -> str:
    """Render in a thread: many records would block the event loop."""
    work = partial(render_report, records, earlier=await read_earlier_incidents(journal, records))
    return await anyio.to_thread.run_sync(work)


def find_written_report(records: Sequence[JournalRecord]) -> ReportWritten | None:
    """The report since the incident was last reopened or recovered.

    A report that an agent wrote has neither a path nor a reason for having none.
    """
    found: ReportWritten | None = None
    for each in records:
        event = each.event
        if isinstance(event, IncidentReopened | IncidentRecovered):
            found = None
        elif isinstance(event, ReportWritten) and (event.path or event.trouble):
            found = event
    return found


@asynccontextmanager
async def _locked_folder(folder: Path) -> AsyncGenerator[None, None]:
    """One writer at a time across processes; the lock ends with its process."""
    # A separate limiter: waiting for the lock must not block the threads of the writer.
    limiter = anyio.CapacityLimiter(1)
    lock = await anyio.to_thread.run_sync(FileLock, folder / LOCK_FILE, limiter=limiter)
    with lock:
        yield
