"""Rehearses a revert on a copy in which the services run as on the host.

A reverted file has no effect before the right service has read it again. Which restart or reload
that takes is found by trying: the mildest first. The host then gets exactly what worked here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value
from hermes.declared.experiments.copy_changes import (
    COMMAND_TIMEOUT_S,
    JOB_TIMEOUT_S,
    clear_growth,
    put_back,
    repeat_jobs,
    restart_services,
    send_requests,
    start_jobs_first,
)
from hermes.declared.experiments.copy_setup import CopySetup, open_copy
from hermes.declared.experiments.copy_trial import CopyTrial
from hermes.declared.experiments.host_programs import HostService, ScheduledJob
from hermes.declared.experiments.job_tables import end_command, start_script
from hermes.declared.experiments.put_back import CannotRevertError
from hermes.declared.experiments.trial import Revert
from hermes.environments.copies import CannotCopyError, HostCopy

ActivationKind = Literal["run-job", "end-job", "reload", "restart"]
UNCHANGED_TIMEOUT_S = 0.6
"""For what takes effect without a restart."""
CONFIGURATION_TESTS = {
    "nginx": "nginx -t",
    "apache2": "apache2ctl configtest",
    "httpd": "httpd -t",
    "haproxy": "haproxy -c -f /etc/haproxy/haproxy.cfg",
    "sshd": "sshd -t",
    "named": "named-checkconf",
}
"""Programs that can check their own configuration before they are reloaded or restarted."""


class Activation(Value, frozen=True, kw_only=True):
    """One command that makes reverted changes take effect."""

    kind: ActivationKind
    target: str = ""
    """A unit, or the command of a scheduled job."""
    test: str = ""
    """The service's own check of its configuration, which must succeed before."""
    action: str = ""
    """The command of its supervisor on the host; empty under systemd."""
    undo: str = "true"

    @property
    def command(self) -> str:
        if self.kind in ("run-job", "end-job"):
            return self.target
        action = self.action or HostService(name=self.target).command(self.kind)
        return f"{self.test} && {{ {action}; }}" if self.test else action


class RehearsedRevert(Value, frozen=True, kw_only=True):
    works: bool
    activations: tuple[Activation, ...] = ()
    """What has to follow the revert, in order."""
    why: str = ""
    failed_before: bool = False
    """Whether the copy failed until then, and nothing but the revert and its activations changed
    it."""


async def rehearse_revert(
    setup: CopySetup, trial: CopyTrial, causes: Sequence[Revert]
) -> RehearsedRevert:
    """On one copy: reverts the causes while the services run, then one activation after the other
    until the checks pass."""
    done: list[Activation] = []
    why = ""
    try:
        async with open_copy(setup) as copy:
            jobs = setup.table_jobs(())
            await start_jobs_first(copy, setup, jobs.in_force)
            await restart_services(copy, setup.services if jobs.in_force else ())
            await repeat_jobs(copy, setup, jobs)
            await send_requests(copy, setup)
            before, _ = await trial.settle(copy, _first_failure(trial))
            others = await setup.run_checks(copy, setup.expected.passing)
            await put_back(copy, setup, causes)
            for step, timeout in plan_activations(setup, trial, causes):
                restarted = [each.target for each in step if each.kind == "restart"]
                await clear_growth(copy, setup, causes, restarted)
                for each in step:
                    await _activate(copy, each)
                    done.append(each)
                await send_requests(copy, setup)
                outcome, readings = await trial.settle(copy, timeout, others)
                if outcome == "passes":
                    return RehearsedRevert(
                        works=True,
                        activations=tuple(_effective(done)),
                        failed_before=before == "fails" and not setup.jobs and not jobs.in_force,
                    )
                why = setup.expected.describe(readings)
    except (CannotCopyError, CannotRevertError, EnvironmentFailed) as error:
        why = str(error)
    return RehearsedRevert(works=False, activations=tuple(done), why=why[:300])


Step = tuple[list[Activation], Callable[[], float] | None]


