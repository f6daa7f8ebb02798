"""Imports conversations from other programs into the journal; repeated imports add nothing.

A message is identified by its session and its id. What was appended before a crash is not appended
again, so an import that was cut off is simply started again.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.memory import MessageImported
from hermes.core.events.runs import RunStarted
from hermes.core.messages import Value
from hermes.core.protocols import Journal

IMPORT_BATCH_EVENTS = 500
MAX_LISTED_REJECTS = 20
"""Rejected lines that a report names one by one."""
LONG_TEXT_CHARS = 100_000
"""Characters beyond which a text is found only by its beginning and its end."""
_SESSION_KINDS = ("run.started", "message.imported")
_TIME_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%d %B %Y", "%d %B, %Y")
_LINE_FORMAT_HINT = 'it takes {"id": …, "session": …, "speaker": …, "text": …, "at": …}'


class ImportLine(msgspec.Struct):
    session: str | int
    text: str
    id: str | int = ""
    speaker: str = ""
    at: str | float | None = None


class SessionImportResult(Value, kw_only=True, frozen=True, omit_defaults=False):
    added: int = 0
    known: int = 0
    """Lines that had been imported before."""
    rejected: int = 0
    mistakes: tuple[str, ...] = ()
    """The first rejected lines, with their numbers and reasons."""
    long: int = 0
    """Texts so long that only their beginning and end are indexed."""
    sessions: int = 0


class ImportLineInvalid(Exception):
    """A line that is no message."""


async def import_lines(
    journal: Journal,
    lines: Iterable[bytes],
    *,
    strict: bool = False,
    clean: Callable[[Event], Event] | None = None,
    progress: Callable[[int], None] | None = None,
) -> SessionImportResult:
    """Raises `HermesError` for a line that is no message when `strict`, and `StoreError`."""
    importing = _SessionImporter(journal, clean)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            await importing.add_line(line)
        except ImportLineInvalid as bad:
            if strict:
                await importing.flush()
                raise HermesError(
                    f"line {number}: {bad}; what stands before it was imported"
                ) from bad
            importing.reject(f"line {number}: {bad}")
        if progress is not None and number % IMPORT_BATCH_EVENTS == 0:
            progress(number)
    await importing.flush()
    return importing.report()


class _SessionImporter:
    def __init__(self, journal: Journal, clean: Callable[[Event], Event] | None) -> None:
        self._journal = journal
        self._clean = clean
        self._known: dict[str, set[str]] = {}
        self._pending: list[Event] = []
        self._counts = {"added": 0, "known": 0, "rejected": 0, "long": 0}
        self._problems: list[str] = []
        self._read = msgspec.json.Decoder(ImportLine)

    async def add_line(self, line: bytes) -> None:
        message = self._message(line)
        known = self._known.get(message.run)
        if known is None:
            known = self._known[message.run] = await self._known_message_ids(message)
        if message.id in known:
            self._counts["known"] += 1
            return
        known.add(message.id)
        self._counts["added"] += 1
        self._counts["long"] += len(message.text) > LONG_TEXT_CHARS
        self._pending.append(message)
        if len(self._pending) >= IMPORT_BATCH_EVENTS:
            await self.flush()

    async def flush(self) -> None:
        waiting, self._pending = self._pending, []
        if waiting:
            cleaned = waiting if self._clean is None else map(self._clean, waiting)
            await self._journal.append(*cleaned)

    def reject(self, why: str) -> None:
        self._counts["rejected"] += 1
        if len(self._problems) < MAX_LISTED_REJECTS:
            self._problems.append(why)

    def report(self) -> SessionImportResult:
        return SessionImportResult(
            **self._counts, mistakes=tuple(self._problems), sessions=len(self._known)
        )

    def _message(self, line: bytes) -> MessageImported:
        try:
            parsed = self._read.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ImportLineInvalid(f"{error}; {_LINE_FORMAT_HINT}") from error
        session = str(parsed.session).strip()
        if not session or not parsed.text.strip():
            raise ImportLineInvalid(
                f"the {'text' if session else 'session'} is empty; {_LINE_FORMAT_HINT}"
            )
        own = str(parsed.id)
        if not own:  # without an id the text itself identifies the message
            key = msgspec.json.encode((parsed.speaker, parsed.at, parsed.text))
            own = sha256(key).hexdigest()[:16]
        return MessageImported(
            run=session,
            at=parse_message_time(parsed.at),
            id=own,
            speaker=parsed.speaker,
            text=parsed.text,
        )

    async def _known_message_ids(self, first: MessageImported) -> set[str]:
        """The ids that exist already; a new session begins with its first message."""
        await self.flush()
        known: set[str] = set()
        begun = False
        async for recorded in self._journal.read(run=first.run, kinds=_SESSION_KINDS):
            begun = True
            if isinstance(recorded.event, MessageImported):
                known.add(recorded.event.id)
        if not begun:
            task = f"imported: {first.text[:180]}"
            self._pending.append(RunStarted(run=first.run, at=first.at, origin="batch", task=task))
        return known


def parse_message_time(at: str | float | None) -> datetime:
    """ISO 8601, seconds since 1970, or common date formats. Raises `ImportLineInvalid`."""
    if at is None or at == "":
        return datetime.now(UTC)
    try:
        if not isinstance(at, str):
            return datetime.fromtimestamp(at, UTC)
        given = datetime.fromisoformat(at)
        return given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    for form in _TIME_FORMATS:
        try:
            return datetime.strptime(str(at), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ImportLineInvalid(f"at {at!r} is no time; write it as 2026-03-02T14:05:00Z")
