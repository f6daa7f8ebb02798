"""Reads the state of a host with read-only shell scripts, and parses their output.

The scripts summarise logs on the host: a log of gigabytes costs as much as a short one.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import ExecuteCall, run_command
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import PlainDaemon, UnitListing, list_units, same_service

SCRIPTS_FOLDER = Path(__file__).parent / "scripts"
ScriptName = Literal["state", "logs", "words", "checks"]
_MAX_DISK_PERCENT, _MAX_SHM_PERCENT, _MIN_FREE_KB = 90, 60, 1024
_UNCHECKED_LINE = re.compile(r"^unchecked=(.{1,160})", re.MULTILINE)
_KEY_VALUE = re.compile(r"([A-Za-z]+)=(\S*)")
MAX_ERROR_CHARS = 160
_REQUEST_LINE = re.compile(r"\b(?:GET|POST|PUT|DELETE|PATCH|HEAD) /")
"""Lines about requests: other lines tell why a request failed."""
LAST_ERROR_TIMEOUT_S = 15.0


def read_script(name: ScriptName) -> str:
    """The text of a script. `words` is `logs` with the error lines themselves; it is used only
    where needed, because log lines are untrusted text."""
    if name == "words":
        return read_script("logs").replace("words=0", "words=1")
    return (SCRIPTS_FOLDER / f"{name}.sh").read_text(encoding="utf-8").strip()


class UnitState(Value, kw_only=True, frozen=True):
    name: str
    active: str = ""
    restarts: int = 0
    pid: int = 0
    rss: int = 0
    up: int | None = None
    """Seconds; None: not known."""


class LogSummary(Value, kw_only=True, frozen=True):
    """A summary of the end of one unit's log."""

    unit: str
    lines: int = 0
    errors: int = 0
    after: int = 0
    """Good lines since the last error."""
    asked: int = 0
    bad: int = 0
    died: int = 0
    runs: dict[str, tuple[tuple[str, int], ...]] = {}
    """By path: consecutive successes (S) and failures (F), with their counts."""
    error_lines: tuple[str, ...] = ()
    last: str = ""


class HostState(Value, kw_only=True, frozen=True):
    units: tuple[UnitState, ...] = ()
    full: tuple[str, ...] = ()
    busy: tuple[int, ...] = ()
    expired: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    memory: int | None = None
    """Percent that is free."""
    disks: dict[str, int] = {}
    unchecked: str = ""
    """Why the services could not be listed; empty when they were."""


def with_units(state: HostState, listing: UnitListing) -> HostState:
    """Add the units of supervisors other than systemd."""
    known = {each.name for each in state.units}
    more = tuple(
        UnitState(name=each.name, active=each.state, restarts=each.restarts, pid=each.pid)
        for each in listing.units
        if each.name not in known
    )
    why = next(iter(listing.notes), "") or state.unchecked
    return replace(state, units=(*state.units, *more), unchecked="" if more else why)


class MonitorConfig(Value, kw_only=True, frozen=True):
    """A configuration file of a monitor, with a limit in it."""

    unit: str
    file: str
    lines: tuple[str, ...] = ()


class HostObservation(Value, kw_only=True, frozen=True):
    state: HostState
    logs: dict[str, LogSummary] = {}
    checks: tuple[MonitorConfig, ...] = ()


def parse_host_state(text: str) -> HostState:
    units, full, busy, expired, ports, disks = [], [], [], [], [], {}
    memory = None
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        found = dict(_KEY_VALUE.findall(line))
        if kind == "unit":
            units.append(_parse_unit(rest.split()[0], found))
        elif kind in ("disk", "inodes"):
            used, free = _parse_int(found.get("used")), _parse_int(found.get("free", "9999999"))
            where = found[kind]
            limit = _MAX_SHM_PERCENT if where == "/dev/shm" else _MAX_DISK_PERCENT
            if used >= limit or (kind == "disk" and free < _MIN_FREE_KB):
                full.append(where)
            if kind == "disk":
                disks[where] = used
        elif kind == "busy":
            busy.append(_parse_int(found["busy"]))
        elif kind == "expired":
            expired.append(rest)
        elif kind == "port":
            ports.append(_parse_int(rest))
        elif kind == "memory":
            memory = _parse_int(rest)
    return HostState(
        units=tuple(units),
        full=tuple(dict.fromkeys(full)),
        busy=tuple(busy),
        expired=tuple(expired),
        ports=tuple(ports),
        memory=memory,
        disks=disks,
        unchecked=why[1] if (why := _UNCHECKED_LINE.search(text)) else "",
    )


