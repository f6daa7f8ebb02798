"""The script that looks over a host, and what it printed, read into values."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.sre.probes.processes import Process, read_process, service_of


class Unit(Value, kw_only=True, frozen=True):
    name: str
    active: str = ""
    sub: str = ""
    result: str = ""
    pid: int = 0
    restarts: int = 0
    enabled: str = ""
    ends: bool = False
    """It does its work and ends, as it should."""
    own: bool = False
    """Made by those who run this host, not by a package."""

    @property
    def service(self) -> str:
        return self.name.removesuffix(".service")

    @property
    def is_enabled(self) -> bool:
        return self.enabled in ("enabled", "enabled-runtime", "generated", "linked")

    @property
    def well(self) -> bool:
        if self.ends:
            return self.active != "failed" and self.result in ("success", "")
        return self.active in ("active", "reloading")


class Listener(Value, kw_only=True, frozen=True):
    host: str
    port: int
    program: str = ""
    service: str = ""
    process: Process | None = None
    """The one that holds the port; None where it may not be seen."""
    unit: bool = False
    """Whether the service manager has it."""


class Installed(Value, kw_only=True, frozen=True):
    """A server that is installed here, and of which no process runs."""

    name: str
    program: str
    enabled: bool = False
    """By the init system that started this host."""


class Supervised(Value, kw_only=True, frozen=True):
    """A program of supervisord."""

    name: str
    state: str
    """In supervisord's own word: RUNNING, STOPPED, FATAL..."""
    process: Process | None = None


class Asked(Value, kw_only=True, frozen=True):
    """Requests for one path, as a service noted them."""

    unit: str
    method: str
    path: str
    times: int
    good: int
    last: int


