"""Scheduled jobs with their meaning, next times, last outcome and delivery; and changes to them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import anyio

from hermes.app.incidents.views import PlainObject
from hermes.app.jobs import (
    JobEditor,
    build_task_spec,
    describe_job,
    find_job,
    preview_schedule,
    read_jobs,
    read_schedule,
    scheduler_is_running,
    zone_note,
)
from hermes.app.people import require_known
from hermes.app.schedule.history import JobHistoryRow, read_history
from hermes.core.errors import HermesError, ScheduleError
from hermes.core.events.jobs import JobSpec
from hermes.core.jobs import JobTable
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings

HISTORY_PERIOD = timedelta(days=30)
MAX_TASK_CHARS = 4_000
MAX_JOBS = 200


class JournalJobs:
    """Fulfils what the page of schedules shows and does."""

    def __init__(self, loaded: LoadedSettings, journal: JournalStore) -> None:
        self._loaded, self._journal = loaded, journal
        self._table: JobTable | None = None
        self._reading = anyio.Lock()

    async def _current_jobs(self) -> JobTable:
        """One table for all requests: each reads only what was written since the last one."""
        async with self._reading:
            if self._table is None:
                self._table = await read_jobs(self._loaded, self._journal)
            else:
                await self._table.read(self._journal)
            return self._table

    async def jobs(self, *, limit: int = MAX_JOBS, skip: int = 0) -> PlainObject:
        """Jobs that may be due again, those of people first."""
        table = await self._current_jobs()
        alive = [job for job in table.jobs.values() if not job.finished]
        alive.sort(key=lambda job: (bool(job.spec.builtin), job.name))
        rows = await read_history(self._journal, since=datetime.now(UTC) - HISTORY_PERIOD)
        last = {row.job: row for row in rows if row.outcome not in ("due", "running")}
        found = [
            {**describe_job(job), "last_row": _history_data(last.get(job.name))}
            for job in alive[skip : skip + limit]
        ]
        return {"jobs": found, "count": len(alive), "scheduled": scheduler_is_running(self._loaded)}

    async def job(self, name: str) -> PlainObject:
        """One job. Raises `ScheduleError`."""
        return describe_job(find_job(await self._current_jobs(), name))

    async def history(self, job: str = "", *, limit: int) -> Sequence[PlainObject]:
        """Return what became of the last due times, the newest first."""
        since = datetime.now(UTC) - HISTORY_PERIOD
        rows = await read_history(self._journal, job, since)
        return [data for row in reversed(rows[-limit:]) if (data := _history_data(row))]

    def preview(self, schedule: str, *, zone: str = "") -> PlainObject:
        """Meaning, zone, next times and what was assumed. Raises `ScheduleError`."""
        reading = read_schedule(self._loaded, schedule, zone)
        shown = preview_schedule(reading.schedule, reading.assumptions)
        return {
            "meaning": shown.meaning,
            "zone": shown.zone,
            "times": list(shown.times),
            "assumptions": list(shown.assumptions),
            "note": zone_note(self._loaded, shown.zone),
        }

    async def check(
        self, schedule: str, task: str, *, name: str, deliver: str, zone: str, person: str
    ) -> PlainObject:
        """The job as it would be added. Raises `HermesError`."""
        editor, spec = await self._draft(schedule, task, name, deliver, zone, person)
        checked = editor.check(spec, await editor.table())
        return {
            **self.preview(schedule, zone=zone),
            "name": checked.name,
            "task": checked.task,
            "deliver": checked.deliver,
        }

    async def add(
        self, schedule: str, task: str, *, name: str, deliver: str, zone: str, person: str
    ) -> str:
        """Raises `HermesError`."""
        editor, spec = await self._draft(schedule, task, name, deliver, zone, person)
        job = await editor.add(spec)
        times = preview_schedule(job.spec.schedule).times
        due = f"; it runs next {times[0]:%a %Y-%m-%d %H:%M} {job.spec.schedule.zone}"
        return f"{job.name} is added{due if times else ''}"

    async def _draft(
        self, schedule: str, task: str, name: str, deliver: str, zone: str, person: str
    ) -> tuple[JobEditor, JobSpec]:
        editor = await self._editor(person)
        reading = read_schedule(self._loaded, schedule, zone)
        if len(task) > MAX_TASK_CHARS:
            raise ScheduleError(f"instructions have at most {MAX_TASK_CHARS:,} characters")
        taken = list((await editor.table()).jobs)
        return editor, build_task_spec(
            reading.schedule, task.strip(), taken, name=name, deliver=deliver
        )

    async def run(self, name: str, *, person: str) -> str:
        """Ask the running scheduler to run it now. Raises `HermesError`."""
        editor = await self._editor(person)
        find_job(await editor.table(), name)
        if not scheduler_is_running(self._loaded):
            raise HermesError(
                "no process runs the schedule now: start `hermes up`, or run the job in a "
                f"terminal: hermes cron run {name}"
            )
        await editor.request(name)
        return f"{name} runs now; its outcome appears here"

    async def pause(self, name: str, *, person: str, reason: str = "") -> str:
        """Raises `HermesError`."""
        await (await self._editor(person)).pause(name, reason)
        return f"{name} is paused; times until it is resumed are not due"

    async def resume(self, name: str, *, person: str) -> str:
        """Raises `HermesError`."""
        job = await (await self._editor(person)).resume(name)
        times = preview_schedule(job.spec.schedule).times
        return f"{name} is resumed" + (f"; next {times[0]:%a %Y-%m-%d %H:%M}" if times else "")

    async def remove(self, name: str, *, person: str) -> str:
        """Raises `HermesError`."""
        await (await self._editor(person)).remove(name)
        return f"{name} is removed; its history stays"

    async def _editor(self, person: str) -> JobEditor:
        who = await require_known(self._loaded, self._journal, person)
        return JobEditor(self._loaded, self._journal, who)


def _history_data(row: JobHistoryRow | None) -> PlainObject | None:
    if row is None:
        return None
    return {
        "job": row.job,
        "due": row.due.isoformat(),
        "outcome": row.outcome,
        "count": row.count,
        "late_s": row.late_s,
        "seconds": row.seconds,
        "reason": row.reason,
        "text": row.text,
        "session": row.session,
        "by": row.by,
        "delivery": row.delivery,
    }
