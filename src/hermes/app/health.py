"""Runs one round of health checks and records it."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.app.learned_checks import learned_results, read_learned_checks
from hermes.app.probes import AdmittedProbes, declared_probes, select_admitted_probes
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.events.operations import HealthChecked, ReserveRestored
from hermes.core.incident import WATCH_RUN
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings
from hermes.sre.health import HealthCheckResult, RunHealthChecks, run_health_round
from hermes.sre.probes.alerts import alert_fingerprint, read_firing_alerts
from hermes.sre.probes.inventory import InventoryStore, without_service
from hermes.sre.probes.probe import COMPARING_KINDS
from hermes.sre.probes.probe_list import build_probe_list
from hermes.sre.probes.scheduler import ProbeScheduler

JOURNAL_CHECK = "journal"
CHECK_STATES = {"fine": True, "failing": False, "unknown": None}


def probe_rounds(scheduler: ProbeScheduler) -> RunHealthChecks:
    async def once() -> Sequence[HealthCheckResult]:
        return [
            HealthCheckResult(name=each.probe, ok=CHECK_STATES[each.state], detail=each.detail)
            for each in await scheduler.run_once()
        ]

    return once


async def check_health_now(
    loaded: LoadedSettings, folder: Path
) -> tuple[HealthChecked, Sequence[HealthCheckResult], AdmittedProbes]:
    """One round by hand, recorded like any other; a problem of the journal is one of its
    findings."""
    from hermes.app.policy import LazyPolicy, is_run_active
    from hermes.app.tooling import configured_environment
    from hermes.memory.journal.in_memory import InMemoryJournal

    settings = loaded.settings.sre
    async with configured_environment(loaded, folder) as environment:
        policy, known = (
            LazyPolicy(loaded, folder, isolated=environment.isolated),
            declared_probes(loaded),
        )
        store = InventoryStore(loaded.home, environment.target)
        probe_list = await build_probe_list(
            environment, store, settings.probes, declared=known, http_timeout_s=0.5
        )
        asked = await select_admitted_probes(
            loaded, probe_list, policy, environment, found_now=known is None
        )
        nowhere = Bus(InMemoryJournal())  # a single check sends no notification
        scheduler = ProbeScheduler(
            asked.probes, environment, nowhere, home=loaded.home, settings=settings.probes
        )
        checked, found = await run_health_round(probe_rounds(scheduler), settings.health.timeout)
    compared = {
        each.name: alert_fingerprint(each, environment)
        for each in asked.probes
        if each.kind in COMPARING_KINDS
    }
    firing = await _read_firing_alerts(loaded) if compared else {}
    watched = is_run_active(loaded, WATCH_RUN)
    results = [
        _with_alert(each, firing.get(compared.get(each.name, "")), watched=watched)
        for each in found
    ]
    asked = replace(asked, learned=read_learned_checks(loaded, environment.target))
    results += learned_results(asked.learned) if watched else []
    checked = _with_results(checked, results)
    services = {each.name: each.service for each in asked.probes}
    for at, each in enumerate(results):
        if not each.ok and (why := asked.missing.get(services.get(each.name, ""))):
            results[at] = replace(each, detail=f"{each.detail}; {why}")
    if problem := await _record(loaded, checked):
        checked = _with_journal(checked)
        results = [*results, HealthCheckResult(name=JOURNAL_CHECK, ok=False, detail=problem)]
    return checked, results, asked


async def _read_firing_alerts(loaded: LoadedSettings) -> dict[str, AlertRaised]:
    """What the watch has reported and not resolved; nothing when the journal cannot be read."""
    from hermes.memory.store import open_journal

    try:
        async with open_journal(loaded.store) as journal:
            return await read_firing_alerts(journal)
    except StoreError:
        return {}


def _with_alert(
    result: HealthCheckResult, alert: AlertRaised | None, *, watched: bool
) -> HealthCheckResult:
    """What a watch reported, where a single run cannot tell whether it is over."""
    if alert is None or not result.ok:
        return result
    since, reported = f"{alert.since or alert.at:%H:%M:%S} UTC", alert.text.partition("\n")[0]
    if watched:
        return replace(result, ok=False, detail=f"{reported} (reported by the watch since {since})")
    detail = f"failing since {since} when a watch ran last: {reported}"
    return replace(result, ok=None, detail=detail)


def _with_results(checked: HealthChecked, results: Sequence[HealthCheckResult]) -> HealthChecked:
    failing = tuple(each.name for each in results if each.ok is False)
    unknown = tuple(each.name for each in results if each.ok is None)
    return replace(checked, ok=not failing and not unknown, failing=failing, unknown=unknown)


async def _record(loaded: LoadedSettings, checked: HealthChecked) -> str:
    """The problem of the journal; empty when it can be written and its disk has space."""
    from hermes.memory.store import open_journal

    try:
        async with open_journal(loaded.store) as journal:
            problem = await _reserve_in_use(journal)
            found = _with_journal(checked) if problem else checked
            await Bus(journal, clean=SecretRedactor(loaded).clean_event).publish(found)
    except StoreError as error:
        return str(error)
    return problem


async def _reserve_in_use(journal: Journal) -> str:
    problem = ""
    async for recorded in journal.read(kinds=("reserve.released", "reserve.restored")):
        since = f"{recorded.event.at:%Y-%m-%d %H:%M:%S} UTC"
        problem = f"its disk is full: the watch uses its reserve since {since}; free some space"
        if isinstance(recorded.event, ReserveRestored):
            problem = ""
    return problem


def _with_journal(checked: HealthChecked) -> HealthChecked:
    return replace(checked, ok=False, failing=(*checked.failing, JOURNAL_CHECK))


async def forget_service(loaded: LoadedSettings, folder: Path, name: str) -> bool:
    """Whether the service was known; in any case it is not probed any more."""
    from hermes.app.tooling import configured_environment

    async with configured_environment(loaded, folder) as environment:
        store = InventoryStore(loaded.home, environment.target)
    known = name in store.load().services
    store.change(lambda before: without_service(before, name))
    return known
