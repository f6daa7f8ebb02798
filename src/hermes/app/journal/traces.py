"""Sends spans of runs and incidents to a collector: a reader of the journal with a cursor.

Spans are sent at least once, with the same ids when they are sent again. What a collector cannot
take now waits in the journal; what it refuses for good is left out, with a warning.
"""

import platform
from collections import OrderedDict
from collections.abc import Callable

import anyio

from hermes import __version__
from hermes.app.run_locks import RunLocked, RunLockError, RunLocks, lock_run, unlock_run
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError, StoreError
from hermes.core.events import Event
from hermes.core.events.operations import HOOKS_RUN, HookCursorMoved
from hermes.core.events.runs import RunStarted
from hermes.core.messages import Value
from hermes.core.protocols import Journal, JournalRecord
from hermes.integrations.otlp.collector import (
    CollectorRefused,
    CollectorUnavailable,
    send_to_collector,
)
from hermes.integrations.otlp.encoding import encode_spans
from hermes.integrations.otlp.spans import SPAN_KINDS, RunSpans, Span, SpanContext
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings

TRACE_CURSOR = "otlp:traces"
"""The name of the cursor; no hook can have it."""
TRACE_LOCK = "otlp-traces"
TRACES_PATH = "/v1/traces"
MAX_BATCH_SPANS = 200
MAX_KNOWN_RUNS = 200
MAX_PARENT_DEPTH = 8
RETRY_PAUSES_S = (1.0, 4.0, 16.0, 60.0)
CLAIM_PAUSE_S = 15.0


class SentTraces(Value, kw_only=True, frozen=True):
    spans: int = 0
    refused: int = 0
    """Spans that the collector refused for good."""
    problem: str = ""
    """What a collector said about spans that it did not take."""


