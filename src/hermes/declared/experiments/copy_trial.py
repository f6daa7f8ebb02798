"""One trial: a fresh copy of the host, some changes reverted in it, and the checks run there."""

import os
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.declared.experiments.copied_checks import (
    CheckReading,
    ExpectedReadings,
    RunChecks,
)
from hermes.declared.experiments.host_programs import HostPrograms, HostService, ScheduledJob
from hermes.declared.experiments.job_tables import TableJobs, find_table_jobs, start_script
from hermes.declared.experiments.put_back import (
    CannotRevertError,
    archive_script,
    find_targets,
    text_parts_of,
    unwritable_script,
)
from hermes.declared.experiments.suspects import Suspect, service_reversal
from hermes.declared.experiments.trial import Revert, TrialOutcome, TrialResult
from hermes.declared.revert import plan_revert
from hermes.declared.state import ItemId, StateChange
from hermes.declared.store import StateStore
from hermes.environments.copies import (
    CannotCopyError,
    Copyable,
    CopyLimits,
    CopyService,
    HostCopy,
)

FIRST_TIMEOUT_S = 8.0
"""How long checks may take to pass while it is not known how long that takes in a copy."""
LONGEST_TIMEOUT_S, PASS_TIME_FACTOR = 12.0, 1.8
PATIENT_TIMEOUT_S, PATIENT_FACTOR = 5.0, 4.0
"""At least, and times what it took in another copy, where a wrong result would name a wrong cause:
supervisors wait a second or more between two starts, so the time to pass varies."""
ANSWER_GRACE_S, SILENCE_GRACE_S = 0.4, 0.8
"""Added to the time in which it passed on another copy: for a wrong answer, and for none, which a
service that is about to start gives as well."""
MAX_ANSWER_OVERLOAD = 2.0
"""A service that answers has started: what load delays is mostly the start."""
HOLD_S = 0.7
"""How long checks must keep passing."""
SHORTEST_POLL_S, LONGEST_POLL_S = 0.15, 0.6
"""The pause between two runs of the checks."""
_OPPOSITES = {"start": "stop", "stop": "start", "enable": "disable", "disable": "enable"}
JOB_TIMEOUT_S, COMMAND_TIMEOUT_S = 20.0, 30.0
MAX_JOBS = 4
MIN_PARALLEL_TRIALS, MAX_PARALLEL_TRIALS = 2, 4
PORT_TRIES = 12
START_LEAD_S = 0.4
"""How long a service may take from its start until it holds its ports and locks."""


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


