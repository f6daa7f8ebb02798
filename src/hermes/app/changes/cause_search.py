"""Finds root causes by experiment: joins states, copies and the checks of an incident."""

import re
import shlex
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
from hermes.declared.experiments.copy_trial import (
    CopySetup,
    CopyTrial,
    parallel_trials,
)
from hermes.declared.experiments.description import describe_causes
from hermes.declared.experiments.growth import find_deleted_files, find_growth
from hermes.declared.experiments.host_programs import (
    HostPrograms,
    HostService,
    read_host_programs,
)
from hermes.declared.experiments.put_back import CannotRevertError, split_revertible
from hermes.declared.experiments.rehearsal import (
    RehearsedRevert,
    rehearse_revert,
)
from hermes.declared.experiments.root_cause import ExperimentLimits, RootCause, find_root_cause
from hermes.declared.experiments.suspects import (
    ServiceContext,
    Suspect,
    growth_suspects,
    rank_suspects,
)
from hermes.declared.experiments.trial import Experiment, Revert, TrialResult
from hermes.declared.settings import DeclaredSettings
from hermes.declared.state import State, StateChange, compare
from hermes.declared.store import StateStore
from hermes.environments.copies import CannotCopyError, Copyable
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.cause import CauseResult, FailingCase, ServiceNames
from hermes.sre.checks import CheckResult, ProbeChecks
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe

COMMAND_TIMEOUT_S = 60.0
MAX_NAMED_IN_EVENT = 12
RESPECT_PEOPLE_S = DeclaredSettings().respect_people
UNKNOWN_AUTHOR = "an unknown author"
ERROR_LINES, LOG_LINES = 40, 200
MAX_ASKED_SERVICES = 3
_PORT = re.compile(
    r"^\s*(?:port|listen|bind)\b\s*[=: ]\s*(?:[\w.]+:)?(\d{2,5})\W*$|listening on \S*:(\d{2,5})\b",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True)
class ExperimentHost:
    """The host of an incident, as the experiments reach it."""

    environment: Environment
    name: str
    """In the states."""
    store: StateStore
    collect: Callable[[State | None], Awaitable[State]]
    """Collects its live state."""
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
    finder = ExperimentFinder(
        host,
        redact=SecretRedactor(loaded),
        respect_s=loaded.settings.declared.respect_people,
    )
    finder.read_own_commands = partial(own_commands, application.journal)
    return finder


ReadOwnCommands = Callable[[datetime], Awaitable[Sequence[OwnCommand]]]
"""What Hermes ran itself since this time: it may have made a change."""


async def _no_commands(after: datetime) -> Sequence[OwnCommand]:
    return ()


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
    ) -> None:
        self.host, self.redact, self.respect_s = host, redact, respect_s
        self.limits = limits
        self.read_own_commands: ReadOwnCommands = _no_commands

    @property
    def available(self) -> bool:
        return self.host.store.latest(self.host.name) is not None

    async def find(self, case: FailingCase) -> CauseResult:
        return await _FinderWork(self, case).run()

    async def observe(self, case: FailingCase) -> Sequence[Probe]:
        return await _FinderWork(self, case).observe()

    async def list_services(self, case: FailingCase, failing: Sequence[str]) -> ServiceNames:
        programs = await read_host_programs(self.host.run, case.daemons)
        return ServiceNames(
            names=tuple(each.name for each in programs.services),
            incidental=(
                *programs.related_to(failing),
                *(each.name for each in programs.services if each.packaged),
            ),
        )


class _ImpossibleError(HermesError):
    """No experiment is possible; the text says why."""


@dataclass(frozen=True)
class _Preparation:
    """Everything that is known before the first copy is made."""

    known: State
    live: State
    setup: CopySetup
    stuck: Sequence[str]
    """Changes that cannot be put back on a copy."""


