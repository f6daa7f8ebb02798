"""The pages of schedules: all jobs, a new one with its meaning before it is added, and one job."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from hermes.core.errors import HermesError, ScheduleError, StoreError
from hermes.plumbing.http_service import HttpRequest
from hermes.web.api_routes import UnknownIdError
from hermes.web.pages import (
    MAX_ROWS,
    Form,
    FormFields,
    Page,
    PageContext,
    PageSet,
    Submitted,
    Visitor,
)
from hermes.web.pages.paging import page_address, whole_number

SHOWN_OUTCOMES = 20
MAX_FIELD_CHARS = 4_000
FIELDS = ("schedule", "task", "name", "deliver", "zone")


class ChangeJob(Protocol):
    """Changes a job for a person; returns one line about it."""

    async def __call__(self, name: str, *, person: str) -> str: ...


class JobViews(Protocol):
    """Methods may raise `HermesError`; those that change something return one line about it."""

    async def jobs(self, *, limit: int, skip: int) -> Mapping[str, Any]: ...
    async def job(self, name: str) -> Mapping[str, Any]: ...
    async def history(self, job: str = "", *, limit: int) -> Sequence[Mapping[str, Any]]: ...

    async def check(
        self, schedule: str, task: str, *, name: str, deliver: str, zone: str, person: str
    ) -> Mapping[str, Any]:
        """The job as it would be added."""
        ...

    async def add(
        self, schedule: str, task: str, *, name: str, deliver: str, zone: str, person: str
    ) -> str: ...

    async def run(self, name: str, *, person: str) -> str: ...
    async def pause(self, name: str, *, person: str, reason: str = "") -> str: ...
    async def resume(self, name: str, *, person: str) -> str: ...
    async def remove(self, name: str, *, person: str) -> str: ...


def schedule_pages(views: JobViews) -> PageSet:
    async def show_all(request: HttpRequest, visitor: Visitor) -> PageContext:
        skip = whole_number(request, "skip")
        found = await views.jobs(limit=MAX_ROWS, skip=skip)
        more = skip + MAX_ROWS < found["count"]
        return {
            "jobs": found["jobs"],
            "older": page_address(request, skip=skip + MAX_ROWS) if more else "",
            "scheduled": found["scheduled"],
            "outcomes": await views.history(limit=SHOWN_OUTCOMES),
            "draft": dict.fromkeys(FIELDS, ""),
        }

    async def show_draft(request: HttpRequest, visitor: Visitor) -> PageContext:
        """Nothing is added by looking: the page repeats what was understood."""
        draft = {name: request.query.get(name, "").strip()[:MAX_FIELD_CHARS] for name in FIELDS}
        if not draft["schedule"] and not draft["task"]:
            return {"draft": draft, "job": None, "problem": ""}
        try:
            job = await views.check(**draft, person=visitor.person)
        except StoreError:
            raise
        except HermesError as error:
            return {"draft": draft, "job": None, "problem": str(error)}
        return {"draft": draft, "job": job, "problem": ""}

    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        name = request.params["name"]
        try:
            job = await views.job(name)
        except ScheduleError as error:
            raise UnknownIdError(str(error)) from error
        return {"job": job, "outcomes": await views.history(name, limit=MAX_ROWS)}

    async def add(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        given = {name: fields.get(name, "").strip()[:MAX_FIELD_CHARS] for name in FIELDS}
        return Submitted("/schedules", await views.add(**given, person=visitor.person))

    live = ("job.", "schedule.")
    return PageSet(
        pages=[
            Page("schedules", "/schedules", "schedules.html", show_all, live=live),
            Page("schedules", "/schedules/new", "new_job.html", show_draft),
            Page("schedules", "/schedules/job/{name}", "job.html", show, live=live),
        ],
        forms=[
            Form("/schedules/add", add),
            _change_form("run", views.run),
            _change_form("pause", views.pause),
            _change_form("resume", views.resume),
            _change_form("remove", views.remove),
        ],
    )


def _change_form(verb: str, change: ChangeJob) -> Form:
    async def submit(request: HttpRequest, visitor: Visitor, fields: FormFields) -> Submitted:
        name = request.params["name"]
        text = await change(name, person=visitor.person)
        own = f"/schedules/job/{quote(name, safe='')}"
        back = fields.get("back") == "job" and verb != "remove"
        return Submitted(own if back else "/schedules", text)

    return Form(f"/schedules/job/{{name}}/{verb}", submit)
