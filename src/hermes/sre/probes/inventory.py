"""The services that each host should have, remembered across restarts and reboots.

What was found running and is meant to stay is written to `services.json` in the home folder. From
then on it is expected: where it is missing, its probes are asked all the same, and fail.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.sre.probes.marks import MARKS, NOW, SUPPOSED
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.processes import EPHEMERAL_PORTS

FILE = "services.json"
LOCK = "services.lock"
FORGET_UNSEEN_S = 86_400.0
"""A service that was seen and never became expected is forgotten after this."""
_REMEMBERED = ("port", "http", "unit", "postgres", "redis", "mysql", "command")


class Sighting(Value, kw_only=True, frozen=True):
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


class Inventory(Value, kw_only=True, frozen=True):
    """What is known of one host."""

    services: dict[str, KnownService] = msgspec.field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    """Names of which a person said that they need not run."""

    @property
    def expected(self) -> tuple[KnownService, ...]:
        return tuple(each for each in self.services.values() if each.why)


def observed(
    known: Inventory,
    sightings: Sequence[Sighting],
    probes: Sequence[Probe],
    now: datetime,
    settle_s: float,
) -> Inventory:
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
        services[sighting.name] = _after(before, sighting, probes, now, settle_s)
    dismissed = tuple(name for name in known.dismissed if name not in seen)
    return Inventory(services=services, dismissed=dismissed)


def _after(
    before: KnownService | None,
    sighting: Sighting,
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
        probes=_remembered(before, sighting, probes),
    )


def _remembered(
    before: KnownService | None, sighting: Sighting, probes: Sequence[Probe]
) -> tuple[Probe, ...]:
    """Those that were fine once. A port of the ephemeral range that is gone was given back."""
    kept = {each.name: each for each in (before.probes if before is not None else ())}
    for name, probe in list(kept.items()):
        port = int(probe.what) if probe.what.isdigit() else 0
        if port in EPHEMERAL_PORTS and port not in sighting.ports:
            del kept[name]
    for probe in probes:
        fine = probe.labels.get(NOW, "fine") == "fine" and SUPPOSED not in probe.labels
        if probe.service == sighting.name and probe.kind in _REMEMBERED and fine and _stays(probe):
            labels = {key: value for key, value in probe.labels.items() if key not in MARKS}
            kept[probe.name] = replace(probe, labels=labels)
    return tuple(kept.values())


def _stays(probe: Probe) -> bool:
    """Pages come and go; whether a server answers at all does not."""
    if probe.kind != "http":
        return True
    path = probe.what.partition("//")[2].partition("/")[2]
    return path in ("", "health")


def missing_probes(known: Inventory, current: Sequence[Probe]) -> tuple[Probe, ...]:
    """Probes of expected services that the survey did not find again."""
    names = {each.name for each in current}
    return tuple(
        replace(probe, labels={**probe.labels, NOW: "failing"})
        for service in known.expected
        for probe in service.probes
        if probe.name not in names
    )


def forget(known: Inventory, name: str) -> Inventory:
    """Neither expected nor asked about any more, until it is seen running again."""
    services = {key: each for key, each in known.services.items() if key != name}
    return Inventory(services=services, dismissed=tuple({*known.dismissed, name}))


class InventoryStore:
    """The inventory of one host in a home folder, shared with other processes.

    While the file cannot be written, or is gone with its disk, what is known is kept in memory: a
    full home must not make the watch forget what it expects. Without a home it is memory alone.
    """

    def __init__(self, home: Path | None, target: str) -> None:
        self._home, self._target = home, target
        self._last = Inventory()
        self._saved = True

    def load(self) -> Inventory:
        return self._current(_all(self._home))

    def change(self, by: Callable[[Inventory], Inventory]) -> Inventory:
        """Read, change and write while no other process does."""
        with _locked(self._home):
            everything = _all(self._home)
            self._last = by(self._current(everything))
            if everything.get(self._target) != self._last:
                self._saved = _write(self._home, {**everything, self._target: self._last})
        return self._last

    def _current(self, everything: Mapping[str, Inventory]) -> Inventory:
        return everything.get(self._target, self._last) if self._saved else self._last


def _all(home: Path | None) -> Mapping[str, Inventory]:
    """Nothing where there is no file, or none that can be read."""
    try:
        data = (home / FILE).read_bytes() if home is not None else b"{}"
        return msgspec.json.decode(data, type=dict[str, Inventory])
    except (OSError, msgspec.MsgspecError):
        return {}


def _write(home: Path | None, everything: Mapping[str, Inventory]) -> bool:
    if home is None:
        return False
    new = home / f"{FILE}.{os.getpid()}"
    try:
        new.write_bytes(msgspec.json.encode(everything))
        new.replace(home / FILE)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        return False
    return True


@contextmanager
def _locked(home: Path | None) -> Iterator[None]:
    try:
        descriptor = _lock(home) if home is not None else None
    except OSError:  # a home that takes no files takes no inventory either
        descriptor = None
    try:
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(home: Path) -> int:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
