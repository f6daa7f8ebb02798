"""Boots hosts under another supervisor, and acts on their units for the scenario.

A scenario speaks of units, and its scripts of systemctl. On such a host its scripts get a shell
function `systemctl` that acts on the unit. The agent does not see the function.
"""

import re
import shutil
import time
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.environments.boxes.box import Box, BoxCommandResult
from hermes.environments.boxes.unit_files import UNIT_FOLDER
from hermes.gym.scenario import program_search_path
from hermes.gym.scenario_spec import HostFile, HostSpec, ScenarioSpec, ScriptCheck
from hermes.gym.supervisors.setups import SUPERVISOR_SETUPS, read_unit
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_scan import ServiceCriteria, parse_scan, scan_script
from hermes.sre.probes.probe import Probe

OWN_SYSTEMCTL = "systemctl"
"""The name of the gym's own supervisor."""
SCAN_TIMEOUT_S = 0.4
"""Seconds for a web server to answer the scan for daemons."""
SUPERVISOR_KINDS = (OWN_SYSTEMCTL, *SUPERVISOR_SETUPS)
_IGNORED_KEYS = frozenset(
    (
        *("Description", "After", "WantedBy", "Restart", "RestartSec", "KillSignal"),
        *("TimeoutStopSec", "StartLimitBurst", "StartLimitIntervalSec", "ExecReload"),
    )
)
"""Settings without which a unit is the same for a scenario: each supervisor has its own."""
_EXPRESSED_KEYS = frozenset(("ExecStart", "ExecStartPre", "User", "Environment"))
_SCRIPT_VERBS = ("start", "stop", "restart", "show", "reset-failed")
_SYSTEMCTL_CALL = re.compile(r"(?:^|[;&|({] *|\$\()systemctl ([a-z-]+)", re.MULTILINE)
_SCRIPT_FUNCTIONS = """
systemctl() {
  local verb= each
  for each; do
    case "$each" in
      -*|MainPID) ;;
      *) if [ -z "$verb" ]; then verb=$each; continue; fi
        each=${each%.service}
        case "$verb" in
          start|stop) "unit_$verb" "$each" >&2 ;;
          restart) { unit_stop "$each"; unit_start "$each"; } >&2 ;;
          show) unit_pid "$each" ;;
        esac ;;
    esac
  done
  return 0
}
unit_facts() {
  local pid; pid=$(unit_pid "$1" 2>/dev/null)
  [ "${pid:-0}" -gt 0 ] && [ -d "/proc/$pid" ] || return 0
  echo "$pid $(sed 's/.*) //' "/proc/$pid/stat" | awk -v hz="$(getconf CLK_TCK)" \\
    -v up="$(cut -d ' ' -f 1 /proc/uptime)" '{print up - $20 / hz}')"
}
"""


class HostBoot(Value, kw_only=True, frozen=True):
    """A host whose units another supervisor has."""

    files: tuple[HostFile, ...]
    script: str
    """Starts the supervisor."""
    functions: str
    """Shell functions for the scripts of the scenario: systemctl and unit_facts."""


def boot_host(kind: str, host: HostSpec) -> HostBoot:
    setup, units = SUPERVISOR_SETUPS[kind], [read_unit(file) for file in host.units]
    prepare = "".join(f"{line.lstrip('-')}\n" for unit in units for line in unit.prepare)
    return HostBoot(
        files=setup.files(units),
        script=prepare + setup.boot(units),
        functions=setup.functions(units) + _SCRIPT_FUNCTIONS,
    )


def missing_supervisor_programs(kind: str) -> tuple[str, ...]:
    """Programs of this supervisor that this machine lacks."""
    setup, path = SUPERVISOR_SETUPS.get(kind), program_search_path()
    programs = setup.programs if setup is not None else ()
    return tuple(name for name in programs if shutil.which(name, path=path) is None)


