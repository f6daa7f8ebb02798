"""Jobs as people handle them: added with everything resolved, changed, paused, removed."""

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hermes.app.secret_redactor import SecretRedactor
from hermes.core.bus import Bus
from hermes.core.channels import Address
from hermes.core.errors import ScheduleError, SettingsError
from hermes.core.events import Event
from hermes.core.events.jobs import (
    SCHEDULE_RUN,
    JobAdded,
    JobChanged,
    JobDue,
    JobPaused,
    JobRemoved,
    JobResumed,
    JobSchedule,
    JobSpec,
)
from hermes.core.jobs import Job, JobTable, occurrence_id
from hermes.core.messages import AttachedText, Value
from hermes.core.protocols import Journal
from hermes.plumbing.files import is_locked
from hermes.plumbing.problems import closest_name
from hermes.scheduler.cron import describe_schedule, find_zone, next_times
from hermes.scheduler.due import settle_rows
from hermes.scheduler.grammar import ScheduleReading
from hermes.scheduler.phrases import parse_schedule
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.plumbing.addresses import AddressGuard

BUILT_IN_JOBS = ("health", "audit", "briefing", "review")
BRIEFING_LATE_S = 4 * 3600.0
SHOWN_TIMES = 5
MAX_NAME_CHARS = 40
SETTLE_DELAY = timedelta(seconds=60)
"""A running scheduler writes the rows of the last moments itself."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_DELIVERY = re.compile(r"(?s)(?P<task>.+?)\s+Send results to (?P<to>[A-Za-z]\S*)\.\s*")
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class LocalZone(Value, frozen=True):
    name: str
    source: str
    """Where it comes from, in words."""


class JobPreview(Value, kw_only=True, frozen=True):
    """The meaning of a schedule, shown before and after a job is added."""

    meaning: str
    zone: str
    times: tuple[datetime, ...]
    assumptions: tuple[str, ...] = ()


def local_zone(loaded: LoadedSettings) -> LocalZone:
    """The zone of jobs that name none. Raises `ScheduleError` when the settings name no zone."""
    if chosen := loaded.settings.schedule.zone:
        return LocalZone(find_zone(chosen).key, "schedule.zone")
    given = (loaded.secrets.get("TZ") or "").removeprefix(":")
    if given and "/" in given and not given.startswith("/"):
        return LocalZone(find_zone(given).key, "TZ")
    linked = str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2]
    if linked:
        return LocalZone(find_zone(linked).key, "this machine")
    return LocalZone("UTC", "this machine, which names no other")


def zone_note(loaded: LoadedSettings, zone: str) -> str:
    """A container usually has UTC, whatever the people around it have."""
    if zone not in ("UTC", "Etc/UTC") or loaded.settings.schedule.zone:
        return ""
    return "this machine has UTC; if your day is another, set schedule.zone, or name a zone"


def read_schedule(loaded: LoadedSettings, text: str, zone: str = "") -> ScheduleReading:
    """Raises `ScheduleError`."""
    return parse_schedule(text, datetime.now(UTC), zone or local_zone(loaded).name)


def preview_schedule(schedule: JobSchedule, assumptions: Sequence[str] = ()) -> JobPreview:
    zone = find_zone(schedule.zone)
    times = next_times(schedule, datetime.now(UTC), SHOWN_TIMES)
    return JobPreview(
        meaning=describe_schedule(schedule),
        zone=schedule.zone,
        times=tuple(each.astimezone(zone) for each in times),
        assumptions=tuple(assumptions),
    )


def split_delivery(task: str) -> tuple[str, str]:
    """The task, and the address that its last sentence names: `Send results to Telegram.`"""
    match = _DELIVERY.fullmatch(task)
    if match is None:
        return task, ""
    channel, colon, rest = match["to"].partition(":")
    return match["task"], channel.lower() + colon + rest


def resolve_address(loaded: LoadedSettings, text: str) -> str:
    """The address of results, checked. Raises `ScheduleError` where nothing could be delivered."""
    from hermes.gateway.manifest import configured_channels

    if not text:
        return ""
    address = Address.parse(text)
    notices = loaded.settings.sre.notices
    sinks = [each.name or each.kind for each in notices.sinks] + (["log"] if notices.log else [])
    channels = configured_channels(loaded.settings.channels, loaded.secrets.get)
    if address.channel in channels:
        found = channels[address.channel]
        if found.missing:
            wanted = ", ".join(found.missing)
            raise ScheduleError(f"{address.channel} is not configured: {wanted} is missing")
        if not address.chat and not found.settings.home_channel:
            raise ScheduleError(
                f"{address.channel} has no home chat; set channels.{address.channel}.home_channel, "
                f"or name the chat: {address.channel}:CHAT"
            )
        return str(address)
    if text in sinks:
        return text
    if address.channel in loaded.settings.channels.__struct_fields__:
        raise ScheduleError(
            f"{address.channel} is not configured: `hermes setup` does it, and `hermes channels` "
            "shows what it needs"
        )
    known = ", ".join([*channels, *sinks])
    raise ScheduleError(
        f"results cannot be delivered to {text!r}: there is no such channel; there are: {known}"
    )


def job_name(text: str, taken: Sequence[str]) -> str:
    """A short name from the first words of a task."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    name = "-".join(words[:4])[:MAX_NAME_CHARS].strip("-") or "job"
    number = 2
    base = name
    while name in taken or name in BUILT_IN_JOBS:
        name, number = f"{base}-{number}", number + 1
    return name