class CopyTrial:
    """A `Trial` on copies of one host."""

    def __init__(self, setup: CopySetup) -> None:
        self._setup = setup
        self._part_lines: dict[tuple[int, ItemId], tuple[int, ...]] = {}
        self.pass_seconds: float | None = None
        """How long the checks took to pass in a copy, where they did."""

    def part_lines(self, suspect: Suspect) -> tuple[int, ...]:
        if suspect.key not in self._part_lines:
            parts = text_parts_of(suspect.change, self._setup.store.content)
            self._part_lines[suspect.key] = tuple(each.first_after + 1 for each in parts)
        return self._part_lines[suspect.key]

    async def run(self, reverted: Sequence[Revert], *, patient: bool = False) -> TrialResult:
        began, timeout = time.monotonic(), self.patient_timeout_s if patient else self.timeout_s
        try:
            async with self.open(reverted) as copy:
                outcome, readings = await self.settle(copy, timeout)
        except (CannotCopyError, CannotRevertError, EnvironmentFailed) as error:
            paths = set(error.paths) if isinstance(error, CannotRevertError) else set()
            return TrialResult(
                outcome="unclear",
                detail=str(error)[:300],
                seconds=time.monotonic() - began,
                blocked=tuple(e.suspect.label for e in reverted if paths & set(e.suspect.paths)),
                copied=not isinstance(error, CannotCopyError),
            )
        return TrialResult(
            outcome=outcome,
            detail=self._setup.expected.describe(readings),
            seconds=time.monotonic() - began,
            failing=self._setup.expected.alike(readings),
        )

    @asynccontextmanager
    async def open(self, reverted: Sequence[Revert]) -> AsyncGenerator[HostCopy, None]:
        """A copy in which these changes are reverted, with the services that read them restarted.
        Raises `CannotCopyError`, `CannotRevertError`, `EnvironmentFailed`."""
        async with open_copy(self._setup) as copy:
            if started := self._started_services(reverted):
                await self._start_first(copy, started)
            affected = self._affected_units(reverted)
            if reverted:
                await put_back(copy, self._setup, reverted)
                await clear_growth(copy, self._setup, reverted, affected)
            jobs = self._setup.table_jobs(reverted)
            await start_jobs_first(copy, self._setup, jobs.in_force)
            if reverted or started or jobs.in_force:
                await restart_services(copy, affected)
            await repeat_jobs(copy, self._setup, jobs)
            await send_requests(copy, self._setup)
            yield copy

    async def settle(
        self, copy: HostCopy, timeout: Callable[[], float] | None = None
    ) -> tuple[TrialOutcome, Sequence[CheckReading]]:
        """Run the failing checks until they keep passing, until they had enough time to, or until
        their services have failed for good; then the others once, for side effects."""
        limit_s, expected = timeout or self.timeout_s, self._setup.expected
        began, passing_since, pause, polls = time.monotonic(), None, SHORTEST_POLL_S, 0
        while True:
            polls += 1
            readings = await self._setup.run_checks(copy, expected.failing_names)
            now, outcome = time.monotonic(), expected.judge(readings)
            passing_since = (passing_since or now) if outcome == "passes" else None
            if passing_since is not None and now - passing_since >= HOLD_S:
                self.pass_seconds = max(passing_since - began, self.pass_seconds or 0.0)
                others = await self._check_others(copy)
                return expected.judge([*readings, *others]), [*readings, *others]
            if passing_since is None and (
                now - began >= limit_s() or (polls > 1 and await self._have_failed(copy))
            ):
                return outcome, readings
            await anyio.sleep(pause)
            pause = min(LONGEST_POLL_S, pause * 1.5)

    async def _check_others(self, copy: HostCopy) -> list[CheckReading]:
        """Those that fail are run once more: on a busy host one may take too long by chance."""
        readings = await self._setup.run_checks(copy, self._setup.expected.passing)
        failed = [each.name for each in readings if not each.ok and not each.unknown]
        again = await self._setup.run_checks(copy, failed) if failed else []
        return [*(each for each in readings if each.name not in failed), *again]

    async def _have_failed(self, copy: HostCopy) -> bool:
        """Return whether all failing services have failed in the copy too, after all permitted
        starts: no supervisor starts them again."""
        services = [self._setup.programs.named(name) for name in self._setup.services]
        if not services or any(each is None or each.commands for each in services):
            return False
        names = shlex.join(self._setup.services)
        states = await copy.run(f"systemctl is-failed {names}", timeout_s=COMMAND_TIMEOUT_S)
        return states.output.split() == ["failed"] * len(services)

    def timeout_s(self) -> float:
        """Shrinks as soon as another trial has shown how long passing takes."""
        if self.pass_seconds is None:
            return FIRST_TIMEOUT_S * overload_factor()
        overload = overload_factor()
        grace = SILENCE_GRACE_S * overload
        if self._setup.expected.is_answered:
            grace = ANSWER_GRACE_S * min(MAX_ANSWER_OVERLOAD, overload)
        wanted = PASS_TIME_FACTOR * self.pass_seconds + grace
        return min(LONGEST_TIMEOUT_S, wanted)

    def patient_timeout_s(self) -> float:
        longest = max(PATIENT_TIMEOUT_S, PATIENT_FACTOR * (self.pass_seconds or 0.0))
        return max(self.timeout_s(), longest * overload_factor())

    def _started_services(self, reverted: Sequence[Revert]) -> list[str]:
        """Services that were started since the known good state and are not reverted."""
        gone = {each.suspect.key for each in reverted}
        return [
            each.change.item.key
            for each in self._setup.suspects
            if each.change.item.kind == "service"
            and each.key not in gone
            and "stop" in service_reversal(each.change)
        ]

    async def _start_first(self, copy: HostCopy, started: Sequence[str]) -> None:
        """On the host they ran before the failing services were started again, and may hold what
        these need; in a copy all start at the same time."""
        for name in self._setup.services:
            await copy.stop(name)
        await restart_services(copy, started)
        await anyio.sleep(START_LEAD_S * overload_factor())

    def _affected_units(self, reverted: Sequence[Revert]) -> list[str]:
        """Those that name what is reverted, then the failing ones, but none that was stopped."""
        paths = [path for each in reverted for path in each.suspect.paths]
        named = [each.name for each in self._setup.programs.services_of(paths)]
        stopped = self._setup.stopped_by(reverted)
        return [
            each for each in dict.fromkeys([*named, *self._setup.services]) if each not in stopped
        ]


def overload_factor() -> float:
    """Return how much longer things take while more programs want to run than there are
    processors."""
    return min(4.0, max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1))))


