"""What runs on a host by one survey, why it is meant to stay, and probes of what has no port."""

import re
from collections.abc import Iterator
from shlex import quote

from msgspec.structs import replace

from hermes.sre.probes.inventory import Sighting
from hermes.sre.probes.marks import PROVISIONAL, name_of, now
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.processes import EPHEMERAL_PORTS, reason_to_stay
from hermes.sre.probes.survey import Listener, Supervised, Survey


def provisional_probe(probe: Probe) -> Probe:
    return replace(probe, labels={**probe.labels, PROVISIONAL: "yes"})


def sightings(survey: Survey, settle: float) -> Iterator[Sighting]:
    """Everything that listens, and every unit that is enabled and well."""
    found: dict[str, list[Listener]] = {}
    for each in survey.listeners:
        if each.service:
            found.setdefault(each.service, []).append(each)
    units = {unit.service: unit for unit in survey.units if unit.is_enabled and unit.well}
    for name, listeners in found.items():
        reasons = (_reason(listener, survey, settle) for listener in listeners)
        main = next((each.process for each in listeners if each.process is not None), None)
        yield Sighting(
            name=name,
            why=next(filter(None, reasons), ""),
            program=next((each.program for each in listeners if each.program), ""),
            executable=main.executable if main is not None else "",
            unit=f"{name}.service" if any(each.unit for each in listeners) else "",
            ports=tuple(sorted({each.port for each in listeners})),
        )
    for name, program in _without_port(survey).items():
        executable = program.process.executable if program.process is not None else ""
        yield Sighting(name=name, why="supervised by supervisord", executable=executable)
    for name, unit in units.items():
        if name not in found and not unit.ends:
            yield Sighting(name=name, why="enabled in the service manager", unit=unit.name)


def _without_port(survey: Survey) -> dict[str, Supervised]:
    """Programs of supervisord that run and do not listen, by name."""
    listening = {each.service for each in survey.listeners}
    return {
        each.name: each
        for each in survey.supervised
        if each.state == "RUNNING" and each.name not in listening
    }


def process_probes(survey: Survey) -> Iterator[Probe]:
    """What has no port: workers by their command line, what its supervisor cannot start, and what
    the init system starts at boot and does not run."""
    for name, each in _without_port(survey).items():
        if each.process is not None and each.process.command:
            pattern = quote(re.escape(each.process.command[:250]).replace("\\ ", " "))
            yield _process(
                name, f"pgrep -f -- ^{pattern} >/dev/null", f"{name} is not running", True
            )
    for each in survey.supervised:
        if each.state in ("FATAL", "BACKOFF"):
            test = f"supervisorctl status {quote(each.name)} | grep -qw RUNNING"
            words = f"{each.name} is not running: supervisord cannot start it"
            yield replace(_process(each.name, test, words, False), interval=60.0, timeout=10.0)
    for server in survey.installed:
        if server.enabled:
            test = f"pgrep -x {quote(server.program)} >/dev/null"
            words = f"{server.name} is enabled at boot and is not running"
            yield _process(server.name, test, words, False)


def _process(name: str, test: str, words: str, runs: bool) -> Probe:
    return Probe(
        name=name_of("process", name),
        kind="command",
        what=f"{test} || {{ echo {quote(words)}; exit 1; }}",
        service=name,
        severity="P1",
        labels=now(runs),
    )


def _reason(listener: Listener, survey: Survey, settle: float) -> str:
    """What may not be seen belongs to another user, and is meant to stay where its port is."""
    if listener.unit:
        return "a unit of the service manager"
    if listener.process is None:
        return "" if listener.port in EPHEMERAL_PORTS else "a process of another user"
    return reason_to_stay(listener.process, listener.port, survey.pid_files, settle)
