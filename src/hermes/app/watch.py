"""`hermes watch`: probes, webhooks and Prometheus in; incidents handled; notifications out."""

import sys
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio.abc import TaskGroup

from hermes.app.alert_sources import open_alert_sources
from hermes.app.application import Application, open_application
from hermes.app.checks.health import probe_rounds
from hermes.app.checks.learned_checks import open_learned_checks
from hermes.app.checks.probes import AdaptProbe, AdmittedProbes, find_probes, follow_services
from hermes.app.journal.upkeep import JournalMonitor, write_warning
from hermes.app.models import ModelReachability
from hermes.app.policy import LazyPolicy, with_waiting_approvals, with_watch_mode
from hermes.app.run_locks import RunLocked, RunLockError, lock_run
from hermes.app.schedule.state_recording import keep_recording
from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.core.errors import ScheduleError, SettingsError, StoreError
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import Environment
from hermes.gateway.outbox import Outbox
from hermes.gateway.sinks import open_sinks
from hermes.gateway.transports import SinkTransport
from hermes.memory.held_copy import HeldCopy, runtime_folder
from hermes.memory.journal.buffered_journal import BufferedJournal
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.sre.coordination import CauseClaims, WorkWithdrawal
from hermes.sre.notifications.notifier import Notifier
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.learned.watching import LearnedObserver
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.triage.triage import Triage
from hermes.sre.watch import WATCH_RUN, IncidentWatch

if TYPE_CHECKING:
    from hermes.gateway.manifest import ConfiguredChannel
    from hermes.sre.context import IncidentContext
    from hermes.sre.model_responder import ModelResponder

NO_MODEL = "none"
"""Given as the model, it means that playbooks work alone."""
FINAL_NOTIFICATIONS_TIMEOUT_S = 5.0
"""Seconds for sending due notifications before the watch ends."""
MODE_TEXT_BY_SET = {
    "observe": "mode observe: nothing is changed; reports say what would have run",
    "suggest": "mode suggest: every change waits for an answer (hermes approvals)",
    "careful": "mode act: changes run under the policy set careful",
}
ALREADY_WATCHING_TEXT = (
    "another watch of this home is running already; end that one first, or use another home"
)

WatchOutput = Literal["terminal", "chats"]
ALL_OUTPUTS: tuple[WatchOutput, ...] = ("terminal", "chats")


@dataclass(frozen=True)
class RunningWatch:
    """A running watch. Valid inside `open_watch`."""

    application: Application
    watch: IncidentWatch
    admitted: AdmittedProbes
    """Its probes, as the policy admitted them."""
    job_settings: LoadedSettings
    """The settings that jobs run under, without the mode of the watch."""
    address: str = ""
    """Addresses that alerts can be sent to."""
    reachability: ModelReachability | None = None
    """None where no model is used."""
    scheduler: ProbeScheduler | None = None
    """Runs the probes; None in a gym box, where nothing is scheduled."""

    async def keep_schedule(self) -> None:
        """Run what is due, or stand by while another process does, until cancelled."""
        from hermes.app.jobs import builtin_jobs
        from hermes.app.schedule.rhythms import health_job, report_jobs
        from hermes.app.schedule.scheduler import keep_schedule

        loaded, application = self.job_settings, self.application
        if self.scheduler is None:
            return
        try:
            specs = builtin_jobs(loaded)
        except ScheduleError as error:
            write_warning(f"the schedule is not kept: {error}")
            return
        environment = application.agent_dependencies.environment
        built_in = {
            "health": health_job(loaded, application.bus, probe_rounds(self.scheduler)),
            **report_jobs(loaded, application.journal, environment),
        }
        await keep_schedule(
            loaded,
            application.bus,
            application.run_locks,
            specs=specs,
            built_in=built_in,
            at_start=("health",),
        )

    async def wait_for_rebuild(self) -> None:
        """Return when the journal has to be opened again: leave the block, and enter another."""
        await _rebuild_event(self.application).wait()

    @property
    def mode_text(self) -> str:
        """A description of what the watch may do, for its first lines."""
        chosen = self.application.loaded.settings.policy.set
        return MODE_TEXT_BY_SET.get(chosen, f"policy set {chosen}")

    @property
    def responder_text(self) -> str:
        """A description of what responds to an incident, as far as it is known."""
        if self.reachability is None:
            return "no model: playbooks and checks only"
        return f"playbooks, then {self.reachability.description}"


