"""The built-in jobs: health rounds, the hourly audit, the daily briefing, the weekly review."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from hermes.app.schedule.runs import BuiltInJob, JobResult
from hermes.core.bus import Bus
from hermes.core.errors import EnvironmentFailed, StoreError
from hermes.core.events.changes import ChangeSeen, StateRecorded
from hermes.core.events.operations import HealthChecked
from hermes.core.jobs import Job, JobOccurrence
from hermes.core.protocols import Environment, Journal
from hermes.gateway.sinks import send_heartbeat
from hermes.plumbing.files import write_atomically
from hermes.settings.load import LoadedSettings
from hermes.sre.health import RunHealthChecks, run_health_round
from hermes.sre.probes.host_facts import read_host_facts
from hermes.sre.reports.host_audit import (
    DriftItem,
    HostAudit,
    find_risks,
    parse_audit,
    render_audit,
)
from hermes.sre.reports.report_data import list_incidents

AUDIT_FOLDER = "incidents/audits"
AUDITED_TIME = timedelta(weeks=2)
MAX_AUDITS = 24 * AUDITED_TIME.days
"""Audits that are kept: growth is measured over this time."""


def read_audits(loaded: LoadedSettings) -> list[HostAudit]:
    """All kept audits in their order; a damaged file is left out."""
    found = []
    for file in sorted((loaded.home / AUDIT_FOLDER).glob("*.json")):
        try:
            found.append(msgspec.json.decode(file.read_bytes(), type=HostAudit))
        except (OSError, msgspec.DecodeError):
            continue
    return found


def standalone_jobs(loaded: LoadedSettings) -> Mapping[str, BuiltInJob]:
    """The built-in jobs where no watch runs: each looks at the host for itself."""

    async def health(job: Job, row: JobOccurrence) -> JobResult:
        from hermes.app.checks.health import check_health_now

        checked, results, _ = await check_health_now(loaded, loaded.home)
        failing = [f"{each.name}: {each.detail}" for each in results if each.ok is False]
        return JobResult(text="\n".join(failing) or f"{checked.checks} checks are fine")

    async def run(job: Job, row: JobOccurrence) -> JobResult:
        from hermes.app.tools.tooling import configured_environment
        from hermes.memory.store import open_journal

        async with (
            configured_environment(loaded, loaded.home) as environment,
            open_journal(loaded.store) as journal,
        ):
            return await report_jobs(loaded, journal, environment)[job.spec.builtin](job, row)

    return {"health": health, "audit": run, "briefing": run, "review": run}


def health_job(loaded: LoadedSettings, bus: Bus, run_checks: RunHealthChecks) -> BuiltInJob:
    """Make the job that runs one round of all probes of a watch; after a healthy round it sends the
    heartbeat."""

    async def health(job: Job, row: JobOccurrence) -> JobResult:
        checked, _ = await run_health_round(run_checks, loaded.settings.sre.health.timeout)
        with suppress(StoreError):  # a full disk is reported by its probe
            await bus.publish(replace(checked, due=row.due))
        if checked.ok and loaded.settings.schedule.heartbeat_url:
            await send_heartbeat(loaded.settings.schedule.heartbeat_url)
        failing = ", ".join(checked.failing)
        return JobResult(outcome="nothing" if checked.ok else "ran", text=failing)

    return health


def report_jobs(
    loaded: LoadedSettings, journal: Journal, environment: Environment
) -> dict[str, BuiltInJob]:
    async def audit(job: Job, row: JobOccurrence) -> JobResult:
        made = await audit_host(journal, environment)
        save_audit(loaded, made)
        now = datetime.now(UTC)
        risks = find_risks(read_audits(loaded), now)
        if made.problem:
            return JobResult(outcome="failed", reason=made.problem)
        text = "\n".join(f"{name}: {words}" for name, words in risks)
        return JobResult(outcome="ran" if risks else "nothing", text=text)

    async def briefing(job: Job, row: JobOccurrence) -> JobResult:
        from hermes.sre.reports.periodic import (  # with charts: too large to wait for a day
            BRIEFING_KINDS,
            DAY,
            briefing_lines,
            is_recent,
            render_lines,
        )

        now = datetime.now(UTC)
        known = [each for each in await list_incidents(journal) if is_recent(each, now - DAY)]
        events = [one.event async for one in journal.read(kinds=BRIEFING_KINDS, since=now - DAY)]
        lines = briefing_lines(known, find_risks(read_audits(loaded), now), events, now)
        if not lines:
            return JobResult(outcome="nothing", text="a quiet day")
        still = sum(each.unresolved for each in known)
        title = f"📋 BRIEFING {row.due.astimezone():%Y-%m-%d}: {len(known)} incidents, {still} open"
        return JobResult(text=render_lines(title, lines))

    async def review(job: Job, row: JobOccurrence) -> JobResult:
        from hermes.sre.reports.periodic import REVIEW_KINDS, WEEK, render_lines, review_lines

        now = datetime.now(UTC)
        incidents = await list_incidents(journal)
        week = [each for each in incidents if each.details.opened_at >= now - WEEK]
        before = [
            each for each in incidents if now - 2 * WEEK <= each.details.opened_at < now - WEEK
        ]
        events = [one.event async for one in journal.read(kinds=REVIEW_KINDS, since=now - WEEK)]
        lines = review_lines(week, before, events)
        if not lines:
            return JobResult(outcome="nothing", text="a quiet week")
        title = f"📈 REVIEW of the week to {row.due.astimezone():%Y-%m-%d}"
        return JobResult(text=render_lines(title, lines))

    return {"audit": audit, "briefing": briefing, "review": review}


async def audit_host(journal: Journal, environment: Environment) -> HostAudit:
    """Looks at the host with one read-only script, and adds what the journal knows."""
    now = datetime.now(UTC)
    try:
        made = parse_audit(await read_host_facts(environment), now)
    except EnvironmentFailed as error:
        made = HostAudit(at=now, problem=str(error))
    checked: HealthChecked | None = None
    drift: dict[str, DriftItem] = {}
    known_good_at: datetime | None = None
    kinds = ("health.checked", "state.recorded", "change.seen")
    async for recorded in journal.read(kinds=kinds, since=now - AUDITED_TIME):
        match event := recorded.event:
            case HealthChecked():
                checked = event
            case StateRecorded() if event.source == "known-good":
                known_good_at, drift = event.at, {}
            case ChangeSeen():
                item = f"{event.item_kind} {event.key}"
                drift[item] = DriftItem(item, event.verb, event.author)
            case _:
                pass
    return replace(
        made,
        checks=checked.checks if checked is not None else 0,
        failing=checked.failing if checked is not None else (),
        known_good_at=known_good_at,
        drift=tuple(drift.values()),
    )


def save_audit(loaded: LoadedSettings, audit: HostAudit) -> None:
    folder = loaded.home / AUDIT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{audit.at:%Y-%m-%dT%H%M%S}.json"
    write_atomically(file, msgspec.json.encode(audit))
    for old in sorted(folder.glob("*.json"))[:-MAX_AUDITS]:
        old.unlink(missing_ok=True)


def audit_lines(loaded: LoadedSettings) -> list[tuple[str, str]]:
    """The last audit for people; empty when there is none yet."""
    audits = read_audits(loaded)
    return render_audit(audits, datetime.now(UTC)) if audits else []
