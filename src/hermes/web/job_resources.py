"""`/api/jobs`: the jobs of the scheduler, for programs."""

from collections.abc import Sequence
from typing import Protocol

from hermes.plumbing.http_service import HttpRequest
from hermes.web.access import AccessControl
from hermes.web.api_routes import ApiRoute
from hermes.web.job_types import (
    JobChange,
    JobDetail,
    JobHistoryEntry,
    JobHistoryPage,
    JobPage,
    NewJob,
    RemovedJob,
    RequestedRun,
    ScheduleMeaning,
    ScheduleText,
)
from hermes.web.request_body import decode_body
from hermes.web.resources import LIMIT, page_size


class ApiJobs(Protocol):
    """Each method may raise `HermesError`, and `UnknownIdError` for a name."""

    async def list_jobs(self) -> JobPage: ...
    async def show(self, name: str) -> JobDetail: ...
    async def add(self, job: NewJob, *, person: str) -> JobDetail: ...
    async def change(self, name: str, change: JobChange, *, person: str) -> JobDetail: ...
    async def remove(self, name: str, *, person: str) -> None: ...
    async def request(self, name: str, *, person: str) -> RequestedRun: ...
    async def history(self, name: str, *, limit: int) -> Sequence[JobHistoryEntry]: ...
    def parse(self, text: str, zone: str) -> ScheduleMeaning: ...


class JobResources:
    def __init__(self, jobs: ApiJobs, access: AccessControl) -> None:
        self._jobs = jobs
        self._access = access

    def routes(self) -> list[ApiRoute]:
        return [*self._collection_routes(), *self._job_routes()]

    def _collection_routes(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                method="GET", path="/api/jobs", right="read", respond=self._list,
                about="All jobs: what they mean, when they run next, how they ended last.",
                answer=JobPage,
            ),
            ApiRoute(
                method="POST", path="/api/jobs", right="act", respond=self._add,
                about="Add a job; words that are not understood are refused.",
                body=NewJob, answer=JobDetail,
            ),
            ApiRoute(
                method="POST", path="/api/jobs/parse", right="read", respond=self._parse,
                about="What a schedule means, and its next times; nothing is changed.",
                body=ScheduleText, answer=ScheduleMeaning, changes=False,
            ),
        ]  # fmt: skip

    def _job_routes(self) -> list[ApiRoute]:
        one = "/api/jobs/{id}"
        return [
            ApiRoute(
                method="GET", path=one, right="read", respond=self._show,
                about="One job.", answer=JobDetail,
            ),
            ApiRoute(
                method="PATCH", path=one, right="act", respond=self._change,
                about="Change, pause or resume a job.", body=JobChange, answer=JobDetail,
            ),
            ApiRoute(
                method="DELETE", path=one, right="act", respond=self._remove,
                about="Remove a job; its history stays.", answer=RemovedJob,
            ),
            ApiRoute(
                method="POST", path=f"{one}/run", right="act", respond=self._run,
                about="Run a job now, outside of its schedule.", answer=RequestedRun,
            ),
            ApiRoute(
                method="GET", path=f"{one}/history", right="read", respond=self._history,
                about="What became of every due time, the newest first.",
                query=(LIMIT,), answer=JobHistoryPage,
            ),
        ]  # fmt: skip

    async def _list(self, request: HttpRequest) -> object:
        return await self._jobs.list_jobs()

    async def _show(self, request: HttpRequest) -> object:
        return await self._jobs.show(request.params["id"])

    async def _add(self, request: HttpRequest) -> object:
        job = decode_body(request, NewJob)
        return await self._jobs.add(job, person=self._access.caller(request).person)

    async def _change(self, request: HttpRequest) -> object:
        change, person = decode_body(request, JobChange), self._access.caller(request).person
        return await self._jobs.change(request.params["id"], change, person=person)

    async def _remove(self, request: HttpRequest) -> object:
        name = request.params["id"]
        await self._jobs.remove(name, person=self._access.caller(request).person)
        return RemovedJob(job=name)

    async def _run(self, request: HttpRequest) -> object:
        person = self._access.caller(request).person
        return await self._jobs.request(request.params["id"], person=person)

    async def _history(self, request: HttpRequest) -> object:
        found = await self._jobs.history(request.params["id"], limit=page_size(request))
        return JobHistoryPage(history=list(found))

    async def _parse(self, request: HttpRequest) -> object:
        asked = decode_body(request, ScheduleText)
        return self._jobs.parse(asked.text, asked.zone)
