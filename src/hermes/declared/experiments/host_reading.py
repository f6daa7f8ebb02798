"""Reads of a host what the experiments on its copies need, before the first copy is made."""

import re
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio

from hermes.core.errors import innermost_error
from hermes.declared.collectors.readers import RunCommand
from hermes.declared.experiments.growth import find_growth
from hermes.declared.experiments.host_programs import (
    HostPrograms,
    HostService,
    read_host_programs,
)
from hermes.declared.experiments.suspects import (
    ServiceContext,
    Suspect,
    growth_suspects,
    rank_suspects,
)
from hermes.declared.state import State, StateChange
from hermes.skills.supervisors.units import PlainDaemon

CollectState = Callable[[State | None], Awaitable[State]]
"""Collects the live state of the host; the argument is an earlier one."""
ERROR_LINES, LOG_LINES = 40, 200
MAX_READ_LOGS, MAX_ASKED_SERVICES = 3, 3
_PORT = re.compile(
    r"^\s*(?:port|listen|bind)\b\s*[=: ]\s*(?:[\w.]+:)?(\d{2,5})\W*$|listening on \S*:(\d{2,5})\b",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True)
class HostReading:
    """A host at the moment at which its incident is worked on."""

    live: State
    programs: HostPrograms
    growth: Sequence[Suspect]
    """What has piled up on nearly full file systems."""


async def read_host(
    run: RunCommand, collect: CollectState, known: State, daemons: Sequence[PlainDaemon]
) -> HostReading:
    """All at once: each of these mostly waits for the host."""
    live: list[State] = []
    growth: list[StateChange] = []

    async def collect_live() -> None:
        live.append(await collect(known))

    async def find_grown() -> None:
        growth.extend(await find_growth(run, known))

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(collect_live)
            group.start_soon(find_grown)
            programs = await read_host_programs(run, daemons)
    except ExceptionGroup as errors:
        raise innermost_error(errors) from errors
    return HostReading(live[0], programs, growth_suspects(growth))


async def rank_host_changes(
    run: RunCommand,
    changes: Sequence[StateChange],
    reading: HostReading,
    services: Sequence[str],
    alert: str,
    first_failure_at: datetime,
) -> tuple[Suspect, ...]:
    """The most suspicious first. `services`: those that fail; `alert`: its words."""
    own = [each for name in services if (each := reading.programs.named(name))]
    context = ServiceContext(
        names=tuple(services),
        texts={
            "unit": "\n".join(each.unit_text for each in own),
            "settings": "\n".join(each.named_text for each in own),
            "error": await read_logs(run, own[:MAX_READ_LOGS], ERROR_LINES),
            "alert": alert,
        },
        first_failure_at=first_failure_at,
    )
    ranked = [*rank_suspects(changes, context), *reading.growth]
    return tuple(sorted(ranked, key=lambda each: -each.score))


async def read_logs(
    run: RunCommand, services: Sequence[HostService], lines: int = LOG_LINES
) -> str:
    """What they said last."""
    if not services:
        return ""
    script = "\n".join(_log_command(each, lines) for each in services)
    _, output = await run(script, b"")
    return output.decode("utf-8", "replace")


def _log_command(service: HostService, lines: int) -> str:
    if service.commands:
        logs = " ".join(shlex.quote(each) for each in service.logs)
        return f"tail -q -n {lines} -- {logs} 2>/dev/null | tail -c 6000" if logs else "true"
    unit = shlex.quote(service.name)
    return f"journalctl -u {unit} -n {lines} -o cat -q --no-pager 2>/dev/null | tail -c 6000"


async def read_request_logs(
    run: RunCommand, programs: HostPrograms, suspects: Sequence[Suspect]
) -> dict[int, str]:
    """By their ports, the logs of services that a change concerns."""
    paths = [path for each in suspects for path in each.paths]
    logs: dict[int, str] = {}
    for service in programs.services_of(paths)[:MAX_ASKED_SERVICES]:
        log = await read_logs(run, [service])
        if port := _PORT.search(f"{service.settings_text}\n{log}"):
            logs[int(port[1] or port[2])] = log
    return logs