class Survey(Value, kw_only=True, frozen=True):
    programs: frozenset[str] = frozenset()
    units: tuple[Unit, ...] = ()
    listeners: tuple[Listener, ...] = ()
    http: dict[int, dict[str, int]] = field(default_factory=dict)
    """By port: the status of each path that was asked for; 0 where no answer came."""
    https: dict[int, tuple[int, str]] = field(default_factory=dict)
    """By port: the status of `/`, and a name that the certificate is for."""
    asked: tuple[Asked, ...] = ()
    hears: tuple[tuple[str, int], ...] = ()
    """Unit and port, by what the unit itself wrote when it began to listen."""
    disks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Percent used, and kB free."""
    inodes: dict[str, int] = field(default_factory=dict)
    certificates: tuple[tuple[str, int], ...] = ()
    """Path, and the days that are left at least: 7, 1 or 0."""
    hidden: tuple[str, ...] = ()
    cron: tuple[tuple[str, str], ...] = ()
    logs: tuple[tuple[str, int, float], ...] = ()
    """Path, size, and when it was last written."""
    sqlite: tuple[tuple[str, str], ...] = ()
    pid_files: dict[int, str] = field(default_factory=dict)
    installed: tuple[Installed, ...] = ()
    supervised: tuple[Supervised, ...] = ()
    at: float = 0.0
    """The time there."""


def survey_script(patience: float) -> str:
    """`patience`: seconds for a web server to say something."""
    text = (Path(__file__).parent / "survey.sh").read_text()
    return text.replace("PATIENCE", f"{patience:g}")


Rows = dict[str, list[list[str]]]


def read_survey(text: str) -> Survey:
    rows: Rows = {}
    for line in text.splitlines():
        key, equals, rest = line.partition("=")
        if equals:
            rows.setdefault(key, []).append(rest.split("\t"))
    units = tuple(_units(rows))
    return Survey(
        programs=frozenset(row[0] for row in rows.get("have", ())),
        units=units,
        listeners=tuple(_listeners(rows, units)),
        http=_http(rows),
        https={int(port): (int(code), name) for port, code, name in _of(rows, "https", 3)},
        asked=tuple(_asked(rows)),
        hears=tuple((unit, _int(port)) for unit, port in _of(rows, "hears", 2)),
        disks={at: (_int(used), _int(free)) for at, used, free in _of(rows, "disk", 3)},
        inodes={at: _int(used) for at, used in _of(rows, "inodes", 2)},
        certificates=tuple((path, _int(days)) for path, days in _of(rows, "certificate", 2)),
        hidden=tuple(row[0] for row in rows.get("hidden", ())),
        cron=tuple((file, line) for file, line in _of(rows, "cron", 2)),
        logs=tuple((path, _int(size), float(at)) for path, size, at in _of(rows, "log", 3)),
        at=max((float(_int(row[0])) for row in rows.get("at", ())), default=0.0),
        sqlite=tuple((unit, path) for unit, path in _of(rows, "sqlite", 2)),
        pid_files={_int(pid): path for path, pid in _of(rows, "pidfile", 2)},
        installed=tuple(
            Installed(name=name, program=program, enabled=on == "enabled")
            for name, program, on in _of(rows, "installed", 3)
        ),
        supervised=tuple(_supervised(rows)),
    )


def _of(rows: Rows, key: str, fields: int) -> Iterator[Sequence[str]]:
    return (row for row in rows.get(key, ()) if len(row) == fields)


def _units(rows: Rows) -> Iterator[Unit]:
    once = {row[0] for row in rows.get("oneshot", ())}
    for name, active, sub, result, pid, restarts, enabled, kind, file in _of(rows, "unit", 9):
        yield Unit(
            name=name,
            active=active,
            sub=sub,
            result=result,
            pid=_int(pid),
            restarts=_int(restarts),
            enabled=enabled,
            ends=kind == "oneshot" or name in once,
            own=file.startswith("/etc/"),
        )


def _listeners(rows: Rows, units: Sequence[Unit]) -> Iterator[Listener]:
    parents = {pid: (parent, unit) for pid, parent, unit in _of(rows, "parent", 3)}
    owners = {str(unit.pid): unit.service for unit in units if unit.pid}
    processes = _processes(rows)
    for host, port, program, pids in _of(rows, "listen", 4):
        owner = next(filter(None, (_owner(pid, parents, owners) for pid in pids.split())), "")
        held = [processes[pid] for pid in pids.split() if pid in processes]
        # Of a server and its workers the oldest is the one that was started.
        main = max(held, key=lambda each: (each.age_s, -each.pid), default=None)
        service = owner or (service_of(main, program) if main is not None else program)
        yield Listener(
            host=host,
            port=_int(port),
            program=program,
            service=service,
            process=main,
            unit=bool(owner),
        )


def _processes(rows: Rows) -> dict[str, Process]:
    """By number. supervisord knows the names of those that have overwritten their own."""
    read = (read_process(list(row)) for row in _of(rows, "process", 9))
    found = {str(each.pid): each for each in read if each is not None}
    names = {pid: name for name, _, pid in _of(rows, "supervised", 3) if pid}
    for pid, each in found.items():
        if name := names.get(pid) or names.get(str(each.parent)):
            found[pid] = replace(each, supervised_as=name)
    return found


def _supervised(rows: Rows) -> Iterator[Supervised]:
    processes = _processes(rows)
    for name, state, pid in _of(rows, "supervised", 3):
        yield Supervised(name=re.sub(r"_\d+$", "", name), state=state, process=processes.get(pid))


def _owner(pid: str, parents: dict[str, tuple[str, str]], owners: dict[str, str]) -> str:
    """By the supervisor's own word, by the group it runs in, or by its parent."""
    if pid in owners:
        return owners[pid]
    parent, unit = parents.get(pid, ("", ""))
    return unit.removesuffix(".service") or owners.get(parent, "")


def _http(rows: Rows) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for port, path, code in _of(rows, "http", 3):
        found.setdefault(_int(port), {})[path] = _int(code)
    return found


def _asked(rows: Rows) -> Iterator[Asked]:
    for unit, what, times, good, last in _of(rows, "asked", 5):
        method, _, path = what.partition(" ")
        yield Asked(
            unit=unit,
            method=method,
            path=path,
            times=_int(times),
            good=_int(good),
            last=_int(last),
        )


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0
