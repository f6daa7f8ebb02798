"""The built-in jobs: health rounds, and what else Hermes does on its own at fixed times."""

from collections.abc import Mapping

from msgspec.structs import replace

from hermes.app.schedule.runs import BuiltInJob, JobResult, send_heartbeat
from hermes.core.bus import Bus
from hermes.core.jobs import Job, JobOccurrence
from hermes.settings.load import LoadedSettings
from hermes.sre.health import RunHealthChecks, run_health_round


def standalone_jobs(loaded: LoadedSettings) -> Mapping[str, BuiltInJob]:
    """The built-in jobs where no watch runs: each looks at the host for itself."""

    async def health(job: Job, row: JobOccurrence) -> JobResult:
        from hermes.app.health import check_health_now

        checked, results, _ = await check_health_now(loaded, loaded.home)
        failing = [f"{each.name}: {each.detail}" for each in results if each.ok is False]
        return JobResult(text="\n".join(failing) or f"{checked.checks} checks are fine")

    return {"health": health}


def health_job(loaded: LoadedSettings, bus: Bus, run_checks: RunHealthChecks) -> BuiltInJob:
    """One round of all probes of a watch; after a healthy one the heartbeat is sent."""

    async def health(job: Job, row: JobOccurrence) -> JobResult:
        checked, _ = await run_health_round(run_checks, loaded.settings.sre.health.timeout)
        await bus.publish(replace(checked, due=row.due))
        if checked.ok and loaded.settings.schedule.heartbeat_url:
            await send_heartbeat(loaded.settings.schedule.heartbeat_url)
        failing = ", ".join(checked.failing)
        return JobResult(outcome="nothing" if checked.ok else "ran", text=failing)

    return health
