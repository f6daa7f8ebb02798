"""Joins states and changes with settings, environment and journal."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from hermes.app.secret_redactor import SecretRedactor
from hermes.app.tools.tooling import configured_environment
from hermes.core.bus import Bus
from hermes.core.events.changes import StateRecorded
from hermes.core.events.operations import HealthChecked
from hermes.core.events.tools import ToolRequested, ToolStarted
from hermes.core.incident import INCIDENT_KINDS, WATCH_RUN, fold_incidents
from hermes.core.protocols import Environment, Journal
from hermes.declared.authors import AuthorSearch, OwnCommand, read_host_logs
from hermes.declared.change_log import ChangeAuthor
from hermes.declared.collectors.collect import (
    DEFAULT_ROOTS,
    CollectOptions,
    collect_local_state,
    collect_state,
)
from hermes.declared.collectors.readers import RunCommand, environment_runner
from hermes.declared.recording import RecordedRound, publish_changes, record_round
from hermes.declared.state import State, StateChange
from hermes.declared.store import STATES_FOLDER, StateStore, StoreLimits
from hermes.memory.store import open_journal
from hermes.policy.commands.effects import READING_EFFECTS
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.alerts import read_firing_alerts
from hermes.sre.probes.inventory import InventoryStore
from hermes.sre.probes.probe import HOST_KINDS

LOCAL_ENVIRONMENT = "local"
_NICENESS = 10


def open_state_store(loaded: LoadedSettings) -> StateStore:
    settings = loaded.settings.declared
    limits = StoreLimits(states=settings.states, size_mb=settings.size_mb)
    return StateStore(loaded.home / STATES_FOLDER, limits)


class HostStates:
    """The host that the settings name, and the store of its states."""

    def __init__(self, loaded: LoadedSettings, environment: Environment) -> None:
        self.store = open_state_store(loaded)
        self.is_local = environment.name == LOCAL_ENVIRONMENT
        self.host = os.uname().nodename if self.is_local else environment.target
        self.run: RunCommand = run_here if self.is_local else environment_runner(environment)
        settings = loaded.settings.declared
        inventory = InventoryStore(loaded.home, environment.target)
        self._options = CollectOptions(
            daemons=inventory.load().daemons,
            host=self.host,
            roots=settings.roots or DEFAULT_ROOTS,
            skip=(str(loaded.home), *settings.skip),
            max_files=settings.max_files,
            secret_content=settings.secret_files,
            server_settings=settings.server_settings,
        )

    async def collect(self, known: State | None) -> State:
        """The live state. Raises `EnvironmentFailed`."""
        collect = collect_local_state if self.is_local else collect_state
        return await collect(self.run, known=known, store=self.store, options=self._options)


async def run_here(script: str, stdin: bytes) -> tuple[int, bytes]:
    if not stdin:
        script = f"exec < /dev/null\n{script}"
    done = await anyio.run_process(["sh", "-c", script], input=stdin or None, check=False)
    return done.returncode, done.stdout


@asynccontextmanager
async def open_host_states(loaded: LoadedSettings) -> AsyncGenerator[HostStates, None]:
    async with configured_environment(loaded, Path.cwd()) as environment:
        yield HostStates(loaded, environment)


async def record_state(
    loaded: LoadedSettings, *, known_good: bool = False, if_healthy: bool = False
) -> RecordedRound:
    """One look at the host, with its events. `if_healthy`: it is a known good state when the
    checks of the watch have passed for a while, or pass and there is none yet. Raises
    `HermesError`."""
    async with (
        open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal,
        open_host_states(loaded) as states,
    ):
        bus = Bus(journal, clean=SecretRedactor(loaded).clean_event)
        if if_healthy:
            settled = timedelta(seconds=loaded.settings.declared.settled)
            first = states.store.latest(states.host) is None
            known_good = await is_settled(journal, settled, datetime.now(UTC), first=first)

        async def find_authors(
            changes: Sequence[StateChange], after: datetime, until: datetime
        ) -> Sequence[ChangeAuthor]:
            logs = await read_host_logs(states.run, changes)
            search = AuthorSearch(logs, await own_commands(journal, after), after, until)
            return [search.find(each) for each in changes]

        found = await record_round(
            states.collect,
            states.store,
            states.host,
            known_good=known_good,
            find_authors=find_authors,
        )
        await publish_changes(states.store, journal, bus.publish)
        for id, source in ((found.known_good, "known-good"), (found.state, "live")):
            if id and (source == "known-good" or found.changes):
                await bus.publish(_state_event(found, id, source == "known-good"))
        return found


def _state_event(found: RecordedRound, id: str, known_good: bool) -> StateRecorded:
    return StateRecorded(
        run=WATCH_RUN,
        state=id,
        host=found.host,
        source="known-good" if known_good else "live",
        items=found.items,
        changes=len(found.changes),
        left_out=found.left_out[:20],
        seconds=found.seconds,
    )


async def is_settled(
    journal: Journal, settled: timedelta, now: datetime, *, first: bool = False
) -> bool:
    """Return whether the services passed all rounds of checks in this time, at least one at its
    start and one now, and no incident about a service is open. A busy or full host counts as good:
    a failing service is to be compared with it. `first`: the last round is enough, as an early
    state to compare with is better than none."""
    rounds = [
        recorded.event
        async for recorded in journal.read(kinds=("health.checked",), since=now - 2 * settled)
        if isinstance(recorded.event, HealthChecked) and recorded.event.checks
    ]
    recent = [each for each in rounds if each.at >= now - settled]
    earlier = [each for each in rounds if each.at < now - settled]
    needed = recent[-1:] if first else [*recent, *earlier[-1:]]
    if not recent or not (first or earlier) or not all(map(_services_passed, needed)):
        return False
    return not await _works_on_service(journal)


def _services_passed(checked: HealthChecked) -> bool:
    """A check that could not be run says nothing, if others passed."""
    passed = checked.checks - len(checked.failing) - len(checked.unknown)
    return passed > 0 and set(checked.failing) <= set(checked.about_host)


async def _works_on_service(journal: Journal) -> bool:
    """Return whether an incident is open that is not only about how busy or full the host is."""
    records = [each async for each in journal.read(kinds=INCIDENT_KINDS)]
    being_worked_on = [
        each
        for each in fold_incidents(records).values()
        if each.status == "open" and not each.question
    ]
    if not being_worked_on:
        return False
    firing = await read_firing_alerts(journal)
    about_host = {
        fingerprint
        for fingerprint, alert in firing.items()
        if dict(alert.labels).get("kind") in HOST_KINDS
    }
    return any(
        not each.fingerprints or not about_host.issuperset(each.fingerprints)
        for each in being_worked_on
    )


async def own_commands(journal: Journal, after: datetime) -> list[OwnCommand]:
    """Commands that Hermes ran on this host since then and that may have changed something: not
    those that it was refused, and not those that only read."""
    kinds, since = ("tool.requested", "tool.started"), after - timedelta(minutes=5)
    requested = dict[str, ToolRequested]()
    found = []
    async for recorded in journal.read(kinds=kinds, since=since):
        event = recorded.event
        if isinstance(event, ToolRequested) and not event.isolated:
            requested[event.call.id] = event
        elif isinstance(event, ToolStarted) and (known := requested.pop(event.call_id, None)):
            if event.effects and READING_EFFECTS.issuperset(event.effects):
                continue
            values = " ".join(str(each) for each in known.call.arguments.values())
            found.append(OwnCommand(event.at, known.run, known.command or values))
    return found


def used_cpu_seconds() -> float:
    """Return the processor time of this process and of the programs that it ran."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def lower_priority() -> None:
    with suppress(OSError):
        os.nice(_NICENESS)