def build_task_spec(
    schedule: JobSchedule, task: str, taken: Sequence[str], *, name: str = "", deliver: str = ""
) -> JobSpec:
    """A job of instructions; their last sentence may name the address of the results.

    Raises `ScheduleError`.
    """
    words, named = split_delivery(task)
    if named and deliver and named != deliver:
        raise ScheduleError(f"the task says results to {named}, and the address is {deliver}")
    return JobSpec(
        name=name or job_name(words, taken), schedule=schedule, task=words, deliver=deliver or named
    )


def builtin_jobs(loaded: LoadedSettings) -> list[JobSpec]:
    """Jobs of Hermes itself, from the settings. Raises `ScheduleError`."""
    settings, zone = loaded.settings, local_zone(loaded).name
    found = []
    if settings.sre.health.every > 0:
        every = JobSchedule(
            text="sre.health.every", zone=zone, every_s=settings.sre.health.every, anchor=_EPOCH
        )
        found.append(JobSpec(name="health", builtin="health", schedule=every))
    texts = {
        "audit": settings.schedule.audit,
        "briefing": settings.sre.notices.briefing
        and f"every day at {settings.sre.notices.briefing}",
        "review": settings.schedule.review,
    }
    for name, text in texts.items():
        if text:
            schedule = read_schedule(loaded, text, zone).schedule
            if schedule.every_s:  # the same after each start
                schedule = replace(schedule, anchor=_EPOCH)
            late_s = BRIEFING_LATE_S if name == "briefing" else 0.0
            found.append(JobSpec(name=name, builtin=name, schedule=schedule, late_s=late_s))
    return found


async def read_jobs(loaded: LoadedSettings, journal: Journal) -> JobTable:
    table = JobTable(builtin_jobs(loaded))
    await table.read(journal)
    return table


def find_job(table: JobTable, name: str) -> Job:
    """Raises `ScheduleError` with the nearest name."""
    if name in table.jobs:
        return table.jobs[name]
    near = closest_name(name, table.jobs)
    hint = f"did you mean {near}?" if near else "`hermes cron list` shows them"
    raise ScheduleError(f"there is no job {name!r}; {hint}")


def describe_job(job: Job) -> dict[str, Any]:
    """Describe a job for a list, as a plain value."""
    preview = preview_schedule(job.spec.schedule)
    return {
        "job": job.name,
        "builtin": bool(job.spec.builtin),
        "spec": job.spec,
        "author": job.by,
        "meaning": preview.meaning,
        "zone": preview.zone,
        "next": preview.times if job.paused is None else (),
        "paused": job.paused is not None,
        "running": [each.id for each in job.open],
        "last": job.last,
    }


def scheduler_is_running(loaded: LoadedSettings) -> bool:
    """Return whether a process of this home runs what is due."""
    return is_locked(loaded.home / "locks" / f"{SCHEDULE_RUN}.lock")


def heartbeat_guard(loaded: LoadedSettings) -> "AddressGuard":
    """The addresses that a heartbeat may be sent to: a job must not reach private ones through
    it. Raises `SettingsError`."""
    from hermes.plumbing.addresses import AddressGuard, guard_for, guard_for_addresses

    own = guard_for([loaded.settings.schedule.heartbeat_url])
    try:
        opened = guard_for_addresses(loaded.settings.tools.private_addresses)
    except ValueError as error:
        raise SettingsError(f"tools.private_addresses: {error}") from error
    return AddressGuard(opened.allowed | own.allowed)


def _check_heartbeat_url(loaded: LoadedSettings, url: str) -> None:
    """Raises `ScheduleError` for what can never be requested; names are resolved by each run."""
    from hermes.plumbing.addresses import HttpAddressForbidden

    if not url:
        return
    if not url.startswith(("http://", "https://")):
        raise ScheduleError(
            f"{url!r} is no address of a heartbeat: it begins with http:// or https://"
        )
    try:
        heartbeat_guard(loaded).check_number(url)
    except ValueError as error:
        raise ScheduleError(f"{url!r} is no address: {error}") from error
    except HttpAddressForbidden as error:
        raise ScheduleError(
            f"{error}; `tools.private_addresses` opens single ones (host:port)"
        ) from error