@dataclass(frozen=True)
class LazyIncidentHandler:
    """Fulfils `IncidentHandler`. Most of it is loaded with the first incident: a watch without one
    stays small."""

    application: Application
    playbooks: PlaybookCache
    inventory: InventoryStore
    scheduler: ProbeScheduler
    learned: LearnedObserver | None = None
    responder: "ModelResponder | None" = None
    claims: CauseClaims = field(default_factory=CauseClaims)
    triage: Triage = field(default_factory=Triage)

    async def handle(self, details: IncidentDetails, withdrawal: WorkWithdrawal) -> None:
        from hermes.sre.commander import Commander

        context = replace(self.context(details), withdrawal=withdrawal)
        await Commander(context, details).run()

    async def report(self, details: IncidentDetails) -> None:
        await self.context(details).report(details)

    def context(self, details: IncidentDetails) -> "IncidentContext":
        from hermes.app.incidents.response import build_incident_context

        policy = self.application.agent_dependencies.executor.policy
        if isinstance(policy, LazyPolicy):
            policy.set_incident(details.run, details.incident, details.severity, details.service)
        context = build_incident_context(
            self.application,
            self.application.loaded.settings.sre,
            responder=self.responder,
            probes=self.scheduler.probes,
            playbook_cache=self.playbooks,
            inventory=self.inventory,
            learned=self.learned,
            claims=self.claims,
        )
        return replace(
            context, other_problems=lambda case: self.triage.other_problems(case.incident)
        )


@asynccontextmanager
async def open_watch(
    loaded: LoadedSettings,
    *,
    model: str = "",
    folder: Path | None = None,
    listen: bool = True,
    outputs: Collection[WatchOutput] = ALL_OUTPUTS,
    environment: Environment | None = None,
    adapt: AdaptProbe = lambda probe: probe,
    api: Sequence[HttpRoute] = (),
) -> AsyncGenerator[RunningWatch, None]:
    """Everything that `hermes watch` does, until the block is left. `outputs`: where
    notifications are shown.

    `adapt` may change a probe, or leave it out. `api`: what is served beside alerts.
    """
    job_settings, loaded = loaded, with_watch_mode(with_waiting_approvals(loaded))
    in_box = environment is not None  # of the gym, which will not exist again
    async with open_application(
        loaded,
        origin="incident",
        model="" if model == NO_MODEL else model,
        toolsets=loaded.settings.tools.toolsets,  # playbooks need them, with any model
        directory=folder,
        environment=environment,
    ) as application:
        monitor = _open_journal_monitor(application)
        await _claim_watch(application)
        parts = await _join_parts(application, monitor, model, adapt, in_box=in_box)
        notifications = _open_notifications(application, outputs)

        def gauges() -> Mapping[str, float]:
            found = monitor.gauges() if monitor else {}
            return {**found, "messages_waiting": float(notifications.outbox.waiting)}

        async with anyio.create_task_group() as group:
            if monitor is not None:
                group.start_soon(monitor.run)
            group.start_soon(_fill_playbooks, parts.playbooks)
            if not in_box:
                group.start_soon(keep_recording, loaded, application.bus)
                group.start_soon(application.keep_hooks, job_settings)
                group.start_soon(application.keep_traces, write_warning)
            await notifications.start(group)
            await group.start(parts.watch.run)
            address = await open_alert_sources(
                group, application, parts.watch, gauges, listen=listen, api=api
            )
            if not in_box:
                group.start_soon(parts.follow_services, application, adapt, address)
            if parts.admitted.probes or parts.admitted.found_now:
                group.start_soon(parts.scheduler.run)
            yield RunningWatch(
                application,
                parts.watch,
                parts.admitted,
                job_settings,
                address,
                parts.reachability,
                None if in_box else parts.scheduler,
            )
            if not _rebuild_event(application).is_set():
                await notifications.finish()
            group.cancel_scope.cancel()


@dataclass(frozen=True)
class WatchParts:
    """The parts of a watch that detect faults and work on them."""

    admitted: AdmittedProbes
    inventory: InventoryStore
    scheduler: ProbeScheduler
    playbooks: PlaybookCache
    watch: IncidentWatch
    reachability: ModelReachability | None

    async def follow_services(
        self, application: Application, adapt: AdaptProbe, address: str
    ) -> None:
        """`address` is that of the watch itself; empty where it does not listen."""
        own_port = urlsplit(address).port
        dependencies = application.agent_dependencies
        await follow_services(
            application.loaded,
            dependencies.environment,
            dependencies.executor.policy,
            self.inventory,
            self.scheduler,
            adapt,
            own_ports=(own_port,) if own_port else (),
        )


