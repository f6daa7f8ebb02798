"""Jobs of the scheduler for callers of the API, through the functions of the command."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict, replace

from hermes.app.jobs import (
    JobEditor,
    describe_job,
    find_job,
    job_name,
    preview_schedule,
    read_schedule,
    scheduler_is_running,
    split_delivery,
)
from hermes.app.people import load_people
from hermes.app.schedule.history import read_history
from hermes.core.errors import PolicyDenied, ScheduleError
from hermes.core.events.jobs import JobSpec
from hermes.core.jobs import Job
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings
from hermes.web.api_routes import UnknownIdError
from hermes.web.job_types import (
    JobChange,
    JobDetail,
    JobHistoryEntry,
    JobPage,
    NewJob,
    RequestedRun,
    ScheduleMeaning,
)

NOT_OF_THE_SPEC = ("schedule", "zone", "paused", "reason")
"""Fields of a change that are not taken over as they are."""


class EditedJobs:
    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._loaded = loaded
        self._journal = journal

    async def list_jobs(self) -> JobPage:
        table = await JobEditor(self._loaded, self._journal, "").table()
        return JobPage(
            jobs=[_detail(job) for job in table.jobs.values() if not job.finished],
            scheduler_running=scheduler_is_running(self._loaded),
        )

    async def show(self, name: str) -> JobDetail:
        return _detail(await self._find(name))

    async def add(self, job: NewJob, *, person: str) -> JobDetail:
        editor = await self._editor(person)
        table = await editor.table()
        return _detail(await editor.add(self._spec(job, list(table.jobs))))

    async def change(self, name: str, change: JobChange, *, person: str) -> JobDetail:
        editor, job = await self._editor(person), await self._find(name)
        given = {
            field: value
            for field, value in asdict(change).items()
            if value is not msgspec.UNSET and field not in NOT_OF_THE_SPEC
        }
        if change.schedule is not msgspec.UNSET:
            zone = change.zone if change.zone is not msgspec.UNSET else job.spec.schedule.zone
            given["schedule"] = read_schedule(self._loaded, change.schedule, zone).schedule
        elif change.zone is not msgspec.UNSET:
            raise ScheduleError("a zone is read together with `schedule`; give both")
        if given:
            job = await editor.change(replace(job.spec, **given))
        if change.paused is True:
            job = await editor.pause(name, change.reason)
        elif change.paused is False:
            job = await editor.resume(name)
        return _detail(job)

    async def remove(self, name: str, *, person: str) -> None:
        editor = await self._editor(person)
        await self._find(name)
        await editor.remove(name)

    async def request(self, name: str, *, person: str) -> RequestedRun:
        editor = await self._editor(person)
        await self._find(name)
        due = await editor.request(name)
        return RequestedRun(
            job=due.job,
            occurrence=due.occurrence,
            due=due.due,
            scheduler_running=scheduler_is_running(self._loaded),
        )

    async def history(self, name: str, *, limit: int) -> Sequence[JobHistoryEntry]:
        await self._find(name)
        rows = (await read_history(self._journal, name))[::-1][:limit]
        return [msgspec.convert(asdict(row), JobHistoryEntry) for row in rows]

    def parse(self, text: str, zone: str) -> ScheduleMeaning:
        reading = read_schedule(self._loaded, text, zone)
        preview = preview_schedule(reading.schedule, reading.assumptions)
        return ScheduleMeaning(
            meaning=preview.meaning,
            zone=preview.zone,
            times=list(preview.times),
            assumptions=list(preview.assumptions),
        )

    async def _find(self, name: str) -> Job:
        table = await JobEditor(self._loaded, self._journal, "").table()
        try:
            return find_job(table, name)
        except ScheduleError as error:
            raise UnknownIdError(str(error)) from error

    async def _editor(self, person: str) -> JobEditor:
        if problem := (await load_people(self._loaded, self._journal)).objection(person):
            raise PolicyDenied(problem)
        return JobEditor(self._loaded, self._journal, person)

    def _spec(self, job: NewJob, taken: Sequence[str]) -> JobSpec:
        schedule = read_schedule(self._loaded, job.schedule, job.zone).schedule
        task, named = split_delivery(job.task)
        if named and job.deliver and named != job.deliver:
            raise ScheduleError(f"the task says results to {named}, and `deliver` {job.deliver}")
        given = {
            field: value
            for field, value in asdict(job).items()
            if field not in ("zone", "schedule", "task", "deliver", "name")
        }
        return JobSpec(
            name=job.name or job_name(task or job.command, taken),
            schedule=schedule,
            task=task,
            deliver=job.deliver or named,
            **given,
        )


def _detail(job: Job) -> JobDetail:
    return JobDetail(**describe_job(job))