def parallel_trials() -> int:
    """Return how many trials run at a time: they mostly wait, so more than there are processors."""
    free = 2 * (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(MIN_PARALLEL_TRIALS, min(MAX_PARALLEL_TRIALS, int(free)))


async def put_back(copy: HostCopy, setup: CopySetup, reverted: Sequence[Revert]) -> None:
    """All but what has piled up. Raises `CannotRevertError`, `EnvironmentFailed`."""
    reverted = [each for each in reverted if not each.suspect.is_growth]
    await _replace_files(copy, setup, reverted)
    definitions = {each.definition_file for each in setup.programs.services if each.commands}
    if any(
        "/systemd/" in path or path in definitions
        for each in reverted
        for path in each.suspect.paths
    ):
        await copy.reload_units()
    for each in reverted:
        change = each.suspect.change
        service = setup.programs.named(change.item.key) if change.item.kind == "service" else None
        if service is not None and service.commands:
            await _switch_service(copy, service.name, service_reversal(change))
            continue
        for command in setting_commands(change, setup.store):
            await _run(copy, command)


async def clear_growth(
    copy: HostCopy, setup: CopySetup, reverted: Sequence[Revert], restarted: Sequence[str]
) -> None:
    """What has piled up. Services that will be restarted are stopped before: they may add to it.
    Raises as `put_back` does."""
    growth = [each for each in reverted if each.suspect.is_growth]
    for unit in restarted if growth else ():
        await copy.stop(unit)
    await _replace_files(copy, setup, growth)


async def _replace_files(copy: HostCopy, setup: CopySetup, reverted: Sequence[Revert]) -> None:
    """Raises `CannotRevertError` with the paths that cannot be changed there."""
    files = [each for each in reverted if each.suspect.change.item.kind == "file"]
    targets = [target for each in files for target in find_targets(each, setup.store.content)]
    if not targets:
        return
    script, archive = archive_script(targets)
    try:
        await _run(copy, script, archive)
    except CannotRevertError as error:
        blocked = await copy.run(unwritable_script(targets), timeout_s=COMMAND_TIMEOUT_S)
        raise CannotRevertError(str(error), blocked.output.splitlines()) from error


async def _switch_service(copy: HostCopy, name: str, verbs: Sequence[str]) -> None:
    """A unit that does not start shows in the checks."""
    if "start" in verbs:
        await copy.restart(name)
    elif "stop" in verbs:
        await copy.stop(name)


def setting_commands(change: StateChange, store: StateStore) -> list[str]:
    """The commands that revert what is no file. Raises `CannotRevertError`."""
    if change.item.kind == "file":
        return []
    if change.item.kind == "service":
        return [command for command, _ in service_steps(change)]
    plan = plan_revert(change, store, "")
    if plan.impossible:
        raise CannotRevertError(plan.impossible)
    return [each.command for each in plan.steps]


def service_steps(
    change: StateChange, programs: HostPrograms | None = None
) -> list[tuple[str, str]]:
    """For a service: the commands that put it back, each with its undo."""
    unit = shlex.quote(change.item.key)
    service = programs.named(change.item.key) if programs is not None else None
    if service is not None and service.commands:
        return [
            (service.command(verb), service.command(_OPPOSITES[verb]))
            for verb in service_reversal(change)
        ]
    return [
        (f"systemctl {verb} {unit}", f"systemctl {_OPPOSITES[verb]} {unit}")
        for verb in service_reversal(change)
    ]


async def start_jobs_first(copy: HostCopy, setup: CopySetup, jobs: Sequence[ScheduledJob]) -> None:
    """On the host they may have run before the failing services were started again, and may hold
    what these need."""
    for name in setup.services if jobs else ():
        await copy.stop(name)
    for job in jobs[:MAX_JOBS]:
        await copy.run(start_script(job), timeout_s=JOB_TIMEOUT_S)


async def repeat_jobs(copy: HostCopy, setup: CopySetup, changed: TableJobs) -> None:
    """Repeat what scheduled jobs did on the host since the change."""
    jobs = [each for each in setup.jobs if each not in changed.gone]
    if jobs or changed.in_force:
        await wait_for_ports(copy, setup)
    for job in jobs[:MAX_JOBS]:
        await copy.run(job.shell_command, timeout_s=JOB_TIMEOUT_S)
    for job in changed.in_force[:MAX_JOBS]:
        await copy.run(start_script(job), timeout_s=JOB_TIMEOUT_S)


async def wait_for_ports(copy: HostCopy, setup: CopySetup) -> None:
    """On the host a job finds the services running, with their files open. One that does not come
    up shows in the checks."""
    services = [each for name in setup.services if (each := setup.programs.named(name))]
    ports = [each.ports[0] for each in services if each.running and each.ports]
    waits = [
        f"for i in {' '.join(map(str, range(PORT_TRIES)))}; do"
        f" (: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.1; done"
        for port in ports
    ]
    if waits:
        await copy.run(f"bash -c {shlex.quote('; '.join(waits))}", timeout_s=JOB_TIMEOUT_S)


async def send_requests(copy: HostCopy, setup: CopySetup) -> None:
    """Again what users asked for, where the fault does not show without it."""
    if setup.requests:
        await anyio.sleep(START_LEAD_S * overload_factor())
        await copy.run(setup.requests, timeout_s=JOB_TIMEOUT_S)


async def restart_services(copy: HostCopy, units: Sequence[str]) -> None:
    """A unit that does not start shows in the checks."""
    if units:
        await copy.restart(*units)


async def _run(copy: HostCopy, script: str, stdin: bytes = b"") -> None:
    ran = await copy.run(script, timeout_s=COMMAND_TIMEOUT_S, stdin=stdin)
    if ran.code != 0:
        raise CannotRevertError(f"putting it back failed in the copy: {ran.output.strip()[-200:]}")
