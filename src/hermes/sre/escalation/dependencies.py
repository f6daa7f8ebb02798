"""Finds the service that a failing one waits for: a proxy that runs well only shows its errors.

A connection, an address in its configuration or a name in its errors tie a service to it. Another
one that fails at the same time may have to do with it, which is said in these words.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.skills.supervisors.units import HostUnit, UnitListing, same_service
from hermes.sre.escalation.host_scripts import (
    EscalationSubject,
    HostRow,
    HostRows,
    named_ports,
)
from hermes.sre.escalation.service_identity import accepts_nothing

MIN_NAME_CHARS = 3
CONNECTED, ERRORS = "connected", "its errors"
"""Sources of a dependency; others are files."""
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_CONNECTION_WORDS = re.compile(
    r"refused|unreachable|timed? ?out|upstream|econn|broken pipe|connection (?:reset|closed|failed)"
    r"|could not connect|can.t connect|no route|connect\(\)|not connected",
    re.IGNORECASE,
)
ANSWER_KINDS = ("http", "answers", "log", "tls")
"""Kinds of checks that may fail although the service itself is well."""
_REPLICA_WORDS = re.compile(r"read ?only (?:replica|slave)|MASTERDOWN", re.IGNORECASE)
_LOGIN_WORDS = re.compile(
    r"NOAUTH|WRONGPASS|NOPERM|authentication (?:failed|required)|access denied for user"
    r"|login failed|invalid (?:username or )?password",
    re.IGNORECASE,
)


class Dependency(Value, kw_only=True, frozen=True):
    """A service that another one uses, or that fails at the same time."""

    service: str = ""
    """Its unit or its program; empty where no process listens."""
    at: str = ""
    """Its port, or the path of its socket."""
    source: str = ""
    """How it is known: by a connection, or by what names its address."""
    down: bool = False
    pid: int = 0
    row: HostRow = HostRow(())

    @property
    def title(self) -> str:
        where = f"port {self.at}" if self.at.isdigit() else self.at
        known = "connected to it" if self.source == CONNECTED else f"named in {self.source}"
        name = ", ".join(filter(None, (self.service, where)))
        return f"{name} ({known})" if self.source else name

    def subject(self, errors: Sequence[str]) -> EscalationSubject:
        """`errors`: those of the service that uses it."""
        return EscalationSubject(
            service=self.service,
            ports=(int(self.at),) if self.at.isdigit() else (),
            pids=(self.pid,) if self.pid else (),
            replica=any(map(_REPLICA_WORDS.search, errors)),
            login_refused=any(map(_LOGIN_WORDS.search, errors)),
        )


def down_units(listing: UnitListing, service: str) -> Iterator[HostUnit]:
    """Other services that do not run."""
    for each in listing.units:
        if each.state not in ("active", "") and not same_service(each.name, service):
            yield each


def find_dependencies(
    found: HostRows, subject: EscalationSubject, failing: Mapping[str, str], errors: Sequence[str]
) -> list[Dependency]:
    """What does not run comes first, then what it uses, then what else fails. `failing`: the
    services that fail at the same time, with the port that their checks name; `errors`: its error
    lines."""
    used = [
        each
        for each in _used(found, subject, errors)
        if not each.service or not same_service(each.service, subject.service)
    ]
    known = [*{each.at: each for each in used}.values()]
    units = HostRow((), found.answered.get("units", 0))
    down = [
        Dependency(service=each.name, at=_port_of(each.name, failing), down=True, row=units)
        for each in down_units(found.listing, subject.service)
        if is_among(each.name, failing) or _names(errors, each.name)
    ]
    known = [each for each in known if not is_among(each.service, (e.service for e in down))]
    others = [
        Dependency(service=each, at=port)
        for each, port in failing.items()
        if not is_among(each, (other.service for other in (*known, *down)))
    ]
    return [*down, *sorted(known, key=lambda each: not each.down), *others]


def _used(
    found: HostRows, subject: EscalationSubject, errors: Sequence[str]
) -> Iterator[Dependency]:
    """What is known best comes last: after a name or a port in its errors files and connections."""
    named = {str(port) for port in named_ports("\n".join(errors))} - {*map(str, subject.ports)}

    def describe(row: HostRow, source: str, pid: str, program: str) -> Dependency:
        unit = next((e for e in found.listing.units if e.pid and str(e.pid) == pid), None)
        return Dependency(
            service=program if unit is None else unit.name,
            at=row[0],
            source=source,
            pid=int(pid) if pid.isdigit() else 0,
            row=row,
        )

    for row in found.of("listener"):
        if _names(errors, row[2]):
            yield describe(row, ERRORS, row[1], row[2])
    for row in found.of("holder"):
        if row[0] in named:
            yield describe(row, ERRORS, row[1], row[3])
    for row in sorted(found.of("needs"), key=lambda row: row[1] == CONNECTED):
        yield replace(describe(row, row[1], row[3], row[4]), down=not row[2])


def ports_of_services(services: Iterable[str], checks: Collection[str]) -> dict[str, str]:
    """The port of each service by the names of checks, such as redis-6379; empty where none has
    it."""
    named = [each.rpartition("-") for each in sorted(checks)]
    return {
        service: next(
            (p for name, _, p in named if p.isdigit() and same_service(name, service)), ""
        )
        for service in sorted(services)
    }


def _port_of(service: str, failing: Mapping[str, str]) -> str:
    return next((port for each, port in failing.items() if same_service(each, service)), "")


def is_among(service: str, names: Iterable[str]) -> bool:
    return any(same_service(service, each) for each in names)


def has_own_cause(found: HostRows, subject: EscalationSubject) -> bool:
    """Whether it shows itself why it fails: its processes do not run, are stopped, accept no
    connections, something keeps them from it, or it is a replica without a master."""
    gone = bool(subject.service) and not found.of("process") and "processes" in found.answered
    kept = found.of("killer") or found.of("firewall")
    return gone or accepts_nothing(found, subject) or subject.replica or bool(kept)


def points_to(each: Dependency, subject: EscalationSubject, errors: Sequence[str]) -> bool:
    """Whether what a running service shows leads to another one."""
    if is_named(each, errors):
        return True
    if not errors:
        return each.down or bool(each.source) or subject.kind in ANSWER_KINDS
    refused = any(map(_CONNECTION_WORDS.search, errors))
    return refused and (each.down or bool(each.source))


def is_named(each: Dependency, errors: Sequence[str]) -> bool:
    """Whether error lines name the service or its port."""
    named = each.at.isdigit() and int(each.at) in named_ports("\n".join(_said(errors)))
    return named or _names(errors, each.service)


def _names(errors: Sequence[str], service: str) -> bool:
    words = set(_NAME.findall("\n".join(_said(errors)).lower()))
    return any(same_service(service, word) for word in words if len(word) >= MIN_NAME_CHARS)


def _said(errors: Sequence[str]) -> list[str]:
    """What a line begins with is the name of its log."""
    return [line.partition(": ")[2] or line for line in errors]


def uses(found: HostRows, errors: Sequence[str], other: EscalationSubject) -> bool:
    """Whether a service uses another one, by what its rows and its errors name."""
    used = {row[0] for row in found.of("needs")} | {*map(str, named_ports("\n".join(errors)))}
    return bool(used & {*map(str, other.ports)}) or any(
        same_service(row[4], other.service) for row in found.of("needs")
    )
