"""Scans a host for processes, listeners, units, disks and logs, and parses the output.

Also decides whether a process is meant to stay: such a service is expected from then on, and its
end is an incident. A development server that runs for a minute is not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.supervisors.units import PlainDaemon, supervisord_log_functions
from hermes.sre.probes.host_process import (
    SUPERVISORS,
    HostProcess,
    parse_process,
    service_name,
)

_NGINX_TITLE = "nginx: master process "
EPHEMERAL_PORTS = range(32768, 61000)
"""Ports that the kernel assigns automatically."""
LONG_RUNNING_S = 86_400.0
"""A process at a terminal that runs longer than this is meant to stay."""
PID_FILE_DELAY_S = 5
"""Times of files and of processes are rounded differently."""


class ServiceCriteria(Value, kw_only=True, frozen=True):
    """When an unsupervised process counts as a service that is meant to stay."""

    settle_s: float = 300.0
    """The age from which it does."""
    temporary_folders: tuple[str, ...] = ("/tmp", "/var/tmp", "/dev/shm")
    """A process that works below one of them does not: it is a trial or a test."""
    known_names: tuple[str, ...] = ()
    """Services that were seen before: a log keeps its service while that does not run."""
    own_ports: tuple[int, ...] = ()
    """Ports of the process that scans, which are no service of the host: it cannot report its own
    end, and each request would cost it memory."""


DEFAULT_CRITERIA = ServiceCriteria()


def reason_to_stay(
    process: HostProcess,
    port: int,
    pid_files: Mapping[int, str],
    criteria: ServiceCriteria,
    folder: str = "",
) -> str:
    """Return why the process is meant to stay; empty when nothing shows it. `folder`: where it
    works."""
    if process.supervisor:
        return f"supervised by {process.supervisor}"
    if process.pid == 1:
        return "the first process of this host"
    pid_file = pid_files.get(process.pid) or pid_files.get(process.parent)
    if pid_file:
        return f"named in {pid_file}"
    if is_temporary(process, port, criteria, folder):
        return "running for more than a day" if process.age_s >= LONG_RUNNING_S else ""
    if process.session == process.pid and port not in EPHEMERAL_PORTS:
        return "a daemon"
    if process.age_s >= criteria.settle_s:
        return f"running for {process.age_s // 60} minutes"
    return ""


def is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path.startswith(f"{each}/") for each in folders)


def is_temporary(
    process: HostProcess, port: int, criteria: ServiceCriteria, folder: str = ""
) -> bool:
    """Return whether it looks like the work of a person or of another program, and not like a
    service."""
    own_program = process.executable.rpartition("/")[2]
    others = [name for name, _ in process.ancestors if name != own_program]
    is_job = len(others) > 1 and process.session != process.pid
    program = (process.executable, *process.command.split()[:3])  # an interpreter and its script
    return (
        process.at_terminal
        or folder in criteria.temporary_folders
        or any(is_below(path, criteria.temporary_folders) for path in (folder, *program))
        or (is_job and port in EPHEMERAL_PORTS)
    )


class ServiceUnit(Value, kw_only=True, frozen=True):
    name: str
    active: str = ""
    sub: str = ""
    result: str = ""
    pid: int = 0
    restarts: int = 0
    enabled: str = ""
    is_oneshot: bool = False
    """It does its work and ends."""
    is_local: bool = False
    """Created by the operator, not by a package."""

    @property
    def service(self) -> str:
        return self.name.removesuffix(".service")

    @property
    def is_enabled(self) -> bool:
        return self.enabled in ("enabled", "enabled-runtime", "generated", "linked")

    @property
    def is_healthy(self) -> bool:
        if self.is_oneshot:
            return self.active != "failed" and self.result in ("success", "")
        return self.active in ("active", "reloading")


class Listener(Value, kw_only=True, frozen=True):
    host: str
    port: int
    program: str = ""
    service: str = ""
    process: HostProcess | None = None
    """The process with the port; None where it is not visible."""
    unit: bool = False
    """Whether it belongs to a unit."""


class InstalledServer(Value, kw_only=True, frozen=True):
    """A server that is installed and does not run."""

    name: str
    program: str
    enabled: bool = False
    """Whether it is started at boot."""


class SupervisedProgram(Value, kw_only=True, frozen=True):
    """A program of supervisord."""

    name: str
    state: str
    """The state in supervisord: RUNNING, STOPPED, FATAL..."""
    log: str = ""
    """The log of its supervisord."""
    process: HostProcess | None = None


class LoggedRequests(Value, kw_only=True, frozen=True):
    """Requests for one path, by the log of a service."""

    unit: str
    """Or the path of its log."""
    method: str
    path: str
    times: int
    good: int
    last: int


class HostScan(Value, kw_only=True, frozen=True):
    programs: frozenset[str] = frozenset()
    units: tuple[ServiceUnit, ...] = ()
    listeners: tuple[Listener, ...] = ()
    http: dict[int, dict[str, int]] = field(default_factory=dict)
    """By port: the status of each requested path; 0 without an answer."""
    https: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By port: the status of `/`, and a name in the certificate."""
    logged_requests: tuple[LoggedRequests, ...] = ()
    announced_ports: tuple[tuple[str, int], ...] = ()
    """Unit and port, by the log of the unit."""
    disks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Percent used, and kB free."""
    inodes: dict[str, int] = field(default_factory=dict)
    certificates: tuple[tuple[str, int, str], ...] = ()
    """Path, the least of days that remain (7, 1 or 0), and the server that names it."""
    unreadable: tuple[str, ...] = ()
    cron: tuple[tuple[str, str], ...] = ()
    logs: tuple[tuple[str, int, float], ...] = ()
    """Path, size, and time of the last write."""
    log_writers: dict[str, str] = field(default_factory=dict)
    """By path: the service whose process has the log open."""
    request_logs: frozenset[str] = frozenset()
    """Paths of logs whose last lines show requests and the status of their answers."""
    sqlite: tuple[tuple[str, str], ...] = ()
    mysql_sockets: dict[int, str] = field(default_factory=dict)
    """By port: the socket at which a MariaDB answers its administrator without a password."""
    pid_files: dict[int, str] = field(default_factory=dict)
    daemons: tuple[HostProcess, ...] = ()
    """Processes that a pid file names, without those of a unit."""
    installed: tuple[InstalledServer, ...] = ()
    supervised: tuple[SupervisedProgram, ...] = ()
    started: dict[int, PlainDaemon] = field(default_factory=dict)
    """By process id: how processes without a unit were started."""
    at: float = 0.0
    """The time on the host."""


def scan_script(http_timeout_s: float, own_ports: Iterable[int] = ()) -> str:
    """`http_timeout_s`: seconds for a web server to answer; `own_ports` are left out."""
    text = (Path(__file__).parent / "survey.sh").read_text()
    text = text.replace("SUPERVISORD_LOG", supervisord_log_functions())
    text = text.replace("OWN_PORTS", " ".join(map(str, own_ports)))
    return text.replace("PATIENCE", f"{http_timeout_s:g}")


ScanRows = dict[str, list[list[str]]]


def parse_scan(text: str) -> HostScan:
    rows: ScanRows = {}
    for line in text.splitlines():
        key, equals, rest = line.partition("=")
        if equals:
            rows.setdefault(key, []).append(rest.split("\t"))
    units = tuple(_parse_units(rows))
    return HostScan(
        programs=frozenset(row[0] for row in rows.get("have", ())),
        units=units,
        listeners=tuple(_parse_listeners(rows, units)),
        http=_parse_http(rows),
        https={int(port): (int(code), name) for port, code, name in _rows_of(rows, "https", 3)},
        logged_requests=tuple(_parse_logged_requests(rows)),
        announced_ports=tuple(
            (unit, _parse_int(port)) for unit, port in _rows_of(rows, "hears", 2)
        ),
        disks={
            at: (_parse_int(used), _parse_int(free)) for at, used, free in _rows_of(rows, "disk", 3)
        },
        inodes={at: _parse_int(used) for at, used in _rows_of(rows, "inodes", 2)},
        certificates=tuple(
            (path, _parse_int(days), owner)
            for path, days, owner in _rows_of(rows, "certificate", 3)
        ),
        unreadable=tuple(row[0] for row in rows.get("hidden", ())),
        cron=tuple((file, line) for file, line in _rows_of(rows, "cron", 2)),
        logs=tuple(
            (path, _parse_int(size), float(at)) for path, size, at in _rows_of(rows, "log", 3)
        ),
        log_writers=dict(_parse_log_writers(rows, units)),
        request_logs=frozenset(row[0] for row in rows.get("requestlog", ())),
        at=max((float(_parse_int(row[0])) for row in rows.get("at", ())), default=0.0),
        sqlite=tuple((unit, path) for unit, path in _rows_of(rows, "sqlite", 2)),
        mysql_sockets={_parse_int(port): at for port, at in _rows_of(rows, "mysqlsocket", 2)},
        pid_files={_parse_int(pid): path for path, pid, _ in _rows_of(rows, "pidfile", 3)},
        daemons=tuple(_parse_daemons(rows, units)),
        installed=tuple(
            InstalledServer(name=name, program=program, enabled=on == "enabled")
            for name, program, on in _rows_of(rows, "installed", 3)
        ),
        supervised=tuple(_parse_supervised(rows)),
        started=dict(_parse_started(rows)),
    )


def _rows_of(rows: ScanRows, key: str, fields: int) -> Iterator[Sequence[str]]:
    return (row for row in rows.get(key, ()) if len(row) == fields)


def _parse_units(rows: ScanRows) -> Iterator[ServiceUnit]:
    once = {row[0] for row in rows.get("oneshot", ())}
    for name, active, sub, result, pid, restarts, enabled, kind, file in _rows_of(rows, "unit", 9):
        yield ServiceUnit(
            name=name,
            active=active,
            sub=sub,
            result=result,
            pid=_parse_int(pid),
            restarts=_parse_int(restarts),
            enabled=enabled,
            is_oneshot=kind == "oneshot" or name in once,
            is_local=file.startswith("/etc/"),
        )


def _parse_daemons(rows: ScanRows, units: Sequence[ServiceUnit]) -> Iterator[HostProcess]:
    owned = _UnitOwnership(rows, units)
    processes = _parse_processes(rows)
    now = max((_parse_int(row[0]) for row in rows.get("at", ())), default=0)
    for _, pid, written in _rows_of(rows, "pidfile", 3):
        process = processes.get(pid)
        if process is None or process.at_terminal or owned.service_of(pid):
            continue
        # A process that began after the file was written has only taken over the number.
        if _parse_int(written) + PID_FILE_DELAY_S >= now - process.age_s:
            yield process


def _parse_listeners(rows: ScanRows, units: Sequence[ServiceUnit]) -> Iterator[Listener]:
    owned = _UnitOwnership(rows, units)
    processes = _parse_processes(rows)
    for host, port, program, pids in _rows_of(rows, "listen", 4):
        owner = next(filter(None, map(owned.service_of, pids.split())), "")
        held = [processes[pid] for pid in pids.split() if pid in processes]
        # Of a server and its workers the oldest process is the server.
        main = max(held, key=lambda each: (each.age_s, -each.pid), default=None)
        service = owner or (service_name(main, program) if main is not None else program)
        yield Listener(
            host=host,
            port=_parse_int(port),
            program=program,
            service=service,
            process=main,
            unit=bool(owner),
        )


def _parse_log_writers(rows: ScanRows, units: Sequence[ServiceUnit]) -> Iterator[tuple[str, str]]:
    """A supervisor writes the logs of its programs, not its own."""
    owned = _UnitOwnership(rows, units)
    processes = _parse_processes(rows)
    programs = {
        pid: name for _, _, name, pids in _rows_of(rows, "listen", 4) for pid in pids.split()
    }
    for pid, path in _rows_of(rows, "writes", 2):
        process = processes.get(pid)
        program = programs.get(pid) or (process.executable.rpartition("/")[2] if process else "")
        if process is not None and program not in SUPERVISORS:
            yield path, owned.service_of(pid) or service_name(process, program)


def _parse_processes(rows: ScanRows) -> dict[str, HostProcess]:
    """By process id. Names from supervisord take precedence."""
    read = (parse_process(list(row)) for row in _rows_of(rows, "process", 9))
    found = {str(each.pid): each for each in read if each is not None}
    names = {pid: name for name, _, pid in _rows_of(rows, "supervised", 3) if pid}
    for pid, each in found.items():
        if name := names.get(pid) or names.get(str(each.parent)):
            found[pid] = replace(each, supervised_as=name)
    return found


def _parse_supervised(rows: ScanRows) -> Iterator[SupervisedProgram]:
    processes = _parse_processes(rows)
    logs = {name: log for name, log in _rows_of(rows, "supervisedlog", 2)}
    for name, state, pid in _rows_of(rows, "supervised", 3):
        yield SupervisedProgram(
            name=re.sub(r"_\d+$", "", name),
            state=state,
            log=logs.get(name, "").removeprefix("-"),
            process=processes.get(pid),
        )


def _command_of_title(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The title of a process, and the command that started it; no command where it is not known. A
    program that shows a title in place of its arguments has one word with spaces in it."""
    if " " not in words[0]:
        return "", words if words[0] and all(words) else ()
    if words[0].startswith(_NGINX_TITLE):  # followed by its arguments, without quotes
        own = words[0].removeprefix(_NGINX_TITLE).split(" -g ")
        tail = ("-g", own[1]) if len(own) == 2 else ()
        return words[0], (*own[0].split(), *tail) if len(own) < 3 else ()
    return words[0], words[1:] if all(words) else ()  # a title may be followed by zeros