class _FinderWork:
    """The work on one incident."""

    def __init__(self, finder: ExperimentFinder, case: FailingCase) -> None:
        self._finder, self._case = finder, case
        self._host, self._store = finder.host, finder.host.store
        self._numbers: list[int] = []
        self._rehearsed: dict[tuple[str, ...], tuple[RehearsedRevert, float]] = {}
        """By the causes: the rehearsal of their revert, and its seconds."""

    async def run(self) -> CauseResult:
        try:
            ready = await self._prepare()
        except _ImpossibleError as error:
            return CauseResult(status="impossible", why=str(error))
        setup, stuck = ready.setup, ready.stuck
        await self._publish_start(setup.suspects)
        trial, cause = await self._search(setup)
        if cause.status == "not-reproduced" and (asked := await self._users_requests(setup)):
            setup = replace_fields(setup, requests=asked)
            trial, cause = await self._search(setup)
        services, programs = setup.services, setup.programs
        if start := None if stuck else start_of_ended(cause, services, programs, setup.suspects):
            checks = setup.expected.failing_names
            return replace(start, recovered=checks, evidence=tuple(self._numbers))
        if cause.status != "proved":
            status, why = cause.status, cause.why
            if status == "not-reproduced":
                why = "; ".join([why, *await self._what_copies_lack(setup)])
            if status == "ruled-out" and (untried := [*stuck, *setup.changed_definitions]):
                status, why = "impossible", _not_tried_text(untried)
            elif status == "ruled-out" and (full := setup.expected.full_stores):
                status, why = "impossible", _full_text(full, setup.suspects)
            return CauseResult(
                status=status,
                why=self._finder.redact(why),
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
            limits=self._finder.limits or ExperimentLimits(at_once=parallel_trials()),
            record=self._record,
            rehearse=partial(self._rehearse, setup, trial),
        )
        return trial, cause

    async def _what_copies_lack(self, setup: CopySetup) -> list[str]:
        """Return why a copy may not show the fault, in words."""
        found = await find_deleted_files(self._host.run)
        asked = ["requests that users made do not change that"] if setup.requests else []
        return [*asked, *(f"a copy does not have this: {each}" for each in found)]

    async def _users_requests(self, setup: CopySetup) -> str:
        """Return what users asked of services that a change concerns: some faults need them to
        show."""
        paths = [path for each in setup.suspects for path in each.paths]
        logs: dict[int, str] = {}
        for service in setup.programs.services_of(paths)[:MAX_ASKED_SERVICES]:
            _, output = await self._host.run(_log_script(service), b"")
            log = output.decode("utf-8", "replace")
            if port := _PORT.search(f"{service.settings_text}\n{log}"):
                logs[int(port[1] or port[2])] = log
        return users_requests(logs)

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
        logs = [(await self._host.run(_log_script(each), b""))[1] for each in services[:2]]
        text = b"\n".join(logs).decode("utf-8", "replace")
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

    async def _prepare(self) -> "_Preparation":
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
        live, programs, growth = await self._read_host(known)
        services = self._failing_services(programs)
        ranked = await self._suspects(compare(known, live), programs, services, growth)
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
        return _Preparation(known, live, setup, [each.label for each in lost])

    async def _read_host(self, known: State) -> tuple[State, HostPrograms, tuple[Suspect, ...]]:
        """All at once: each of these mostly waits for the host."""
        live: list[State] = []
        growth: list[Suspect] = []

        async def collect() -> None:
            live.append(await self._host.collect(known))

        async def find_grown() -> None:
            growth.extend(growth_suspects(await find_growth(self._host.run, known)))

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(collect)
                group.start_soon(find_grown)
                programs = await read_host_programs(self._host.run, self._case.daemons)
        except ExceptionGroup as errors:
            raise innermost_error(errors) from errors
        return live[0], programs, tuple(growth)

    async def _keep_failing(self, live: State) -> None:
        """Keep the failing state for a drill: after the revert it is gone."""
        case, state = self._case, replace(live, host=self._host.name)
        passing = [CheckResult(check=each, ok=True) for each in case.passing]
        results = [*case.failing, *passing]
        await case.publish(
            keep_failing_state(self._store, state, case.details, results, case.checks)
        )

    def _failing_services(self, programs: HostPrograms) -> list[str]:
        failing = [each.service for each in self._case.failing]
        named = self._case.services or [*failing, self._case.details.service]
        names = dict.fromkeys(each.removesuffix(".service") for each in named if each)
        found = (programs.named(name) for name in names)
        return list(dict.fromkeys(each.name for each in found if each is not None))

    async def _suspects(
        self,
        changes: Sequence[StateChange],
        programs: HostPrograms,
        services: Sequence[str],
        growth: Sequence[Suspect],
    ) -> tuple[Suspect, ...]:
        own = [each for name in services if (each := programs.named(name))]
        errors = [
            (await self._host.run(_log_script(each, ERROR_LINES), b""))[1] for each in own[:3]
        ]
        details = self._case.details
        context = ServiceContext(
            names=tuple(services),
            texts={
                "unit": "\n".join(each.unit_text for each in own),
                "settings": "\n".join(each.named_text for each in own),
                "error": b"\n".join(errors).decode("utf-8", "replace"),
                "alert": details.facts.combined_text,
            },
            first_failure_at=details.since or details.opened_at,
        )
        ranked = [*rank_suspects(changes, context), *growth]
        return tuple(sorted(ranked, key=lambda each: -each.score))

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
                detail=self._finder.redact(experiment.result.detail)[:300],
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
        unit = setup.services[0] if setup.services else ""
        text = describe_causes(cause.causes, authors[0], unit, self._store.content)
        redact = self._finder.redact
        first = cause.causes[0].suspect
        revert = CauseRevert(
            self._host.environment,
            self._host.run,
            self._store,
            f"{self._case.details.incident}/experiment-{self._case.attempt}",
            self._finder.respect_s,
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
        )

    async def _find_authors(self, known: State, causes: Sequence[Revert]) -> list[str]:
        changes = [each.suspect.change for each in causes]
        logs = await read_host_logs(self._host.run, changes)
        own = await self._finder.read_own_commands(known.at)
        search = AuthorSearch(logs, own, known.at, datetime.now(UTC))
        return [search.find(each).name or UNKNOWN_AUTHOR for each in changes]


def _log_script(service: HostService, lines: int = LOG_LINES) -> str:
    """Prints what it said last."""
    if service.commands:
        logs = " ".join(shlex.quote(each) for each in service.logs)
        return f"tail -q -n {lines} -- {logs} 2>/dev/null | tail -c 6000" if logs else "true"
    unit = shlex.quote(service.name)
    return f"journalctl -u {unit} -n {lines} -o cat -q --no-pager 2>/dev/null | tail -c 6000"


def _not_tried_text(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - 3} more" if len(labels) > 3 else ""
    named = f"{', '.join(labels[:3])}{more}"
    return f"what else changed is no cause, but this cannot be put back in a copy: {named}"


def _full_text(full: Sequence[str], suspects: Sequence[Suspect]) -> str:
    """A store that is full stays so: that a change has filled it is neither shown nor excluded."""
    named = ", ".join(each.label for each in suspects[:3])
    changed = f", and no copy can tell whether one of these filled it: {named}" if named else ""
    return f"no revert empties what is full ({'; '.join(full)}){changed}"


def _is_copyable(environment: object) -> TypeGuard[Copyable]:
    return callable(getattr(environment, "copy", None))
