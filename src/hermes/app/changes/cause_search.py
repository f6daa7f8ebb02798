"""Searches the cause of one incident by experiment: joins states, copies and its checks."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from functools import partial
from typing import TypeGuard

import anyio
from msgspec.structs import replace

from hermes.app.application import Application
from hermes.app.changes.cause_revert import CauseRevert, start_of_ended
from hermes.app.changes.incident_states import keep_failing_state
from hermes.app.changes.states import HostStates, own_commands
from hermes.app.copies.contrast_checks import find_contrasts
from hermes.app.copies.copied_checks import expected_readings, run_on_copy, users_requests
from hermes.app.copies.fix_tests import CopyFixTester
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import EnvironmentFailed, HermesError, innermost_error
from hermes.core.events.experiments import ExperimentRan, ExperimentsStarted
from hermes.core.protocols import Environment
from hermes.declared.authors import AuthorSearch, OwnCommand, read_host_logs
from hermes.declared.collectors.collect import CollectOptions, collect_state
from hermes.declared.collectors.readers import RunCommand, environment_runner
from hermes.declared.experiments.conclusion import conclude_unproved
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.description import describe_causes
from hermes.declared.experiments.host_programs import HostPrograms, read_host_programs
from hermes.declared.experiments.host_reading import (
    CollectState,
    HostReading,
    rank_host_changes,
    read_host,
    read_logs,
    read_request_logs,
)
from hermes.declared.experiments.port_holders import find_port_holders, ports_of_addresses
from hermes.declared.experiments.processor_load import parallel_trials
from hermes.declared.experiments.put_back import CannotRevertError, split_revertible
from hermes.declared.experiments.rehearsal import RehearsedRevert, rehearse_revert
from hermes.declared.experiments.root_cause import ExperimentLimits, RootCause, find_root_cause
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Experiment, Revert, TrialResult
from hermes.declared.settings import DeclaredSettings
from hermes.declared.state import State, compare
from hermes.declared.store import StateStore
from hermes.environments.copies import CannotCopyError, Copyable
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.cause import CauseResult, FailingCase, FindFailingCase, ServiceNames
from hermes.sre.checks import CheckResult, ProbeChecks
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe

MAX_NAMED_IN_EVENT = 12
MAX_READ_LOGS = 2
UNKNOWN_AUTHOR = "an unknown author"


@dataclass(frozen=True)
class ExperimentHost:
    """The host of an incident, as the experiments reach it."""

    environment: Environment
    name: str
    """In the states."""
    store: StateStore
    collect: CollectState
    run: RunCommand

    @classmethod
    def from_environment(
        cls, environment: Environment, store: StateStore, daemons: Sequence[PlainDaemon] = ()
    ) -> "ExperimentHost":
        """All through the environment: for a host of the gym."""
        run = environment_runner(environment)
        options = CollectOptions(host=environment.target, daemons=tuple(daemons))

        async def collect(known: State | None) -> State:
            return await collect_state(run, known=known, store=store, options=options)

        return cls(environment, environment.target, store, collect, run)


ReadOwnCommands = Callable[[datetime], Awaitable[Sequence[OwnCommand]]]
"""What Hermes ran itself since this time: it may have made a change."""


async def no_commands(after: datetime) -> Sequence[OwnCommand]:
    return ()


@dataclass(frozen=True)
class SearchOptions:
    redact: Callable[[str], str]
    respect_s: float
    limits: ExperimentLimits | None
    read_own_commands: ReadOwnCommands


class _ImpossibleError(HermesError):
    """No experiment is possible; the text says why."""


@dataclass(frozen=True)
class _Preparation:
    """Everything that is known before the first copy is made."""

    known: State
    live: State
    setup: CopySetup
    stuck: Sequence[Suspect]
    """Changes that cannot be put back on a copy."""


class CauseSearch:
    """The search for the cause of one incident."""

    def __init__(self, host: ExperimentHost, case: FailingCase, options: SearchOptions) -> None:
        self._case, self._options, self._redact = case, options, options.redact
        self._host, self._store = host, host.store
        self._numbers: list[int] = []
        self._rehearsed: dict[tuple[str, ...], tuple[RehearsedRevert, float]] = {}
        """By the causes: the rehearsal of their revert, and its seconds."""

    async def run(self, reading: HostReading | None = None) -> CauseResult:
        """`reading`: of the host, where it was read while the checks ran."""
        try:
            ready = await self._prepare(reading)
        except _ImpossibleError as error:
            return CauseResult(status="impossible", why=str(error))
        setup, stuck = ready.setup, ready.stuck
        await self._publish_start(setup.suspects)
        trial, cause = await self._search(setup)
        if cause.status == "not-reproduced" and (asked := await self._users_requests(setup)):
            setup = replace_fields(setup, requests=asked)
            trial, cause = await self._search(setup)
        services, programs = setup.services, setup.programs
        held = await self._port_holders(setup) if cause.status == "not-reproduced" else []
        left = stuck or held
        if start := None if left else start_of_ended(cause, services, programs, setup.suspects):
            checks = setup.expected.failing_names
            return replace(start, recovered=checks, evidence=tuple(self._numbers))
        if cause.status != "proved":
            status, why = await conclude_unproved(cause, setup, stuck, self._host.run, held)
            return CauseResult(
                status=status,
                why=self._redact(why),
                suspects=cause.suspects,
                experiments=len(cause.experiments),
                evidence=tuple(self._numbers),
            )
        await self._keep_failing(ready.live)
        return await self._proved(ready.known, cause, setup, trial)

    async def _search(self, setup: CopySetup) -> tuple[CopyTrial, RootCause]:
        trial = CopyTrial(setup)
        cause = await find_root_cause(
            setup.suspects,
            trial,
            limits=self._options.limits or ExperimentLimits(at_once=parallel_trials()),
            record=self._record,
            rehearse=partial(self._rehearse, setup, trial),
        )
        return trial, cause

    async def _port_holders(self, setup: CopySetup) -> list[str]:
        """Who holds the ports of failing services that do not run."""
        checks, failing = self._case.checks, setup.expected.failing_names
        if not isinstance(checks, ProbeChecks):
            return []
        asked = [each for each in checks.probes if each.name in failing and each.service]
        found = [(each, setup.programs.named(each.service)) for each in asked]
        down = [each.what for each, service in found if service and not service.running]
        return await find_port_holders(self._host.run, ports_of_addresses(down))

    async def _users_requests(self, setup: CopySetup) -> str:
        """Return what users asked of services that a change concerns: some faults need them to
        show."""
        run = self._host.run
        return users_requests(await read_request_logs(run, setup.programs, setup.suspects))

    async def observe(self) -> Sequence[Probe]:
        """Checks that fail on an unchanged copy, and pass where all changes are reverted."""
        try:
            ready = await self._prepare()
        except _ImpossibleError:
            return ()
        setup, checks = ready.setup, self._case.checks
        if not setup.suspects or not isinstance(checks, ProbeChecks):
            return ()
        trial, everything = CopyTrial(setup), [Revert(suspect=each) for each in setup.suspects]
        services = [each for name in setup.services if (each := setup.programs.named(name))]
        text = await read_logs(self._host.run, services[:MAX_READ_LOGS])
        try:
            async with trial.open([]) as failing, trial.open(everything) as healthy:
                found = await find_contrasts(
                    failing,
                    healthy,
                    services,
                    checks.probes,
                    f"{self._case.details.facts.combined_text}\n{text}",
                )
        except (CannotCopyError, CannotRevertError, EnvironmentFailed):
            return ()
        return [mark_admitted(each.probe) for each in found]

    async def _prepare(self, reading: HostReading | None = None) -> "_Preparation":
        """Raises `_ImpossibleError`."""
        known = self._store.latest(self._host.name)
        if known is None:
            raise _ImpossibleError(
                "no known good state of this host is recorded (hermes state record)"
            )
        if not isinstance(self._case.checks, ProbeChecks):
            raise _ImpossibleError("its checks cannot be run on a copy")
        source: object = self._host.environment
        if not _is_copyable(source):
            kind = self._host.environment.name
            raise _ImpossibleError(f"an environment of the kind {kind} cannot be copied")
        host, details = self._host, self._case.details
        if reading is None:
            reading = await read_host(host.run, host.collect, known, self._case.daemons)
        programs, services = reading.programs, self._failing_services(reading.programs)
        ranked = await rank_host_changes(
            host.run,
            compare(known, reading.live),
            reading,
            services,
            details.facts.combined_text,
            details.since or details.opened_at,
        )
        suspects, lost = split_revertible(ranked, self._store.content)
        setup = CopySetup(
            source=source,
            run_checks=partial(run_on_copy, self._case, self._case.checks),
            expected=expected_readings(self._case),
            programs=programs,
            services=services,
            store=self._store,
            suspects=suspects,
            jobs=programs.jobs_of(suspects),
        )
        return _Preparation(known, reading.live, setup, lost)

    async def _keep_failing(self, live: State) -> None:
        """Keep the failing state for a drill: after the revert it is gone."""
        case, state = self._case, replace(live, host=self._host.name)
        passing = [CheckResult(check=each, ok=True) for each in case.passing]
        results = [*case.failing, *passing]
        kept = keep_failing_state(self._store, state, case.details, results, case.checks)
        if kept is not None:
            await case.publish(kept)

    def _failing_services(self, programs: HostPrograms) -> list[str]:
        failing = [each.service for each in self._case.failing]
        named = self._case.services or [*failing, self._case.details.service]
        names = dict.fromkeys(each.removesuffix(".service") for each in named if each)
        found = (programs.named(name) for name in names)
        return list(dict.fromkeys(each.name for each in found if each is not None))

    async def _publish_start(self, suspects: Sequence[Suspect]) -> None:
        details, named = self._case.details, suspects[:MAX_NAMED_IN_EVENT]
        await self._case.publish(
            ExperimentsStarted(
                run=details.run,
                incident=details.incident,
                suspects=tuple(each.label for each in named),
                reasons=tuple("; ".join(each.reasons) for each in named),
                suspect_count=len(suspects),
                checks=tuple(each.check for each in self._case.failing),
            )
        )

    async def _rehearse(
        self, setup: CopySetup, trial: CopyTrial, causes: Sequence[Revert]
    ) -> TrialResult:
        began = time.monotonic()
        found = await rehearse_revert(setup, trial, causes)
        seconds = time.monotonic() - began
        self._rehearsed[tuple(each.label for each in causes)] = found, seconds
        steps = ", ".join(f"{each.kind} {each.target}" for each in found.activations)
        return TrialResult(
            outcome="passes" if found.works else "fails",
            detail=found.why or (f"it takes effect after: {steps}" if steps else ""),
            seconds=seconds,
            confirms=found.works and found.failed_before,
        )

    async def _record(self, experiment: Experiment) -> None:
        details = self._case.details
        numbers = await self._case.publish(
            ExperimentRan(
                run=details.run,
                incident=details.incident,
                number=experiment.number,
                purpose=experiment.purpose,
                reverted=experiment.reverted[:MAX_NAMED_IN_EVENT],
                reverted_count=len(experiment.reverted),
                kept=experiment.kept[:MAX_NAMED_IN_EVENT],
                outcome=experiment.result.outcome,
                detail=self._redact(experiment.result.detail)[:300],
                seconds=round(experiment.result.seconds, 3),
            )
        )
        self._numbers += numbers

    async def _proved(
        self, known: State, cause: RootCause, setup: CopySetup, trial: CopyTrial
    ) -> CauseResult:
        labels = tuple(each.label for each in cause.causes)
        if labels not in self._rehearsed:
            await self._rehearse(setup, trial, cause.causes)
        rehearsed, rehearsal_s = self._rehearsed[labels]
        authors = await self._find_authors(known, cause.causes)
        reader = _reader_of(cause.causes[0].suspect, setup)
        text = describe_causes(cause.causes, authors[0], reader, self._store.content)
        redact = self._redact
        first = cause.causes[0].suspect
        revert = CauseRevert(
            self._host.environment,
            self._host.run,
            self._store,
            f"{self._case.details.incident}/experiment-{self._case.attempt}",
            self._options.respect_s,
        )
        steps, why = await revert.steps(cause.causes, authors, rehearsed, setup.programs)
        units = [
            each.target for each in rehearsed.activations if each.kind in ("restart", "reload")
        ]
        return CauseResult(
            status="proved",
            why=why,
            component=redact(text.component),
            mechanism=redact(text.mechanism),
            value=redact(text.value),
            author=authors[0],
            changed_at=first.change.at,
            steps=steps,
            units=tuple(dict.fromkeys([*setup.services, *units])),
            causes=labels,
            diff=redact(text.diff)[:2000],
            suspects=cause.suspects,
            experiments=len(cause.experiments),
            evidence=tuple(self._numbers),
            recovered=(cause.explained or setup.expected.failing_names) if rehearsed.works else (),
            rehearsal_s=rehearsal_s,
            explained=cause.explained,
            differences=cause.differences,
        )

    async def _find_authors(self, known: State, causes: Sequence[Revert]) -> list[str]:
        changes = [each.suspect.change for each in causes]
        logs = await read_host_logs(self._host.run, changes)
        own = await self._options.read_own_commands(known.at)
        search = AuthorSearch(logs, own, known.at, datetime.now(UTC))
        return [search.find(each).name or UNKNOWN_AUTHOR for each in changes]


def _reader_of(suspect: Suspect, setup: CopySetup) -> str:
    """The service that reads what was changed, as its supervisor calls it: a failing one first."""
    programs = setup.programs
    named = (programs.named(name) for name in setup.services)
    failing = [each for each in named if each is not None]
    readers = programs.readers_of(suspect.paths) or programs.services_of(suspect.paths)
    found = [*(each for each in failing if each in readers), *readers, *failing]
    if not found:
        return setup.services[0] if setup.services else ""
    return found[0].name if found[0].commands else f"{found[0].name}.service"


def _is_copyable(environment: object) -> TypeGuard[Copyable]:
    """Whether a copy may be asked for: one that never allows it says why."""
    return callable(getattr(environment, "copy", None))


RESPECT_PEOPLE_S = DeclaredSettings().respect_people


def open_cause_finder(
    application: Application,
    store: StateStore | None = None,
    daemons: Sequence[PlainDaemon] = (),
) -> "ExperimentFinder":
    """For the environment of the application; `store`: in place of that of its home, with the
    daemons that a watch would remember."""
    environment, loaded = application.agent_dependencies.environment, application.loaded
    if store is not None:
        host = ExperimentHost.from_environment(environment, store, daemons)
    else:
        own = HostStates(loaded, environment)
        host = ExperimentHost(environment, own.host, own.store, own.collect, own.run)
    return ExperimentFinder(
        host,
        redact=SecretRedactor(loaded),
        respect_s=loaded.settings.declared.respect_people,
        read_own_commands=partial(own_commands, application.journal),
    )


def open_fix_tester(application: Application) -> CopyFixTester:
    """Open the tester of fixes for the environment of the application."""
    environment, loaded = application.agent_dependencies.environment, application.loaded
    own = HostStates(loaded, environment)
    return CopyFixTester(environment, own.store, redact=SecretRedactor(loaded), run=own.run)


class ExperimentFinder:
    """A `CauseFinder` for one host. `respect_s`: a change by a person, or by an unknown author,
    that is younger is reverted only after approval."""

    def __init__(
        self,
        host: ExperimentHost,
        *,
        redact: Callable[[str], str],
        respect_s: float = RESPECT_PEOPLE_S,
        limits: ExperimentLimits | None = None,
        read_own_commands: ReadOwnCommands = no_commands,
    ) -> None:
        self.host, self._options = host, SearchOptions(redact, respect_s, limits, read_own_commands)

    @property
    def available(self) -> bool:
        return self.host.store.latest(self.host.name) is not None

    async def find(
        self, look: FindFailingCase, daemons: Sequence[PlainDaemon]
    ) -> CauseResult | None:
        readings = list[HostReading]()

        async def read(known: State) -> None:
            readings.append(await read_host(self.host.run, self.host.collect, known, daemons))

        try:
            async with anyio.create_task_group() as group:
                if known := self.host.store.latest(self.host.name):
                    group.start_soon(read, known)
                case = await look()
                if case is None:
                    group.cancel_scope.cancel()
        except ExceptionGroup as errors:
            raise innermost_error(errors) from errors
        if case is None:
            return None
        return await CauseSearch(self.host, case, self._options).run(*readings)

    async def observe(self, case: FailingCase) -> Sequence[Probe]:
        return await CauseSearch(self.host, case, self._options).observe()

    async def list_services(self, case: FailingCase, failing: Sequence[str]) -> ServiceNames:
        programs = await read_host_programs(self.host.run, case.daemons)
        return ServiceNames(
            names=tuple(each.name for each in programs.services),
            incidental=(
                *programs.related_to(failing),
                *(each.name for each in programs.services if each.packaged),
            ),
        )
