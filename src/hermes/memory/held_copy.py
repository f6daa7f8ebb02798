"""A copy of what a watch holds in memory, for commands that are run beside it.

While the home directory cannot be written, its journal ends where the trouble began. The watch
keeps a copy of its held events in the runtime folder, which is memory and ends with the host. The
copy is for reading only: what counts is what the watch records when the journal can be written.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hermes.core.events import Event, decode_event, encode_event
from hermes.core.events.base import UnknownEvent
from hermes.core.protocols import JournalRecord
from hermes.memory.journal.held_events import IMPORTANT_KIND_PREFIXES, UNIMPORTANT_KINDS
from hermes.memory.journal.runs import EventFilter, RunSummary, SelectsEvents
from hermes.memory.store import JournalStore
from hermes.plumbing.files import write_atomically

COPY_BYTES_MOST = 8 * 1024 * 1024
"""A larger copy is not made: the runtime folder is small, and others need it."""


def runtime_folder() -> Path | None:
    """Where this user keeps what lasts as long as the host runs; None where there is no such."""
    user = os.geteuid()
    if not user:
        return Path("/run/hermes")
    own = Path(f"/run/user/{user}")
    return own / "hermes" if own.is_dir() else None


class HeldCopy:
    """The copy for one journal. Nothing here raises: without it, a command knows less."""

    def __init__(self, journal: Path, folder: Path | None) -> None:
        name = hashlib.sha256(os.fsencode(journal.absolute())).hexdigest()[:16]
        self.path = folder / f"{name}.held" if folder is not None else None
        self._written = -1

    def write(self, records: Sequence[JournalRecord]) -> None:
        """All of the story of the incidents, if that is new and fits."""
        newest = records[-1].seq if records else 0
        if self.path is None or newest == self._written:
            return
        self._written = newest
        lines = b"".join(_lines(records))
        if len(lines) > COPY_BYTES_MOST:
            self.remove()
            return
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self.path, lines, sync=False)
        except OSError:
            self.remove()

    def remove(self) -> None:
        try:
            if self.path is not None:
                self.path.unlink(missing_ok=True)
        except OSError:
            return

    def read(self) -> tuple[datetime, tuple[JournalRecord, ...]] | None:
        """When it was written, and what is in it; None when there is none that can be read."""
        if self.path is None:
            return None
        try:
            written = datetime.fromtimestamp(self.path.stat().st_mtime, UTC)
            lines = self.path.read_bytes().splitlines()
            return written, tuple(map(_record, lines))
        except (OSError, ValueError, msgspec.MsgspecError):
            return None


def _lines(records: Iterable[JournalRecord]) -> Iterable[bytes]:
    for recorded in records:
        event = recorded.event
        if isinstance(event, UnknownEvent) or event.kind in UNIMPORTANT_KINDS:
            continue
        if event.kind.startswith(IMPORTANT_KIND_PREFIXES):
            yield b"%d %s %s\n" % (recorded.seq, event.kind.encode(), encode_event(event))


def _record(line: bytes) -> JournalRecord:
    seq, kind, body = line.split(b" ", 2)
    return JournalRecord(int(seq), decode_event(kind.decode(), body))


class JournalWithHeld(SelectsEvents):
    """A journal that can only be asked, and behind it what a watch holds in memory."""

    read_only = True

    def __init__(self, journal: JournalStore, held: Sequence[JournalRecord]) -> None:
        self._journal, self._held = journal, tuple(held)

    async def select(self, after: int, want: EventFilter) -> AsyncIterator[JournalRecord]:
        stored = await self._journal.last()
        async for recorded in self._journal.read(after=after, **want._asdict()):
            yield recorded
        for recorded in self._held:
            if recorded.seq > max(after, stored) and want.matches(recorded.event):
                yield recorded

    async def last(self) -> int:
        newest = self._held[-1].seq if self._held else 0
        return max(newest, await self._journal.last())

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        return await self._journal.runs(limit=limit, parent=parent, deleted=deleted)

    async def append(self, *events: Event) -> Sequence[int]:
        return await self._journal.append(*events)

    async def changed(self, after: int) -> None:
        await self._journal.changed(after)

    async def close(self) -> None:
        await self._journal.close()