class TraceReader:
    """Turns records of the journal into spans. What it needs from before is read again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._runs: OrderedDict[str, RunSpans] = OrderedDict()

    async def read(self, recorded: JournalRecord) -> list[Span]:
        event = recorded.event
        if not isinstance(event, Event) or event.run == HOOKS_RUN:
            return []
        spans = await self._spans_before(event.run, recorded.seq)
        if isinstance(event, RunStarted) and event.parent:
            spans = RunSpans(event.run, await self._context_at(event.parent, recorded.seq))
        self._keep(event.run, spans)
        return spans.apply(event)

    async def _spans_before(self, run: str, seq: int, depth: int = 0) -> RunSpans:
        """The state of a run before this event: that of memory, else from the journal."""
        if run in self._runs:
            return self._runs[run]
        spans = RunSpans(run)
        async for recorded in self._journal.read(run=run, kinds=SPAN_KINDS):
            event = recorded.event
            if recorded.seq >= seq:
                break
            if isinstance(event, RunStarted) and event.parent and depth < MAX_PARENT_DEPTH:
                above = await self._context_at(event.parent, recorded.seq, depth + 1)
                spans = RunSpans(run, above)
            if isinstance(event, Event):
                spans.apply(event)
        return spans

    async def _context_at(self, run: str, seq: int, depth: int = 0) -> SpanContext | None:
        return (await self._spans_before(run, seq, depth)).context

    def _keep(self, run: str, spans: RunSpans) -> None:
        self._runs[run] = spans
        self._runs.move_to_end(run)
        if len(self._runs) > MAX_KNOWN_RUNS:
            self._runs.popitem(last=False)


class TraceExporter:
    def __init__(self, loaded: LoadedSettings, bus: Bus, run_locks: RunLocks) -> None:
        self._settings = loaded.settings.otlp
        self._bus, self._run_locks = bus, run_locks
        self._address = traces_address(self._settings.url)
        self._headers = {"content-type": "application/json", **self._settings.headers}
        if name := self._settings.token_variable:
            token = loaded.secrets.get(name)
            if not token:
                raise SettingsError(f"otlp: the secret {name} is missing: put it into .env")
            self._headers["authorization"] = f"Bearer {token}"
        self._redact = SecretRedactor(loaded)
        self._reader = TraceReader(bus.journal)
        self._cursor: int | None = None

    async def run(self, report: Callable[[str], object]) -> None:
        """Send what happens until cancelled; one process of a home at a time."""
        while True:
            if await self._claim():
                break
            await anyio.sleep(CLAIM_PAUSE_S)
        failures = 0
        while True:
            try:
                sent = await self.send_due()
            except CollectorUnavailable as error:
                if not failures:
                    report(f"traces wait: {error}")
                await anyio.sleep(RETRY_PAUSES_S[min(failures, len(RETRY_PAUSES_S) - 1)])
                failures += 1
                continue
            except StoreError:  # the journal cannot be read now; nothing is lost
                await anyio.sleep(CLAIM_PAUSE_S)
                continue
            failures = 0
            if sent.problem:
                report(f"traces: {sent.problem}")
            await self._bus.journal.changed(await self._bus.journal.last())
            await anyio.sleep(self._settings.every)  # so that one request carries many spans

    async def send_once(self) -> SentTraces:
        """Send what is due. Raises `SettingsError` while another process does that."""
        if not await self._claim():
            raise SettingsError("another process of this home sends the traces: a running watch")
        try:
            return await self.send_due()
        finally:
            await unlock_run(TRACE_LOCK, self._run_locks, self._bus.journal)

    async def send_due(self) -> SentTraces:
        """Everything up to now. Raises `CollectorUnavailable` and `StoreError`."""
        try:
            return await self._send_due()
        except (CollectorUnavailable, StoreError):
            # The next time reads again from the cursor, with what was known there.
            self._reader, self._cursor = TraceReader(self._bus.journal), None
            raise

    async def _send_due(self) -> SentTraces:
        journal = self._bus.journal
        newest = await journal.last()
        if self._cursor is None:
            self._cursor = await self._read_cursor()
        if self._cursor is None:  # it begins now, and not with the whole past
            await self._write_cursor(newest)
            return SentTraces()
        waiting, sent = list[Span](), SentTraces()
        async for recorded in journal.read(after=self._cursor, kinds=SPAN_KINDS):
            newest = max(newest, recorded.seq)
            waiting += await self._reader.read(recorded)
            if len(waiting) >= MAX_BATCH_SPANS:
                sent = await self._deliver(waiting, recorded.seq, sent)
                waiting = []
        if waiting:
            sent = await self._deliver(waiting, newest, sent)
        self._cursor = newest
        return sent

    async def _deliver(self, spans: list[Span], seq: int, sent: SentTraces) -> SentTraces:
        try:
            problem = await self._post(spans)
        except CollectorRefused as error:
            await self._write_cursor(seq)
            refused = sent.refused + len(spans)
            return SentTraces(spans=sent.spans, refused=refused, problem=str(error))
        await self._write_cursor(seq)
        return SentTraces(
            spans=sent.spans + len(spans), refused=sent.refused, problem=problem or sent.problem
        )

    async def _post(self, spans: list[Span]) -> str:
        """Return what the collector did not accept. Raises `CollectorUnavailable`,
        `CollectorRefused`."""
        resource = {
            "service.name": self._settings.service,
            "service.version": __version__,
            "host.name": platform.node(),
        }
        body = encode_spans(spans, dict(resource), version=__version__, redact=self._redact)
        return await send_to_collector(self._address, self._headers, body, self._redact)

    async def _read_cursor(self) -> int | None:
        found: int | None = None
        async for recorded in self._bus.journal.read(kinds=("hook.cursor",)):
            if isinstance(recorded.event, HookCursorMoved):
                found = dict(recorded.event.cursors).get(TRACE_CURSOR, found)
        return found

    async def _write_cursor(self, seq: int) -> None:
        self._cursor, cursors = seq, ((TRACE_CURSOR, seq),)
        await self._bus.publish(HookCursorMoved(run=HOOKS_RUN, cursors=cursors))

    async def _claim(self) -> bool:
        try:
            await lock_run(TRACE_LOCK, self._run_locks, self._bus.journal)
        except (RunLocked, RunLockError):
            return False
        return True


async def send_traces(loaded: LoadedSettings) -> SentTraces:
    """Raises `CollectorUnavailable`, `SettingsError` and `StoreError`."""
    async with open_journal(loaded.store) as journal:
        bus = Bus(journal, clean=SecretRedactor(loaded).clean_event)
        locks = RunLocks(loaded.home / "locks")
        try:
            return await TraceExporter(loaded, bus, locks).send_once()
        finally:
            locks.close()


async def read_run_spans(journal: Journal, run: str) -> list[Span]:
    """The spans of a run or an incident, and of the runs below it. Raises `SettingsError`."""
    reader, found, runs = TraceReader(journal), list[Span](), {run}
    known = False
    async for recorded in journal.read(kinds=SPAN_KINDS):
        event = recorded.event
        if isinstance(event, RunStarted) and event.parent in runs:
            runs.add(event.run)
        if event.run in runs:
            known = True
            found += await reader.read(recorded)
    if not known:
        raise SettingsError(f"there is no run or incident {run!r}; hermes incident list names some")
    return found


def traces_address(url: str) -> str:
    """Return the address that traces are sent to. Raises `SettingsError`."""
    if not url:
        raise SettingsError(
            "no collector is configured: hermes config set otlp.url http://127.0.0.1:4318"
        )
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"otlp.url: {url!r} does not begin with http:// or https://")
    return url if url.endswith(TRACES_PATH) else f"{url.rstrip('/')}{TRACES_PATH}"