def _parse_started(rows: ScanRows) -> Iterator[tuple[int, PlainDaemon]]:
    for pid, user, folder, log, variables, line in _rows_of(rows, "started", 6):
        title, shown = _command_of_title(tuple(line.removesuffix("\x1f").split("\x1f")))
        yield (
            _parse_int(pid),
            PlainDaemon(
                name="",
                command=shown,
                title=title,
                user=user,
                folder=folder,
                log=log,
                variables=() if title else tuple(variables.split()),  # a title covers them
            ),
        )


class _UnitOwnership:
    def __init__(self, rows: ScanRows, units: Sequence[ServiceUnit]) -> None:
        self._parents = {pid: (parent, unit) for pid, parent, unit in _rows_of(rows, "parent", 3)}
        self._services = {str(unit.pid): unit.service for unit in units if unit.pid}

    def service_of(self, pid: str) -> str:
        """The unit of a process: by its main process, its control group, or its parent."""
        if pid in self._services:
            return self._services[pid]
        parent, unit = self._parents.get(pid, ("", ""))
        return unit.removesuffix(".service") or self._services.get(parent, "")


def _parse_http(rows: ScanRows) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for port, path, code in _rows_of(rows, "http", 3):
        found.setdefault(_parse_int(port), {})[path] = _parse_int(code)
    return found


def _parse_logged_requests(rows: ScanRows) -> Iterator[LoggedRequests]:
    asked = (*_rows_of(rows, "asked", 5), *_rows_of(rows, "paged", 5))
    for unit, what, times, good, last in asked:
        method, _, path = what.partition(" ")
        yield LoggedRequests(
            unit=unit,
            method=method,
            path=path,
            times=_parse_int(times),
            good=_parse_int(good),
            last=_parse_int(last),
        )


def _parse_int(text: str) -> int:
    return int(text) if text.isdigit() else 0