class JobEditor:
    """Changes jobs through events. Everything is checked before anything is written."""

    def __init__(self, loaded: LoadedSettings, journal: Journal, by: str) -> None:
        self._loaded, self.journal, self._by = loaded, journal, by
        self.bus = Bus(journal, clean=SecretRedactor(loaded).clean_event)

    async def table(self) -> JobTable:
        return await read_jobs(self._loaded, self.journal)

    async def add(self, spec: JobSpec) -> Job:
        """Raises `ScheduleError`."""
        table = await self.table()
        known = table.jobs.get(spec.name)
        if known is not None and not known.finished:
            raise ScheduleError(
                f"there is a job {spec.name!r} already; choose another name, or remove it first"
            )
        spec = self.check(spec, table)
        await self._publish(JobAdded(run=SCHEDULE_RUN, spec=spec, by=self._by))
        return (await self.table()).jobs[spec.name]

    async def change(self, spec: JobSpec) -> Job:
        table = await self.table()
        job = self._own(find_job(table, spec.name), "changed")
        spec = self.check(spec, table)
        settled = settle_rows(job, datetime.now(UTC) - SETTLE_DELAY, "the job was changed")
        await self._publish(*settled, JobChanged(run=SCHEDULE_RUN, spec=spec, by=self._by))
        return (await self.table()).jobs[spec.name]

    async def pause(self, name: str, reason: str = "") -> Job:
        job = find_job(await self.table(), name)
        if job.paused is None:
            settled = settle_rows(job, datetime.now(UTC) - SETTLE_DELAY, "the job was paused")
            paused = JobPaused(run=SCHEDULE_RUN, job=name, by=self._by, reason=reason)
            await self._publish(*settled, paused)
        return (await self.table()).jobs[name]

    async def resume(self, name: str) -> Job:
        job = find_job(await self.table(), name)
        if job.paused is not None:
            settled = settle_rows(job, datetime.now(UTC), "the job was paused")
            await self._publish(*settled, JobResumed(run=SCHEDULE_RUN, job=name, by=self._by))
        return (await self.table()).jobs[name]

    async def remove(self, name: str) -> None:
        self._own(find_job(await self.table(), name), "removed")
        await self._publish(JobRemoved(run=SCHEDULE_RUN, job=name, by=self._by))

    async def request(
        self, name: str, attached: Sequence[AttachedText] = (), cause: Event | None = None
    ) -> JobDue:
        """A run outside of the schedule, now. `attached`: untrusted text that came with the
        request; `cause` is recorded together with it."""
        job = find_job(await self.table(), name)
        now = datetime.now(UTC)
        # Two causes in one second are two runs; a person who presses twice means one.
        ending = f"-{secrets.token_hex(4)}" if cause is not None else "-by-hand"
        due = JobDue(
            run=SCHEDULE_RUN,
            at=now,
            job=job.name,
            occurrence=occurrence_id(job.name, now) + ending,
            due=now,
            by=self._by or "unknown",
            attached=tuple(attached),
        )
        await self._publish(*((cause, due) if cause is not None else (due,)))
        return due

    def check(self, spec: JobSpec, table: JobTable) -> JobSpec:
        """The job with its address resolved. Raises `ScheduleError`."""
        if not _NAME.fullmatch(spec.name) or len(spec.name) > MAX_NAME_CHARS:
            raise ScheduleError(
                f"{spec.name!r} is no name of a job: small letters, digits, dots and hyphens, at "
                f"most {MAX_NAME_CHARS}"
            )
        if spec.name in BUILT_IN_JOBS or spec.builtin:
            raise ScheduleError(
                f"{spec.name} is a built-in job: pause it, or change its time in the settings"
            )
        if bool(spec.task.strip()) == bool(spec.command.strip()):
            raise ScheduleError("a job has either instructions or a command")
        for other in spec.context_from:
            find_job(table, other)
        _check_heartbeat_url(self._loaded, spec.heartbeat_url)
        return replace(spec, deliver=resolve_address(self._loaded, spec.deliver))

    def _own(self, job: Job, verb: str) -> Job:
        if job.spec.builtin:
            raise ScheduleError(
                f"{job.name} is a built-in job and cannot be {verb}; `hermes cron pause "
                f"{job.name}` stops it, and the settings have its time"
            )
        return job

    async def _publish(self, *events: Event) -> None:
        await self.bus.publish(*events)
