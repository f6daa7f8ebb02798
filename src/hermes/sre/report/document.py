"""The report as a file and as an event: written once, whatever happens in between.

The name follows from the incident alone, so that whoever writes it again after a crash writes the
same file; the event comes last and says that it is there.
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
from hermes.core.protocols import Journal, Recorded
from hermes.sre.case import Case, case_of
from hermes.sre.report.markdown import slug
from hermes.sre.report.reading import earlier, records_of
from hermes.sre.report.write import write

LOCK = ".lock"


async def document(journal: Journal, bus: Bus, run: str, folder: Path) -> Path | None:
    """Write the report of the incident of this run below `folder` (`incidents` in the home).

    None when no file could be written: the report is in the journal all the same, with the reason,
    and the incident goes on. Raises `HermesError` when this run has no incident, and `StoreError`.
    """
    try:
        async with _alone(folder):
            return await _document(journal, bus, run, folder)
    except OSError as error:
        await _without_file(journal, bus, run, explained(folder, error))
        return None


def file_name(case: Case) -> str:
    """The end of the id keeps two of one second and one title apart."""
    at = case.opened_at.astimezone(UTC)
    return f"{at:%Y%m%d-%H%M%S}-{slug(case.title)}-{slug(case.incident[-6:])}.md"


def explained(folder: Path, error: OSError) -> str:
    cure = "make it writable for this user"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        cure = "free some space"
    return (
        f"the report could not be written to {folder.name}: {error.strerror}; {cure}, then "
        "`hermes incident report ID --write` writes it"
    )


async def _document(journal: Journal, bus: Bus, run: str, folder: Path) -> Path:
    records = await records_of(journal, run)
    case = case_of(next(e.event for e in records if isinstance(e.event, IncidentOpened)))
    path = folder / file_name(case)
    done = written(records)
    if done is not None and done.path and await anyio.Path(path).exists():
        return path
    text = done.text if done is not None and done.path else ""
    text = text or await _text(journal, records)
    await anyio.to_thread.run_sync(_put, path, text)
    if done is None or not done.path:
        name = f"{folder.name}/{path.name}"
        await bus.publish(ReportWritten(run=run, incident=case.incident, text=text, path=name))
    return path


async def _without_file(journal: Journal, bus: Bus, run: str, why: str) -> None:
    records = await records_of(journal, run)
    if written(records) is not None:
        return
    case = case_of(next(e.event for e in records if isinstance(e.event, IncidentOpened)))
    text = await _text(journal, records)
    await bus.publish(ReportWritten(run=run, incident=case.incident, text=text, trouble=why))


async def _text(journal: Journal, records: Sequence[Recorded]) -> str:
    """Beside the loop: hundreds of records take longer to tell than an alert may wait."""
    work = partial(write, records, earlier=await earlier(journal, records))
    return await anyio.to_thread.run_sync(work)


def written(records: Sequence[Recorded]) -> ReportWritten | None:
    """The report of the incident as it now is; one from before it was opened again, or before it
    recovered, is history.

    What an agent wrote by itself has neither a path nor a reason for having none.
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
async def _alone(folder: Path) -> AsyncGenerator[None, None]:
    """One writer at a time, in all processes; the lock ends with whoever holds it."""
    # A limiter of its own: those who wait must not use up the threads of the one who writes.
    limiter = anyio.CapacityLimiter(1)
    handle = await anyio.to_thread.run_sync(_locked, folder, limiter=limiter)
    try:
        yield
    finally:
        os.close(handle)


def _locked(folder: Path) -> int:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _put(path: Path, text: str) -> None:
    """Old or new, never half."""
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
