"""Reads from the journal the outcome of every due time, its delivery, and runs by hand."""

from collections.abc import Mapping
from datetime import datetime

import anyio
from msgspec.structs import replace

from hermes.app.jobs import JobEditor, find_job, scheduler_is_running
from hermes.app.run_locks import RunLocks
from hermes.app.schedule.runs import BuiltInJob, JobRunner
from hermes.core.errors import ScheduleError
from hermes.core.events.jobs import JobDue, JobEnded, JobMissed, JobSkipped, JobStarted
from hermes.core.events.operations import NotificationAttempted, NotificationSent
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings

ROW_KINDS = ("job.due", "job.started", "job.ended", "job.skipped", "job.missed")
DELIVERY_KINDS = ("notice.sent", "notice.tried")


class JobHistoryRow(Value, kw_only=True, frozen=True):
    """A due time with its outcome, or several that were missed together."""

    job: str
    due: datetime
    occurrence: str = ""
    outcome: str = "due"
    """due, running, ran, nothing, failed, timed-out, unknown, skipped, missed."""
    count: int = 1
    late_s: float = 0.0
    """From the due time to the beginning."""
    seconds: float = 0.0
    reason: str = ""
    text: str = ""
    session: str = ""
    by: str = ""
    notice: str = ""
    delivery: str = ""
    """Empty: nothing was to be delivered; else queued, delivered, or the last error."""


class JobHistory:
    """Folds the rows; of each kind the first event counts."""

    def __init__(self) -> None:
        self.rows: dict[str, JobHistoryRow] = {}
        self._notices: dict[str, str] = {}

    def apply(self, event: object) -> None:
        match event:
            case JobDue() if event.occurrence not in self.rows:
                self.rows[event.occurrence] = JobHistoryRow(
                    job=event.job, due=event.due, occurrence=event.occurrence, by=event.by
                )
            case JobStarted() if event.occurrence in self.rows:
                row = self.rows[event.occurrence]
                late = (event.at - row.due).total_seconds()
                if row.outcome == "due":
                    self.rows[event.occurrence] = replace(
                        row, outcome="running", session=event.session, late_s=round(late, 1)
                    )
            case JobEnded():
                self._end(event)
            case JobSkipped():
                row = self.rows.get(event.occurrence) or _new_row(event)
                self.rows[event.occurrence] = replace(row, outcome="skipped", reason=event.reason)
            case JobMissed():
                key = f"{event.job}@{event.first.isoformat()}…{event.last.isoformat()}"
                row = JobHistoryRow(job=event.job, due=event.first, outcome="missed")
                self.rows[key] = replace(row, count=event.count, reason=event.reason)
            case NotificationSent() if event.notice in self._notices:
                self._note_delivery(event.notice, "delivered")
            case NotificationAttempted() if event.notice in self._notices and event.error:
                given_up = "given up: " if event.given_up else "retried: "
                self._note_delivery(event.notice, given_up + event.error)
            case _:
                pass

    def _end(self, event: JobEnded) -> None:
        row = self.rows.get(event.occurrence) or _new_row(event)
        if row.outcome not in ("due", "running"):
            return
        self.rows[event.occurrence] = replace(
            row,
            outcome=event.outcome,
            seconds=event.seconds,
            reason=event.reason,
            text=event.text,
            notice=event.notice,
            delivery="queued" if event.notice else "",
        )
        if event.notice:
            self._notices[event.notice] = event.occurrence

    def _note_delivery(self, notice: str, state: str) -> None:
        occurrence = self._notices[notice]
        row = self.rows[occurrence]
        if row.delivery != "delivered":
            self.rows[occurrence] = replace(row, delivery=state)


def _new_row(event: JobEnded | JobSkipped) -> JobHistoryRow:
    return JobHistoryRow(job=event.job, due=event.due, occurrence=event.occurrence)


async def read_history(
    journal: Journal, job: str = "", since: datetime | None = None
) -> list[JobHistoryRow]:
    """Read the due times of one job, or of all jobs except the rounds of checks, in order."""
    history = JobHistory()
    async for recorded in journal.read(kinds=(*ROW_KINDS, *DELIVERY_KINDS), since=since):
        history.apply(recorded.event)
    rows = [
        row for row in history.rows.values() if (row.job == job if job else row.job != "health")
    ]
    return sorted(rows, key=lambda row: row.due)


async def run_now(
    loaded: LoadedSettings,
    editor: JobEditor,
    name: str,
    built_in: Mapping[str, BuiltInJob],
) -> JobHistoryRow:
    """Run a job outside of its schedule, by the running scheduler or else here."""
    find_job(await editor.table(), name)
    by_scheduler = scheduler_is_running(loaded)
    due = await editor.request(name)
    if not by_scheduler:
        table = await editor.table()
        job = find_job(table, name)
        row = next(each for each in job.open if each.id == due.occurrence)
        locks = RunLocks(loaded.home / "locks")
        try:
            await JobRunner(loaded, editor.bus, locks, table, built_in).run(job, row)
        finally:
            locks.close()
    return await _wait_for_end(editor.journal, due.occurrence)


async def _wait_for_end(journal: Journal, occurrence: str) -> JobHistoryRow:
    history, seq = JobHistory(), 0
    while True:
        newest = await journal.last()
        async for recorded in journal.read(after=seq, kinds=ROW_KINDS):
            seq = recorded.seq
            history.apply(recorded.event)
        row = history.rows.get(occurrence)
        if row is None:
            raise ScheduleError(f"{occurrence} is not in the journal")
        if row.outcome not in ("due", "running"):
            return row
        with anyio.move_on_after(60):
            await journal.changed(max(seq, newest))
