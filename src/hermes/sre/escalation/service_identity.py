"""Tells the units, processes and logs of a service from those of others, whatever their names.

An alert may say `mysql` where the program is mariadbd and its unit mariadb. What is observed ties
them together: a process of the unit, a program that is a link to another one, a process that has
listened at the port of the alert since long before the outage. No name is guessed.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.skills.supervisors.units import UnitListing, same_service
from hermes.sre.escalation.host_scripts import EscalationSubject, HostRow, HostRows, named_ports

LISTENS_BEFORE = timedelta(minutes=10)
"""A process that took the port later may be another program that took it from the service."""

MIN_WAITING = 5
"""Connections that wait to be accepted; a busy service has a few at any moment."""
_IN_USE_WORDS = re.compile(r"already in use|could not bind", re.IGNORECASE)


def with_units(
    subject: EscalationSubject, listing: UnitListing, parts: Sequence[str], began_at: datetime
) -> EscalationSubject:
    """With the processes and the logs of its unit. An alert about a log is about the service that
    writes it, unless another one that joined the incident (`parts`) does not run."""
    down = [part for part in parts if any(each.state != "active" for each in listing.find(part))]
    if not subject.service and down:
        subject = replace(subject, service=down[0], log="")
    writers = [each.name for each in listing.units if subject.log and subject.log in each.logs]
    service = subject.service or next(iter(writers), "")
    units = listing.find(service)
    return replace(
        subject,
        service=service,
        unit=next((each.name for each in units if each.kind.startswith("systemd")), ""),
        logs=tuple(path for unit in units for path in unit.logs),
        pids=tuple(each.pid for each in units if each.pid),
        listened_before=0 if units else int((began_at - LISTENS_BEFORE).timestamp()),
    )


def other_programs(found: HostRows, service: str) -> tuple[str, ...]:
    """The names of its processes that are no forms of the name of the service."""
    names = dict.fromkeys(row[5] for row in found.of("process"))
    return tuple(each for each in names if not same_service(each, service))


def with_processes(listing: UnitListing, found: HostRows, service: str) -> UnitListing:
    """The units whose processes are those of the service are its units."""
    pids = {int(row[0]) for row in found.of("process") if row[0].isdigit()}
    units = (
        replace(each, aliases=(*each.aliases, service)) if each.pid in pids else each
        for each in listing.units
    )
    return replace(listing, units=tuple(units))


def with_open_logs(subject: EscalationSubject, found: HostRows) -> EscalationSubject:
    """With the logs that its processes have open."""
    opened = (row[0] for row in found.of("writes"))
    return replace(subject, logs=tuple(dict.fromkeys((*subject.logs, *opened))))


def foreign_holders(found: HostRows, subject: EscalationSubject) -> list[HostRow]:
    """Processes of others that hold a port of the alert, or one that its errors say is in use."""
    own = {row[0] for row in found.of("process")}
    said = (row[2] for row in found.of("said") if _IN_USE_WORDS.search(row[2]))
    ports = {str(port) for port in (*subject.ports, *named_ports("\n".join(said)))}
    return [
        row
        for row in found.of("holder")
        if subject.service
        and row[0] in ports
        and row[1] not in own
        and not same_service(row[3], subject.service)
    ]


def hidden_holders(found: HostRows, subject: EscalationSubject, errors: str) -> list[HostRow]:
    """Ports that an unknown process holds while the service does not run or cannot bind them."""
    if _IN_USE_WORDS.search(errors):
        return list(found.of("hidden"))
    ports = {str(port) for port in subject.ports}
    runs = bool(found.of("process")) or "processes" not in found.answered
    return [row for row in found.of("hidden") if row[0] in ports and not runs]


def missing_listeners(found: HostRows, subject: EscalationSubject) -> list[HostRow]:
    """Ports that error lines name and at which nothing listens."""
    own = {str(port) for port in subject.ports}
    return [row for row in found.of("free") if row[0] not in own]


def accepts_nothing(found: HostRows, subject: EscalationSubject) -> bool:
    """Whether its processes are stopped, or connections to its ports wait."""
    own = {str(port) for port in subject.ports}
    waiting = (int(row[1], 16) for row in found.of("queue") if row[0] in own)
    stopped = any(row[2] in ("T", "t") for row in found.of("process"))
    return stopped or any(length >= MIN_WAITING for length in waiting)
