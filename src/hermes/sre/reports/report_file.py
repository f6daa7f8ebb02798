"""Writes the report of an incident to a file and publishes it, once, also after a crash.

The file name depends only on the incident, so that after a crash the same file is written again;
the event is published last.
"""

import errno
import fcntl
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
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
from hermes.core.protocols import Journal, JournalRecord
from hermes.sre.incident import IncidentDetails, incident_details
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
    details = incident_details(
        next(e.event for e in records if isinstance(e.event, IncidentOpened))
    )
    path = folder / report_file_name(details)
    done = find_written_report(records)
    if done is not None and done.path and await anyio.Path(path).exists():
        return path
    text = done.text if done is not None and done.path else ""
    text = text or await _render(journal, records)
    await anyio.to_thread.run_sync(_replace_file, path, text)
    if done is None or not done.path:
        name = f"{folder.name}/{path.name}"
        await bus.publish(ReportWritten(run=run, incident=details.incident, text=text, path=name))
    return path


async def _publish_without_file(journal: Journal, bus: Bus, run: str, why: str) -> None:
    records = await read_incident_records(journal, run)
    if find_written_report(records) is not None:
        return
    details = incident_details(
        next(e.event for e in records if isinstance(e.event, IncidentOpened))
    )
    text = await _render(journal, records)
    await bus.publish(ReportWritten(run=run, incident=details.incident, text=text, trouble=why))


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
    handle = await anyio.to_thread.run_sync(_lock_folder, folder, limiter=limiter)
    try:
        yield
    finally:
        os.close(handle)


def _lock_folder(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _replace_file(path: Path, text: str) -> None:
    """Replace the file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        handle = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