def reason_not_expressed(kind: str, spec: ScenarioSpec) -> str:
    """Return why this supervisor cannot run the scenario; empty when it can."""
    setup = SUPERVISOR_SETUPS.get(kind)
    if setup is None:
        return ""
    extra = ("EnvironmentFile",) if setup.reads_environment_files else ()
    known = _IGNORED_KEYS | _EXPRESSED_KEYS | {*extra}
    for host in spec.hosts:
        for unit in (read_unit(file) for file in host.units):
            if other := sorted({*unit.keys} - known):
                return f"{unit.name} has {', '.join(other)}"
        for file in host.files:
            if "systemctl" in file.text or UNIT_FOLDER in (file.text + file.path):
                return f"{file.path} is about systemd"
    checks = (*spec.healthy, *spec.symptoms, *spec.collateral)
    scripts = [each.script for each in checks if isinstance(each, ScriptCheck)]
    for script in (*spec.inject, *(each.script for each in spec.cure), *scripts):
        verbs = {verb for verb in _SYSTEMCTL_CALL.findall(script) if verb not in _SCRIPT_VERBS}
        if verbs or UNIT_FOLDER in script:
            return f"its scripts need {', '.join(sorted(verbs)) or 'unit files'} of systemd"
    return ""


def boot_timeout_s(kind: str) -> float:
    setup = SUPERVISOR_SETUPS.get(kind)
    return setup.boot_timeout_s if setup is not None else 0.0


class WatchMemory(Value, kw_only=True, frozen=True):
    """What a watch knows of a host from the time before the fault."""

    probes: tuple[Probe, ...] = ()
    daemons: tuple[PlainDaemon, ...] = ()
    """How daemons without a supervisor were started."""


async def remember_host(box: Box) -> WatchMemory:
    """Scans the first host, which is healthy, as a watch does."""
    scan = parse_scan((await box.run(scan_script(SCAN_TIMEOUT_S))).output)
    found = propose_probes(scan, ServiceCriteria(settle_s=0.0))
    now = int(time.time())
    daemons = (each.daemon for each in found.services if each.daemon is not None)
    return WatchMemory(
        probes=found.probes, daemons=tuple(replace(each, first_seen_s=now) for each in daemons)
    )


class UnitControl(Protocol):
    """Acts on the units of the hosts for the scenario, not for the agent."""

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, trusted: bool = False
    ) -> BoxCommandResult:
        """Runs a script of the scenario, which may call systemctl. `trusted`: see `Box.run`."""
        ...

    async def restart(self, unit: str, *, host: int = 0) -> None: ...

    async def show(self, unit: str, *, host: int = 0) -> dict[str, Any]:
        """`state`, `pid`, and `since` in seconds since 1970."""
        ...


class OwnUnitControl:
    """A `UnitControl` for the gym's own: over a socket that no process of the host has."""

    def __init__(self, box: Box) -> None:
        self._box = box

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, trusted: bool = False
    ) -> BoxCommandResult:
        return await self._box.run(script, host=host, timeout=timeout, trusted=trusted)

    async def restart(self, unit: str, *, host: int = 0) -> None:
        await self._box.call_supervisor("restart", unit, host=host)

    async def show(self, unit: str, *, host: int = 0) -> dict[str, Any]:
        answer: dict[str, Any] = (await self._box.call_supervisor("show", unit, host=host))["said"]
        return answer


class ShellUnitControl:
    """A `UnitControl` for other supervisors: scripts get shell functions that act on units."""

    def __init__(self, box: Box, boots: Sequence[HostBoot]) -> None:
        self._box, self._boots = box, boots

    async def run(
        self, script: str, *, host: int = 0, timeout: float = 30.0, trusted: bool = False
    ) -> BoxCommandResult:
        whole = f"{self._boots[host].functions}\n{script}"
        return await self._box.run(whole, host=host, timeout=timeout, trusted=trusted)

    async def restart(self, unit: str, *, host: int = 0) -> None:
        await self.run(f"systemctl restart {unit}", host=host)

    async def show(self, unit: str, *, host: int = 0) -> dict[str, Any]:
        name = unit.removesuffix(".service")
        ran = await self.run(f"unit_facts {name}", host=host, trusted=True)
        words = ran.output.split()
        if len(words) != 2:
            return {"state": "inactive", "pid": 0, "since": time.time()}
        return {"state": "active", "pid": int(words[0]), "since": time.time() - float(words[1])}
