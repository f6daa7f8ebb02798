"""Remembers which services each host should have, across restarts and reboots.

Services that were found running and are meant to stay are written to `services.json` in the home
folder. From then on they are expected: when one is missing, its probes still run, and fail.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.plumbing.files import FileLock, write_atomically
from hermes.skills.supervisors.commands import runs_outside_copies
from hermes.skills.supervisors.units import PlainDaemon
from hermes.sre.probes.host_process import SUPERVISORS, HostProcess, service_name
from hermes.sre.probes.host_scan import (
    EPHEMERAL_PORTS,
    HostScan,
    Listener,
    ServiceCriteria,
    SupervisedProgram,
    is_temporary,
    reason_to_stay,
)
from hermes.sre.probes.probe import (
    DISCOVERY_LABELS,
    PROVISIONAL_LABEL,
    STATE_LABEL,
    SUPPOSED_LABEL,
    Probe,
    probe_name,
    state_label,
)

INVENTORY_FILE = "services.json"
INVENTORY_LOCK_FILE = "services.lock"
FORGET_UNSEEN_S = 86_400.0
"""A service that never became expected is forgotten after this time."""
NEW_DAEMON_S = 3_600.0
"""A daemon that appeared after the first scan of its host may be an experiment of a person: Hermes
starts it again only when it ran for so long."""
SAME_START_S = 5
_REMEMBERED_KINDS = ("port", "http", "unit", "postgres", "redis", "mysql", "command")


class RunningService(Value, kw_only=True, frozen=True):
    """A service that runs, as found by one scan."""

    name: str
    why: str = ""
    """Why it is meant to stay; empty when it is not."""
    program: str = ""
    executable: str = ""
    unit: str = ""
    ports: tuple[int, ...] = ()
    provisional_ports: tuple[int, ...] = ()
    """Ports of processes that nothing shows to be meant to stay."""
    temporary: bool = False
    """All of it looks like the work of a person or of another program."""
    daemon: PlainDaemon | None = None
    """How it was started, when it has no supervisor."""
    age_s: int = 0


class KnownService(Value, kw_only=True, frozen=True):
    name: str
    first_seen: datetime
    last_seen: datetime
    why: str = ""
    """Why it is expected; empty while it is not."""
    program: str = ""
    executable: str = ""
    unit: str = ""
    probes: tuple[Probe, ...] = ()
    daemon: PlainDaemon | None = None
    """How it was started, when it has no supervisor."""


OWN_SERVICE = "hermes"
CANNOT_START = "supervisord cannot start it"


class ServiceInventory(Value, kw_only=True, frozen=True):
    """The known services of one host."""

    services: dict[str, KnownService] = msgspec.field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    """Services that need not run, as decided by a person."""

    @property
    def expected(self) -> tuple[KnownService, ...]:
        """Without Hermes itself: who would miss it runs, perhaps without its web server."""
        return tuple(
            each for each in self.services.values() if each.why and each.name != OWN_SERVICE
        )

    @property
    def daemons(self) -> tuple[PlainDaemon, ...]:
        """The expected services without a supervisor, without new ones."""
        return tuple(
            each.daemon
            for each in self.expected
            if each.daemon is not None and not self._is_new(each)
        )

    def _is_new(self, service: KnownService) -> bool:
        first_scan = min(each.first_seen for each in self.services.values())
        seen_for = (service.last_seen - service.first_seen).total_seconds()
        return service.first_seen > first_scan and seen_for < NEW_DAEMON_S


def update_inventory(
    known: ServiceInventory,
    found: Sequence[RunningService],
    probes: Sequence[Probe],
    now: datetime,
    settle_s: float,
) -> ServiceInventory:
    """The inventory after one more scan."""
    services = {
        name: each
        for name, each in known.services.items()
        if each.why or (now - each.last_seen).total_seconds() < FORGET_UNSEEN_S
    }
    seen = {each.name for each in found}
    current = {probe.name for probe in probes}
    for name, each in list(services.items()):
        if name not in seen and each.probes and {p.name for p in each.probes} <= current:
            del services[name]  # it runs under another name now
    for running in found:
        before = services.get(running.name)
        services[running.name] = _updated_service(before, running, probes, now, settle_s)
    dismissed = tuple(name for name in known.dismissed if name not in seen)
    return ServiceInventory(services=services, dismissed=dismissed)


def _updated_service(
    before: KnownService | None,
    running: RunningService,
    probes: Sequence[Probe],
    now: datetime,
    settle_s: float,
) -> KnownService:
    first = before.first_seen if before is not None else now
    seen_for = (now - first).total_seconds()
    why = running.why or (before.why if before is not None else "")
    if not why and before is not None and seen_for >= settle_s and not running.temporary:
        why = f"seen again after {seen_for / 60:.0f} minutes"
    return KnownService(
        name=running.name,
        first_seen=first,
        last_seen=now,
        why=why,
        program=running.program or (before.program if before is not None else ""),
        executable=running.executable or (before.executable if before is not None else ""),
        unit=running.unit,
        daemon=running.daemon
        and replace(
            running.daemon,
            first_seen_s=int(first.timestamp()),
            started_s=_daemon_start_s(before, running, now),
        ),
        probes=_remembered_probes(before, running, probes),
    )


def _daemon_start_s(before: KnownService | None, running: RunningService, now: datetime) -> int:
    """Ages are whole seconds, so a start that differs little is the one known before."""
    start = int(now.timestamp()) - running.age_s
    known = before.daemon.started_s if before is not None and before.daemon is not None else 0
    return known if abs(start - known) <= SAME_START_S else start


def _remembered_probes(
    before: KnownService | None, running: RunningService, probes: Sequence[Probe]
) -> tuple[Probe, ...]:
    """Probes that were fine once, without ephemeral ports that are closed."""
    kept = {each.name: each for each in (before.probes if before is not None else ())}
    for name, probe in list(kept.items()):
        port = int(probe.what) if probe.what.isdigit() else 0
        if port in EPHEMERAL_PORTS and port not in running.ports:
            del kept[name]
    for probe in probes:
        fine = (
            probe.labels.get(STATE_LABEL, "fine") == "fine" and SUPPOSED_LABEL not in probe.labels
        )
        provisional = bool(running.why) and PROVISIONAL_LABEL in probe.labels
        if (
            probe.service == running.name
            and probe.kind in _REMEMBERED_KINDS
            and fine
            and _is_lasting(probe)
            and (not provisional or probe.name in kept)
        ):
            labels = {
                key: value for key, value in probe.labels.items() if key not in DISCOVERY_LABELS
            }
            kept[probe.name] = replace(probe, labels=labels)
    return tuple(kept.values())


def _is_lasting(probe: Probe) -> bool:
    """Return whether the probe stays valid: single pages may be removed."""
    if probe.kind != "http":
        return True
    path = probe.what.partition("//")[2].partition("/")[2]
    return path in ("", "health")


def missing_probes(known: ServiceInventory, current: Sequence[Probe]) -> tuple[Probe, ...]:
    """Probes of expected services that the scan did not find."""
    names = {each.name for each in current}
    return tuple(
        replace(probe, labels={**probe.labels, STATE_LABEL: "failing"})
        for service in known.expected
        for probe in service.probes
        if probe.name not in names
    )


def without_service(known: ServiceInventory, name: str) -> ServiceInventory:
    """Forget a service until it is found running again."""
    services = {key: each for key, each in known.services.items() if key != name}
    return ServiceInventory(services=services, dismissed=tuple({*known.dismissed, name}))


class InventoryStore:
    """The inventory of one host in a home folder, shared with other processes.

    While the file cannot be written, the inventory is kept in memory: a full disk must not make the
    watch forget what it expects. Without a home folder it is only in memory.
    """

    def __init__(self, home: Path | None, target: str) -> None:
        self._home, self._target = home, target
        self._last = ServiceInventory()
        self._saved = True

    def load(self) -> ServiceInventory:
        return self._current(read_inventories(self._home))

    def change(self, update: Callable[[ServiceInventory], ServiceInventory]) -> ServiceInventory:
        """Read, change and write the file under a lock."""
        with _inventory_lock(self._home):
            everything = read_inventories(self._home)
            self._last = update(self._current(everything))
            if everything.get(self._target) != self._last:
                self._saved = _write_all(self._home, {**everything, self._target: self._last})
        return self._last

    def _current(self, everything: Mapping[str, ServiceInventory]) -> ServiceInventory:
        return everything.get(self._target, self._last) if self._saved else self._last


def read_inventories(home: Path | None) -> Mapping[str, ServiceInventory]:
    """Empty when the file is missing or cannot be read."""
    try:
        data = (home / INVENTORY_FILE).read_bytes() if home is not None else b"{}"
        return msgspec.json.decode(data, type=dict[str, ServiceInventory])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write_all(home: Path | None, everything: Mapping[str, ServiceInventory]) -> bool:
    if home is None:
        return False
    try:
        write_atomically(home / INVENTORY_FILE, msgspec.json.encode(everything), sync=False)
    except OSError:
        return False
    return True


def _inventory_lock(home: Path | None) -> AbstractContextManager[object]:
    with suppress(OSError):  # without a lock file nothing can be written either
        if home is not None:
            return FileLock(home / INVENTORY_LOCK_FILE)
    return nullcontext()


def mark_provisional(probe: Probe) -> Probe:
    return replace(probe, labels={**probe.labels, PROVISIONAL_LABEL: "yes"})


def find_running_services(scan: HostScan, criteria: ServiceCriteria) -> Iterator[RunningService]:
    """All services that listen, and all units that are enabled and run."""
    found: dict[str, list[Listener]] = {}
    for each in scan.listeners:
        if each.service:
            found.setdefault(each.service, []).append(each)
    units = {unit.service: unit for unit in scan.units if unit.is_enabled and unit.is_healthy}
    for name, listeners in found.items():
        reasons = [_reason_of_listener(listener, scan, criteria) for listener in listeners]
        without = {each.port for each, why in zip(listeners, reasons, strict=True) if not why} - {
            each.port for each, why in zip(listeners, reasons, strict=True) if why
        }
        lasting = [each for each in listeners if each.port not in without] or listeners
        main = next((each.process for each in lasting if each.process is not None), None)
        yield RunningService(
            name=name,
            why=next(filter(None, reasons), ""),
            program=next((each.program for each in listeners if each.program), ""),
            executable=main.executable if main is not None else "",
            unit=f"{name}.service" if any(each.unit for each in listeners) else "",
            ports=tuple(sorted({each.port for each in listeners})),
            provisional_ports=tuple(sorted(without)),
            temporary=all(_is_temporary_listener(each, scan, criteria) for each in listeners),
            daemon=_plain_daemon(name, main, scan),
            age_s=main.age_s if main is not None else 0,
        )
    for name, program in _without_port(scan).items():
        executable = program.process.executable if program.process is not None else ""
        yield RunningService(name=name, why="supervised by supervisord", executable=executable)
    for name, process in _daemons_without_port(scan).items():
        yield RunningService(
            name=name,
            why=f"named in {scan.pid_files[process.pid]}",
            executable=process.executable,
            daemon=_plain_daemon(name, process, scan),
            age_s=process.age_s,
        )
    for name, unit in units.items():
        if name not in found and not unit.is_oneshot:
            yield RunningService(name=name, why="enabled in the service manager", unit=unit.name)


def _plain_daemon(name: str, main: HostProcess | None, scan: HostScan) -> PlainDaemon | None:
    if main is None or main.supervisor or main.pid not in scan.started:
        return None
    pid = main.parent if _is_worker(main, scan) else main.pid
    if any(name == unit.service or main.pid == unit.pid for unit in scan.units):
        return None
    pid_file = scan.pid_files.get(pid, "")
    return replace(scan.started[pid], name=name, pid_file=pid_file)


def _is_worker(process: HostProcess, scan: HostScan) -> bool:
    """Return whether it shares the port of its parent, which started it, such as a worker of
    nginx."""
    parent = scan.started.get(process.parent)
    own = scan.started[process.pid]
    return parent is not None and bool(own.title and parent.title)


_LOG_PATH = re.compile(r"/[\w./@+-]+")


def _without_port(scan: HostScan) -> dict[str, SupervisedProgram]:
    """Programs of supervisord that run without a port, by name."""
    listening = {each.service for each in scan.listeners}
    return {
        each.name: each
        for each in scan.supervised
        if each.state == "RUNNING" and each.name not in listening
    }


def _daemons_without_port(scan: HostScan) -> dict[str, HostProcess]:
    """Processes of pid files that neither listen nor have a supervisor, by name. Supervisors
    themselves are left out: to start a second one beside its orphans would do harm."""
    listening = [each.process for each in scan.listeners if each.process is not None]
    seen = {pid for each in listening for pid in (each.pid, each.parent)}
    taken = {each.service for each in scan.listeners} | {each.name for each in scan.supervised}
    found = dict[str, HostProcess]()
    for each in scan.daemons:
        program = each.executable.rpartition("/")[2]
        name = service_name(each, program)
        if each.supervisor or each.pid in seen or name in taken or not each.command:
            continue
        if name and name not in SUPERVISORS:
            found.setdefault(name, each)
    return found


def process_probes(scan: HostScan) -> Iterator[Probe]:
    """Probes of services without a port: workers by their command line, programs that supervisord
    cannot start, and servers that are enabled at boot and do not run."""
    for name, each in _without_port(scan).items():
        if each.process is not None and each.process.command:
            # Programs such as nginx change their command line while they start.
            test = f"{_command_test(each.process)} || {_supervisord_test(each)}"
            suspended = _suspended_test(each.process)
            yield _process_probe(name, test, f"{name} is not running", True, suspended)
    for name, daemon in _daemons_without_port(scan).items():
        # It may have been started with other arguments since.
        named = f"pgrep -F {quote(scan.pid_files[daemon.pid])} >/dev/null 2>&1"
        test = f"{_command_test(daemon)} || {named}"
        suspended = _suspended_test(daemon)
        yield _process_probe(name, test, f"{name} is not running", True, suspended)
    for each in scan.supervised:
        if each.state in ("FATAL", "BACKOFF"):
            test = _supervisord_test(each)
            words = f"{each.name} is not running: {CANNOT_START}"
            yield replace(
                _process_probe(each.name, test, words, False), interval=60.0, timeout=10.0
            )
    for server in scan.installed:
        if server.enabled:
            test = runs_outside_copies(f"-x {quote(server.program)}")
            words = f"{server.name} is enabled at boot and is not running"
            yield _process_probe(server.name, test, words, False)


def _command_test(process: HostProcess, states: str = "") -> str:
    pattern = quote(re.escape(process.command[:250]).replace("\\ ", " "))
    return runs_outside_copies(f"{states}-f -- ^{pattern}")


def _suspended_test(process: HostProcess) -> str:
    """Nothing else shows that a worker without a port was stopped by a signal."""
    suspended, running = _command_test(process, "-r T "), _command_test(process, "-r D,I,R,S ")
    return f"{suspended} && ! {running}"


def _supervisord_test(program: SupervisedProgram) -> str:
    asked = f"timeout 5 supervisorctl status {quote(program.name)} 2>/dev/null | grep -qw RUNNING"
    if not _LOG_PATH.fullmatch(program.log):
        return asked
    # Its supervisord may have a configuration that supervisorctl does not find by itself; in a copy
    # of the host nothing writes the log, and supervisorctl speaks of the programs of the copy.
    name = rf"'?{re.escape(program.name)}(_[0-9]+)?'? "
    states = quote(f" (spawned|success|exited|gave up|stopped): {name}")
    return (
        f"tail -n 4000 {quote(program.log)} 2>/dev/null | grep -E -- {states} | tail -n 1"
        f" | grep -q 'entered RUNNING' || {asked}"
    )


def _process_probe(name: str, test: str, words: str, runs: bool, suspended: str = "") -> Probe:
    what = f"{test} || {{ echo {quote(words)}; exit 1; }}"
    if suspended:
        told = quote(f"{name} is suspended: a signal has stopped it")
        what += f"\nif {suspended}; then echo {told}; exit 1; fi"
    return Probe(
        name=probe_name("process", name),
        kind="command",
        what=what,
        service=name,
        severity="P1",
        labels=state_label(runs),
    )


def _reason_of_listener(listener: Listener, scan: HostScan, criteria: ServiceCriteria) -> str:
    """Return why the service is meant to stay. A process that is not visible belongs to another
    user."""
    if listener.unit:
        return "a unit of the service manager"
    process, port = listener.process, listener.port
    if process is None:
        return "" if port in EPHEMERAL_PORTS else "a process of another user"
    return reason_to_stay(process, port, scan.pid_files, criteria, _folder(process, scan))


def _is_temporary_listener(listener: Listener, scan: HostScan, criteria: ServiceCriteria) -> bool:
    process = listener.process
    return process is not None and is_temporary(
        process, listener.port, criteria, _folder(process, scan)
    )


def _folder(process: HostProcess, scan: HostScan) -> str:
    started = scan.started.get(process.pid)
    return started.folder if started is not None else ""


def names_of_services(scan: HostScan, known: Iterable[str] = ()) -> list[str]:
    """The longest first."""
    names = {*known} | {unit.service for unit in scan.units}
    names |= {each.service for each in scan.listeners} | {each.name for each in scan.supervised}
    return sorted(names - {""}, key=lambda name: (-len(name), name))


def service_of_log(path: str, services: Sequence[str]) -> str:
    """The service that the name of the file contains as a word, or that of a folder above it."""
    for part in reversed(path.removeprefix("/var/log/").split("/")):
        for name in services:
            if re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", part):
                return name
    return ""