def plan_activations(setup: CopySetup, trial: CopyTrial, causes: Sequence[Revert]) -> list[Step]:
    """Steps from mild to strong; after each of them the checks get time to pass."""
    suspects = [each.suspect for each in causes if not each.suspect.is_growth]
    paths = [path for each in suspects for path in each.paths]
    tables = setup.table_jobs(causes)
    jobs = [each for each in setup.programs.jobs_of(suspects) if each not in tables.gone]
    jobs += [each for each in tables.in_force if each.table in paths]
    stopped = setup.stopped_by(causes)
    readers = [
        each
        for each in setup.programs.readers_of(paths)
        if not each.idle and each.name not in stopped
    ]
    failing = [
        each
        for name in setup.services
        if (each := setup.programs.named(name)) and each.name not in stopped
    ]
    down = [each for each in failing if not each.running]
    timeout = partial(float, UNCHANGED_TIMEOUT_S)
    steps: list[Step] = []
    if ends := [_end(each) for each in tables.gone if end_command(each)]:
        steps.append((ends, timeout))
    elif not readers and not down:
        steps.append(([], timeout))
    if jobs:
        run_jobs = [Activation(kind="run-job", target=each.shell_command) for each in jobs]
        steps.append((run_jobs, None if not down else timeout))
    reloads = [_reload(each) for each in readers if each.running and each.reloadable]
    if reloads and not down:
        steps.append((reloads, None))
    # A service that fails anyway loses nothing by a restart: it comes before those that work.
    own = [each for each in failing if each in readers or each in down]
    others = [each for each in readers if each not in failing]
    # What a job removed or replaced comes back when the service that uses it starts again.
    damaged = [
        each
        for each in setup.programs.users_of([job.command for job in tables.gone])
        if each.running and each not in (*own, *others)
    ]
    rest = [each for each in failing if each not in (*own, *damaged)]
    # One by one: the service that an alert names may work, as one behind a failing proxy does.
    groups = (*([each] for each in own), others, damaged, *([each] for each in rest))
    steps += [([_restart(each, paths) for each in group], None) for group in groups if group]
    return steps or [([], timeout)]


def _first_failure(trial: CopyTrial) -> Callable[[], float]:
    """The services of the copy need as long to start as they need to pass."""
    return lambda: min(1.0, trial.pass_seconds or 1.0)


def _end(job: ScheduledJob) -> Activation:
    return Activation(kind="end-job", target=end_command(job), undo=start_script(job))


def _reload(service: HostService) -> Activation:
    return Activation(kind="reload", target=service.name, test=_configuration_test(service))


def _restart(service: HostService, paths: Sequence[str] = ()) -> Activation:
    """`paths`: what is reverted; a definition must be read again before."""
    action = service.command("restart") if service.commands else ""
    if service.commands and service.definition_file in paths:
        action = f"{service.command('reload_definitions')}; {action}"
    return Activation(
        kind="restart", target=service.name, test=_configuration_test(service), action=action
    )


def _configuration_test(service: HostService) -> str:
    for line in service.unit_text.splitlines():
        if line.startswith("ExecStart="):
            program = line.removeprefix("ExecStart=").lstrip("-@+!:").split(" ")[0]
            test = CONFIGURATION_TESTS.get(program.rpartition("/")[2], "")
            # Only for the usual configuration: a unit that names another one is tested by starting.
            return test if " -c " not in line and " -f " not in line else ""
    return ""


def _effective(done: Sequence[Activation]) -> list[Activation]:
    """A restart makes the reload of the same unit needless."""
    restarted = {each.target for each in done if each.kind == "restart"}
    return [each for each in done if each.kind != "reload" or each.target not in restarted]


async def _activate(copy: HostCopy, activation: Activation) -> None:
    if activation.kind == "restart":
        if not activation.test or (await copy.run(activation.test)).code == 0:
            await restart_services(copy, [activation.target])
        return
    seconds = JOB_TIMEOUT_S if activation.kind == "run-job" else COMMAND_TIMEOUT_S
    await copy.run(activation.command, timeout_s=seconds)
