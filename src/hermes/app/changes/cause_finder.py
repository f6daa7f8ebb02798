"""Opens what finds causes by experiment, and what tests fixes, for the environment of Hermes."""

from collections.abc import Callable, Sequence
from functools import partial

import anyio

from hermes.app.application import Application
from hermes.app.changes.cause_search import (
    CauseSearch,
    ExperimentHost,
    ReadOwnCommands,
    SearchOptions,
    no_commands,
)
from hermes.app.changes.states import HostStates, own_commands
from hermes.app.copies.fix_tests import CopyFixTester
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import innermost_error
from hermes.declared.experiments.host_programs import read_host_programs
from hermes.declared.experiments.host_reading import HostReading, read_host
from hermes.declared.experiments.root_cause import ExperimentLimits
from hermes.declared.settings import DeclaredSettings
from hermes.declared.state import State
from hermes.declared.store import StateStore
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.cause import CauseResult, FailingCase, FindFailingCase, ServiceNames
from hermes.sre.probes.probe import Probe

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
