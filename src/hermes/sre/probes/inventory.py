"""The services that each host should have, remembered across restarts and reboots.

What was found running and is meant to stay is written to `services.json` in the home folder. From
then on it is expected: where it is missing, its probes are asked all the same, and fail.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.sre.probes.host_scan import (
    EPHEMERAL_PORTS,
    HostScan,
    Listener,
    SupervisedProgram,
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
"""A service that was seen and never became expected is forgotten after this."""
_REMEMBERED_KINDS = ("port", "http", "unit", "postgres", "redis", "mysql", "command")


class RunningService(Value, kw_only=True, frozen=True):
    """A service that runs now, as one survey saw it."""

    name: str
    why: str = ""
    """Why it is meant to stay; empty while nothing says so."""
    program: str = ""
    executable: str = ""
    unit: str = ""
    ports: tuple[int, ...] = ()


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


class ServiceInventory(Value, kw_only=True, frozen=True):
    """What is known of one host."""

    services: dict[str, KnownService] = msgspec.field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    """Names of which a person said that they need not run."""

    @property
    def expected(self) -> tuple[KnownService, ...]:
        return tuple(each for each in self.services.values() if each.why)


def update_inventory(
    known: ServiceInventory,
    sightings: Sequence[RunningService],
    probes: Sequence[Probe],
    now: datetime,
    settle_s: float,
) -> ServiceInventory:
    """The inventory after one more survey."""
    services = {
        name: each
        for name, each in known.services.items()
        if each.why or (now - each.last_seen).total_seconds() < FORGET_UNSEEN_S
    }
    seen = {each.name for each in sightings}
    current = {probe.name for probe in probes}
    for name, each in list(services.items()):
        if name not in seen and each.probes and {p.name for p in each.probes} <= current:
            del services[name]  # it runs under another name now
    for sighting in sightings:
        before = services.get(sighting.name)
        services[sighting.name] = _updated_service(before, sighting, probes, now, settle_s)
    dismissed = tuple(name for name in known.dismissed if name not in seen)
    return ServiceInventory(services=services, dismissed=dismissed)


def _updated_service(
    before: KnownService | None,
    sighting: RunningService,
    probes: Sequence[Probe],
    now: datetime,
    settle_s: float,
) -> KnownService:
    first = before.first_seen if before is not None else now
    seen_for = (now - first).total_seconds()
    why = sighting.why or (before.why if before is not None else "")
    if not why and before is not None and seen_for >= settle_s:
        why = f"seen again after {seen_for / 60:.0f} minutes"
    return KnownService(
        name=sighting.name,
        first_seen=first,
        last_seen=now,
        why=why,
        program=sighting.program or (before.program if before is not None else ""),
        executable=sighting.executable or (before.executable if before is not None else ""),
        unit=sighting.unit,
        probes=_remembered_probes(before, sighting, probes),
    )


def _remembered_probes(
    before: KnownService | None, sighting: RunningService, probes: Sequence[Probe]
) -> tuple[Probe, ...]:
    """Those that were fine once. A port of the ephemeral range that is gone was given back."""
    kept = {each.name: each for each in (before.probes if before is not None else ())}
    for name, probe in list(kept.items()):
        port = int(probe.what) if probe.what.isdigit() else 0
        if port in EPHEMERAL_PORTS and port not in sighting.ports:
            del kept[name]
    for probe in probes:
        fine = (
            probe.labels.get(STATE_LABEL, "fine") == "fine" and SUPPOSED_LABEL not in probe.labels
        )
        if (
            probe.service == sighting.name
            and probe.kind in _REMEMBERED_KINDS
            and fine
            and _is_lasting(probe)
        ):
            labels = {
                key: value for key, value in probe.labels.items() if key not in DISCOVERY_LABELS
            }
            kept[probe.name] = replace(probe, labels=labels)
    return tuple(kept.values())


def _is_lasting(probe: Probe) -> bool:
    """Pages come and go; whether a server answers at all does not."""
    if probe.kind != "http":
        return True
    path = probe.what.partition("//")[2].partition("/")[2]
    return path in ("", "health")


def missing_probes(known: ServiceInventory, current: Sequence[Probe]) -> tuple[Probe, ...]:
    """Probes of expected services that the survey did not find again."""
    names = {each.name for each in current}
    return tuple(
        replace(probe, labels={**probe.labels, STATE_LABEL: "failing"})
        for service in known.expected
        for probe in service.probes
        if probe.name not in names
    )


def without_service(known: ServiceInventory, name: str) -> ServiceInventory:
    """Neither expected nor asked about any more, until it is seen running again."""
    services = {key: each for key, each in known.services.items() if key != name}
    return ServiceInventory(services=services, dismissed=tuple({*known.dismissed, name}))


class InventoryStore:
    """The inventory of one host in a home folder, shared with other processes.

    While the file cannot be written, or is gone with its disk, what is known is kept in memory: a
    full home must not make the watch forget what it expects. Without a home it is memory alone.
    """

    def __init__(self, home: Path | None, target: str) -> None:
        self._home, self._target = home, target
        self._last = ServiceInventory()
        self._saved = True

    def load(self) -> ServiceInventory:
        return self._current(_read_all(self._home))

    def change(self, by: Callable[[ServiceInventory], ServiceInventory]) -> ServiceInventory:
        """Read, change and write while no other process does."""
        with _inventory_lock(self._home):
            everything = _read_all(self._home)
            self._last = by(self._current(everything))
            if everything.get(self._target) != self._last:
                self._saved = _write_all(self._home, {**everything, self._target: self._last})
        return self._last

    def _current(self, everything: Mapping[str, ServiceInventory]) -> ServiceInventory:
        return everything.get(self._target, self._last) if self._saved else self._last


def _read_all(home: Path | None) -> Mapping[str, ServiceInventory]:
    """Nothing where there is no file, or none that can be read."""
    try:
        data = (home / INVENTORY_FILE).read_bytes() if home is not None else b"{}"
        return msgspec.json.decode(data, type=dict[str, ServiceInventory])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write_all(home: Path | None, everything: Mapping[str, ServiceInventory]) -> bool:
    if home is None:
        return False
    new = home / f"{INVENTORY_FILE}.{os.getpid()}"
    try:
        new.write_bytes(msgspec.json.encode(everything))
        new.replace(home / INVENTORY_FILE)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        return False
    return True


@contextmanager
def _inventory_lock(home: Path | None) -> Iterator[None]:
    try:
        descriptor = _open_lock(home) if home is not None else None
    except OSError:  # a home that takes no files takes no inventory either
        descriptor = None
    try:
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open_lock(home: Path) -> int:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(home / INVENTORY_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def mark_provisional(probe: Probe) -> Probe:
    return replace(probe, labels={**probe.labels, PROVISIONAL_LABEL: "yes"})


def find_running_services(survey: HostScan, settle_s: float) -> Iterator[RunningService]:
    """Everything that listens, and every unit that is enabled and well."""
    found: dict[str, list[Listener]] = {}
    for each in survey.listeners:
        if each.service:
            found.setdefault(each.service, []).append(each)
    units = {unit.service: unit for unit in survey.units if unit.is_enabled and unit.well}
    for name, listeners in found.items():
        reasons = (_reason_of_listener(listener, survey, settle_s) for listener in listeners)
        main = next((each.process for each in listeners if each.process is not None), None)
        yield RunningService(
            name=name,
            why=next(filter(None, reasons), ""),
            program=next((each.program for each in listeners if each.program), ""),
            executable=main.executable if main is not None else "",
            unit=f"{name}.service" if any(each.unit for each in listeners) else "",
            ports=tuple(sorted({each.port for each in listeners})),
        )
    for name, program in _without_port(survey).items():
        executable = program.process.executable if program.process is not None else ""
        yield RunningService(name=name, why="supervised by supervisord", executable=executable)
    for name, unit in units.items():
        if name not in found and not unit.is_oneshot:
            yield RunningService(name=name, why="enabled in the service manager", unit=unit.name)


def _without_port(survey: HostScan) -> dict[str, SupervisedProgram]:
    """Programs of supervisord that run and do not listen, by name."""
    listening = {each.service for each in survey.listeners}
    return {
        each.name: each
        for each in survey.supervised
        if each.state == "RUNNING" and each.name not in listening
    }


def process_probes(survey: HostScan) -> Iterator[Probe]:
    """What has no port: workers by their command line, what its supervisor cannot start, and what
    the init system starts at boot and does not run."""
    for name, each in _without_port(survey).items():
        if each.process is not None and each.process.command:
            pattern = quote(re.escape(each.process.command[:250]).replace("\\ ", " "))
            yield _process_probe(
                name, f"pgrep -f -- ^{pattern} >/dev/null", f"{name} is not running", True
            )
    for each in survey.supervised:
        if each.state in ("FATAL", "BACKOFF"):
            test = f"supervisorctl status {quote(each.name)} | grep -qw RUNNING"
            words = f"{each.name} is not running: supervisord cannot start it"
            yield replace(
                _process_probe(each.name, test, words, False), interval=60.0, timeout=10.0
            )
    for server in survey.installed:
        if server.enabled:
            test = f"pgrep -x {quote(server.program)} >/dev/null"
            words = f"{server.name} is enabled at boot and is not running"
            yield _process_probe(server.name, test, words, False)


def _process_probe(name: str, test: str, words: str, runs: bool) -> Probe:
    return Probe(
        name=probe_name("process", name),
        kind="command",
        what=f"{test} || {{ echo {quote(words)}; exit 1; }}",
        service=name,
        severity="P1",
        labels=state_label(runs),
    )


def _reason_of_listener(listener: Listener, survey: HostScan, settle: float) -> str:
    """What may not be seen belongs to another user, and is meant to stay where its port is."""
    if listener.unit:
        return "a unit of the service manager"
    if listener.process is None:
        return "" if listener.port in EPHEMERAL_PORTS else "a process of another user"
    return reason_to_stay(listener.process, listener.port, survey.pid_files, settle)
