"""What all trials of one incident have in common, and the copies that they are made on."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from hermes.declared.experiments.copied_checks import ExpectedReadings, RunChecks
from hermes.declared.experiments.host_programs import HostPrograms, HostService, ScheduledJob
from hermes.declared.experiments.job_tables import TableJobs, find_table_jobs
from hermes.declared.experiments.suspects import Suspect, service_reversal
from hermes.declared.experiments.trial import Revert
from hermes.declared.store import StateStore
from hermes.environments.copies import Copyable, CopyLimits, CopyService, HostCopy


@dataclass(frozen=True)
class CopySetup:
    """What all trials of one incident have in common."""

    source: Copyable
    run_checks: RunChecks
    expected: ExpectedReadings
    programs: HostPrograms
    services: Sequence[str]
    """The services that fail."""
    store: StateStore
    """Has the contents of files, before and after."""
    suspects: Sequence[Suspect] = ()
    jobs: Sequence[ScheduledJob] = ()
    """Scheduled jobs that read one of the suspects: they would repeat what they did."""
    requests: str = ""
    """A script with requests that users made: a copy has no users."""
    limits: CopyLimits = field(default_factory=CopyLimits)

    @property
    def changed_definitions(self) -> list[str]:
        """The changes of files that define services and that a copy does not read again: it has
        its services from the host as it is."""
        files = {
            each.definition_file
            for each in self.programs.services
            if each.commands and not each.is_redefinable
        }
        return [each.label for each in self.suspects if files.intersection(each.paths)]

    def table_jobs(self, reverted: Sequence[Revert]) -> TableJobs:
        return find_table_jobs(self.suspects, reverted, self.store.content)

    def stopped_by(self, reverted: Sequence[Revert]) -> set[str]:
        """The services that these reverts stop: started again, they would undo the revert."""
        changes = [each.suspect.change for each in reverted]
        found = [
            self.programs.named(each.item.key)
            for each in changes
            if each.item.kind == "service" and "stop" in service_reversal(each)
        ]
        return {each.name for each in found if each is not None}


@asynccontextmanager
async def open_copy(setup: CopySetup) -> AsyncGenerator[HostCopy, None]:
    copy = await setup.source.copy(setup.limits, units=copy_services(setup))
    try:
        yield copy
    finally:
        with anyio.CancelScope(shield=True):
            await copy.close()


def copy_services(setup: CopySetup) -> list[CopyService]:
    """The failing services, and those that may depend on a suspect. Without systemd all that run:
    nothing says there which of them need each other."""
    paths = [path for each in setup.suspects for path in each.paths]
    concerned = setup.programs.services_of(paths)
    return [
        copied_service(each)
        for each in setup.programs.services
        if each.name in setup.services
        or (each in concerned and not each.idle)
        or (each.commands and (each.running or _is_switched(setup, each)))
    ]


def copied_service(service: HostService) -> CopyService:
    """As the copy starts it."""
    return CopyService(
        name=service.name,
        definition=service.definition,
        running=not service.idle,
        restart=service.commands.get("restart", ""),
        stop=service.commands.get("stop", ""),
    )


def _is_switched(setup: CopySetup, service: HostService) -> bool:
    """Return whether it was started or stopped since the known good state."""
    return any(
        each.change.item.kind == "service" and setup.programs.named(each.change.item.key) == service
        for each in setup.suspects
    )
