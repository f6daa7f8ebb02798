"""Changes a copy of a host: puts back what is reverted, restarts services, repeats jobs."""

import shlex
from collections.abc import Sequence

import anyio

from hermes.declared.collectors.ruleset import parse_ruleset
from hermes.declared.experiments.copy_setup import CopySetup
from hermes.declared.experiments.host_programs import HostPrograms, ScheduledJob
from hermes.declared.experiments.job_tables import TableJobs, start_script
from hermes.declared.experiments.processor_load import overload_factor
from hermes.declared.experiments.put_back import (
    CannotRevertError,
    archive_script,
    find_targets,
    unwritable_script,
)
from hermes.declared.experiments.suspects import service_reversal
from hermes.declared.experiments.trial import Revert
from hermes.declared.packet_filter import commands_for_copy
from hermes.declared.revert import plan_revert
from hermes.declared.state import StateChange
from hermes.declared.store import StateStore
from hermes.environments.copies import HostCopy

_OPPOSITES = {"start": "stop", "stop": "start", "enable": "disable", "disable": "enable"}
JOB_TIMEOUT_S, COMMAND_TIMEOUT_S = 20.0, 30.0
MAX_JOBS = 4
PORT_TRIES = 12
START_LEAD_S = 0.4
"""How long a service may take from its start until it holds its ports and locks."""


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
    await _put_back_rules(copy, [each.suspect.change for each in reverted])
    for each in reverted:
        change = each.suspect.change
        service = setup.programs.named(change.item.key) if change.item.kind == "service" else None
        if service is not None and service.commands:
            await _switch_service(copy, service.name, service_reversal(change))
            continue
        if change.item.kind == "mount" and await _is_writable(copy, change):
            continue
        for command in setting_commands(change, setup.store):
            await _run(copy, command)


async def _put_back_rules(copy: HostCopy, changes: Sequence[StateChange]) -> None:
    for change in changes:
        if change.item.kind != "packet-filter":
            continue
        listed = await copy.run_nft("-s", "-t", "-a", "list", "ruleset")
        try:
            commands = commands_for_copy(change, parse_ruleset(listed.output))
        except ValueError as error:
            raise CannotRevertError(f"the rules in the copy cannot be read: {error}") from error
        for words in commands:
            if (ran := await copy.run_nft(*words)).code:
                raise CannotRevertError(f"nft failed in the copy: {ran.output.strip()[-200:]}")


async def _is_writable(copy: HostCopy, change: StateChange) -> bool:
    """Return whether a file system that was writable is so in the copy. Its layers always are, also
    where the host's own has become read-only, and nothing can be mounted there."""
    if change.before is None or "ro" in change.before.attributes["options"].split(","):
        return False
    return (await copy.run(f"test -w {shlex.quote(change.item.key)}")).code == 0


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
    """The commands that revert what is neither a file nor a rule. Raises `CannotRevertError`."""
    if change.item.kind in ("file", "packet-filter"):
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