def parse_log_summaries(text: str) -> dict[str, LogSummary]:
    """The name of a unit is on a line of its own, apart from the untrusted lines of its log."""
    found: dict[str, LogSummary] = {}
    unit = ""
    for line in text.splitlines():
        kind, _, rest = line.partition("=")
        log = found.get(unit, LogSummary(unit=unit))
        if kind == "log":
            unit = rest
            found[unit] = LogSummary(unit=unit)
        elif kind == "count":
            counts = {name: _parse_int(value) for name, value in _KEY_VALUE.findall(line)}
            counts["lines"] = counts.pop("count", 0)
            found[unit] = replace(log, **counts)
        elif kind == "runs":
            path, _, marks = rest.partition(" ")
            pairs = tuple(
                (mark[0], _parse_int(mark[2:])) for mark in marks.split() if mark[1:2] == ":"
            )
            found[unit] = replace(log, runs={**log.runs, path: pairs} if pairs else log.runs)
        elif kind == "said":
            found[unit] = replace(log, error_lines=(*log.error_lines, rest))
        elif kind == "last":
            found[unit] = replace(log, last=rest)
    return found


def parse_monitors(text: str) -> list[MonitorConfig]:
    found: list[MonitorConfig] = []
    lines: list[str] = []
    unit = file = ""
    for line in [*text.splitlines(), "check= "]:
        if line.startswith("check="):
            if file:
                found.append(MonitorConfig(unit=unit, file=file, lines=tuple(lines)))
            unit, _, file = line.removeprefix("check=").partition(" ")
            lines = []
        else:
            lines.append(line.strip())
    return found


def _parse_unit(name: str, found: dict[str, str]) -> UnitState:
    return UnitState(
        name=name,
        active=found.get("ActiveState", ""),
        restarts=_parse_int(found.get("NRestarts")),
        pid=_parse_int(found.get("MainPID")),
        rss=_parse_int(found.get("rss")),
        up=_parse_int(found["up"]) if "up" in found else None,
    )


def _parse_int(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


class LastError(Value, kw_only=True, frozen=True):
    unit: str
    line: str
    call: str
    """The id of the tool call that showed it."""

    def __str__(self) -> str:
        return f"{self.unit.removesuffix('.service')} says: {self.line}"


async def read_last_error(
    execute: ExecuteCall,
    service: str,
    daemons: Sequence[PlainDaemon] = (),
    root_commands: Sequence[str] = (),
) -> LastError | None:
    """The last error in the log of this service; where no unit has its name, the last one in the
    log with the most errors."""

    async def run(script: str) -> str:
        return (
            await run_command(execute, script, LAST_ERROR_TIMEOUT_S, id=new_id("assess"))
        ).output

    units, id = (await list_units(run, daemons, root_commands)).units, new_id("assess")
    supervisors = HostSupervisors(units)
    script = fill_template(read_script("words"), {}, supervisors, partial=True)
    result = await run_command(execute, script, LAST_ERROR_TIMEOUT_S, id=id)
    if result.status != "ok" or result.timed_out:
        return None
    logs = parse_log_summaries(result.output)
    with_errors = [log for log in logs.values() if log.error_lines]
    own = [log for log in with_errors if same_service(log.unit, service)]
    known = any(same_service(each, service) for each in (*logs, *(unit.name for unit in units)))
    if not with_errors or (known and not own):
        return None
    log = own[0] if own else max(with_errors, key=lambda each: each.errors)
    lines = [line for line in log.error_lines if not _REQUEST_LINE.search(line)] or log.error_lines
    return LastError(unit=log.unit, line=" ".join(lines[-1].split())[:MAX_ERROR_CHARS], call=id)