async def _join_parts(
    application: Application,
    monitor: JournalMonitor | None,
    model: str,
    adapt: AdaptProbe,
    *,
    in_box: bool,
) -> WatchParts:
    loaded, dependencies = application.loaded, application.agent_dependencies
    host = dependencies.environment
    inventory = InventoryStore(None if in_box else loaded.home, host.target)
    found = await find_probes(loaded, host, dependencies.executor.policy, inventory)
    adapted = tuple(each for each in map(adapt, found.probes) if each is not None)
    learned = open_learned_checks(loaded, host, stored=not in_box)
    scheduler = ProbeScheduler(
        adapted,
        host,
        application.bus,
        home=loaded.home,
        settings=loaded.settings.sre.probes,
        learned=learned,
    )
    responder = None if model == NO_MODEL else _open_model_responder(application)
    playbooks = PlaybookCache(loaded, application.journal)
    triage = Triage(loaded.settings.sre.triage)
    handler = LazyIncidentHandler(
        application, playbooks, inventory, scheduler, learned, responder, triage=triage
    )
    watch = IncidentWatch(
        application.bus,
        triage,
        handler,
        max_concurrent=loaded.settings.sre.at_once,
        probes=len(adapted),
        until_writable=monitor.until_writable if monitor else None,
    )
    return WatchParts(
        msgspec.structs.replace(found, probes=adapted),
        inventory,
        scheduler,
        playbooks,
        watch,
        ModelReachability(loaded, dependencies.model.name) if responder is not None else None,
    )


def _open_model_responder(application: Application) -> "ModelResponder | None":
    from hermes.app.incidents.response import open_model_responder

    return open_model_responder(application)


async def _claim_watch(application: Application) -> None:
    try:
        await lock_run(WATCH_RUN, application.run_locks, application.journal)
    except RunLocked as taken:
        raise SettingsError(ALREADY_WATCHING_TEXT) from taken
    except RunLockError as failed:  # two watches are better than none
        write_warning(f"the watch continues without its lock: {failed}")


def _rebuild_event(application: Application) -> anyio.Event:
    journal = application.journal
    return journal.rebuild_needed if isinstance(journal, BufferedJournal) else anyio.Event()


async def _fill_playbooks(playbook_cache: PlaybookCache) -> None:
    """Read the playbooks before the first alert; what cannot be read now is read when it is
    needed."""
    with suppress(StoreError):
        await playbook_cache.fill()


@dataclass(frozen=True)
class WatchNotifications:
    """The notifier, the outbox that delivers, and the configured chats of a watch."""

    application: Application
    notifier: Notifier
    outbox: Outbox
    channels: "Mapping[str, ConfiguredChannel]"

    async def start(self, group: TaskGroup) -> None:
        await group.start(self.notifier.run)
        await group.start(self.outbox.run)
        if self.channels:
            from hermes.app.channels.loading import start_channels

            await start_channels(group, self.application, self.outbox, self.channels)

    async def finish(self) -> None:
        """Send what is due before the watch ends."""
        with anyio.move_on_after(FINAL_NOTIFICATIONS_TIMEOUT_S):
            await self.notifier.wait_until_queued()
            await self.outbox.wait_until_delivered()


def _open_notifications(
    application: Application, outputs: Collection[WatchOutput]
) -> WatchNotifications:
    loaded = application.loaded
    settings = loaded.settings.sre.notices
    sinks = open_sinks(
        settings,
        home=loaded.home,
        secret=loaded.secrets.get,
        write=_print_line if "terminal" in outputs else None,
        report=write_warning,
    )
    filters, channels = [accepts for _, accepts in sinks], dict[str, "ConfiguredChannel"]()
    if "chats" in outputs and loaded.settings.channels.partly_configured(loaded.secrets.get):
        from hermes.app.channels.loading import home_chat_filters, usable_channels

        channels = usable_channels(loaded, write_warning)
        filters += home_chat_filters(channels)
    transports = [SinkTransport(sink) for sink, _ in sinks]
    if loaded.settings.hooks.webhooks:
        from hermes.app.hooks.webhooks import open_event_webhooks

        transports += open_event_webhooks(loaded)
    return WatchNotifications(
        application,
        Notifier(application.bus, filters, settings),
        Outbox(application.bus, transports, settings),
        channels,
    )


def _print_line(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _open_journal_monitor(application: Application) -> JournalMonitor | None:
    if not isinstance(application.journal, BufferedJournal):
        return None
    copy = HeldCopy(application.loaded.journal, runtime_folder())
    return JournalMonitor(application.journal, copy=copy)
