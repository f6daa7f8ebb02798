"""Which probes a host deserves, found by looking at it once."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.sre.probes.inventory import Sighting
from hermes.sre.probes.kinds.logs import JOURNAL
from hermes.sre.probes.marks import NOW, SUPPOSED, name_of, now
from hermes.sre.probes.probe import Kind, Probe
from hermes.sre.probes.sightings import process_probes, provisional_probe, sightings
from hermes.sre.probes.survey import Installed, Survey, Unit, read_survey, survey_script
from hermes.sre.probes.web import web_probes

_STORES: dict[str, Kind] = {
    "postgres": "postgres",
    "redis-server": "redis",
    "mysqld": "mysql",
    "mariadbd": "mysql",
}
_CLIENTS: dict[Kind, str] = {"postgres": "pg_isready", "redis": "redis-cli", "mysql": "mysqladmin"}
SETTLE_S = 300.0
_CONFIGURED = {
    "nginx": "-c",
    "apache2": "-f",
    "httpd": "-f",
    "haproxy": "-f",
    "named": "-c",
    "sshd": "-f",
    "postgres": "-D",
}
"""Servers whose configuration can be checked, and the option that names it."""
_LIVELY = 3600.0
"""Seconds since somebody wrote to a log that is worth reading."""


class Discovery(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    """What was seen and is not watched, and why."""
    services: tuple[Sighting, ...] = ()
    """What runs now."""
    installed: tuple[Installed, ...] = ()
    """What is installed and does not run."""
    stopped: tuple[str, ...] = ()
    """Programs of supervisord that do not run, and that it does not try to start."""


async def discover(
    environment: Environment,
    *,
    patience: float = 0.4,
    timeout: float = 15.0,
    settle: float = SETTLE_S,
    failing_too: bool = False,
) -> Discovery:
    """Looks once and changes nothing. `patience`: seconds for a web server to say something;
    `settle`: age in seconds at which an unsupervised process is meant to stay; `failing_too`: also
    pages that fail now."""
    result = await environment.run(survey_script(patience), timeout=timeout, cwd="/")
    found = proposed(read_survey(result.output), settle, failing_too=failing_too)
    if result.timed_out:
        late = f"the look was cut short after {timeout:g} s: there may be more"
        return replace(found, notes=(*found.notes, late))
    return found


def proposed(survey: Survey, settle: float = SETTLE_S, *, failing_too: bool = False) -> Discovery:
    notes = list(_notes(survey))
    services = tuple(sightings(survey, settle))
    provisional = {each.name for each in services if not each.why}
    probes = _named(
        (
            *_host(survey),
            *_units(survey),
            *_ports(survey),
            *web_probes(survey, failing_too=failing_too),
            *_stores(survey),
            *process_probes(survey),
            *_certificates(survey),
            *_configurations(survey),
            *_jobs(survey),
            *_logs(survey),
            *_journals(survey),
        )
    )
    return Discovery(
        probes=tuple(
            provisional_probe(each) if each.service in provisional else each for each in probes
        ),
        notes=tuple(notes),
        services=services,
        installed=survey.installed,
        stopped=tuple(each.name for each in survey.supervised if each.state == "STOPPED"),
    )


def _host(survey: Survey) -> Iterator[Probe]:
    yield Probe(name="cpu", kind="cpu", fails=4, severity="P3")
    yield Probe(name="load", kind="load", fails=4, severity="P3")
    yield Probe(name="memory", kind="memory", severity="P2")
    yield Probe(name="processes", kind="processes", interval=60.0, baseline=True, severity="P3")
    yield Probe(name="zombies", kind="zombies", interval=60.0, severity="P3")
    for path, (used, free) in survey.disks.items():
        limit = 60 if path == "/dev/shm" else None
        state = now(used < (limit or 90) and free >= 1024)
        if used >= 98 or free < 1024:
            state = {NOW: "full"}
        name = name_of("disk", path)
        yield Probe(name=name, kind="disk", what=path, limit=limit, labels=state)
        if not path.startswith(("/dev", "/run")):
            yield Probe(
                name=name_of("forecast", path),
                kind="forecast",
                what=path,
                interval=60.0,
                fails=3,
                severity="P3",
            )
    for path, used in survey.inodes.items():
        yield Probe(
            name=name_of("inodes", path),
            kind="inodes",
            what=path,
            interval=60.0,
            labels=now(used < 90),
        )


def _units(survey: Survey) -> Iterator[Probe]:
    for unit in survey.units:
        if not _expected(unit):
            continue
        yield Probe(
            name=name_of("unit", unit.service),
            kind="unit",
            what=unit.name,
            service=unit.service,
            status="ended-well" if unit.ends else "",
            labels=now(unit.well),
        )


def _expected(unit: Unit) -> bool:
    """Meant to run, or broken: what nobody enabled and nobody started is nobody's loss."""
    if unit.ends and unit.active == "inactive" and unit.result in ("success", ""):
        return False
    return unit.active in ("failed", "activating", "active") or unit.is_enabled


def _ports(survey: Survey) -> Iterator[Probe]:
    heard = {each.port for each in survey.listeners}
    for port in sorted(heard):
        each = next(one for one in survey.listeners if one.port == port)
        host = _ask_at(each.host)
        yield Probe(
            name=f"port-{port}",
            kind="port",
            what=f"{host}:{port}" if host else str(port),
            service=each.service,
            labels=now(True),
        )
    down = {unit.name for unit in survey.units if _expected(unit) and not unit.ends}
    for unit, port in survey.hears:
        if unit in down and port not in heard and 0 < port < 65536:
            heard.add(port)
            labels = {**now(False), SUPPOSED: "it said so when it last began"}
            service = unit.removesuffix(".service")
            yield Probe(
                name=f"port-{port}", kind="port", what=str(port), service=service, labels=labels
            )


def _ask_at(host: str) -> str:
    """Empty for loopback, which also reaches what listens everywhere."""
    plain = host.strip("[]").partition("%")[0]
    return "" if plain in ("*", "0.0.0.0", "::", "any", "127.0.0.1", "::1") else plain


def _stores(survey: Survey) -> Iterator[Probe]:
    for each in survey.listeners:
        kind = _STORES.get(each.program)
        if kind is not None and _CLIENTS[kind] in survey.programs:
            yield Probe(
                name=f"{kind}-{each.port}", kind=kind, what=str(each.port), service=each.service
            )
    if "sqlite3" in survey.programs:
        for unit, path in survey.sqlite:
            service = unit.removesuffix(".service")
            name = name_of("sqlite", path)
            yield Probe(name=name, kind="sqlite", what=path, service=service, interval=60.0)


def _certificates(survey: Survey) -> Iterator[Probe]:
    for path, days in survey.certificates:
        yield Probe(
            name=name_of("certificate", path),
            kind="certificate",
            what=path,
            interval=300.0,
            labels=now(days > 0),
        )


def _configurations(survey: Survey) -> Iterator[Probe]:
    """Of servers that run here, where their process may be seen: its arguments name the file."""
    for each in survey.listeners:
        if each.program in _CONFIGURED and each.process is not None:
            words = each.process.command.split()
            option = _CONFIGURED[each.program]
            path = next((after for word, after in pairwise(words) if word == option), "")
            if not path.startswith("/"):
                path = ""
            if each.program == "postgres" and not path:
                continue
            yield _configuration(each.program, path, each.service, words, each.process.executable)
    if "visudo" in survey.programs:
        yield _configuration("sudo", "", "", [], "")


def _configuration(
    program: str, path: str, service: str, words: Sequence[str], executable: str
) -> Probe:
    labels = {}
    if program == "postgres":
        file = next((w.partition("=")[2] for w in words if w.startswith("config_file=")), "")
        labels = {"program": executable} | ({"config_file": file} if file else {})
    return Probe(
        name=name_of("config", service or program),
        kind="config",
        what=f"{program}:{path}" if path else program,
        service=service,
        interval=60.0,
        timeout=20.0,
        fails=1,
        severity="P3",
        labels=labels,
    )


def _jobs(survey: Survey) -> Iterator[Probe]:
    for _, line in survey.cron:
        words = line.split()
        by = words[0] if re.search(r"/(python3?|bash|sh|perl|ruby|node)$", words[0]) else ""
        paths = (word for word in words[1:] if not word.startswith("-"))
        path = next(paths, "") if by else words[0]
        if not re.fullmatch(r"/(?!dev/|usr/|bin/|sbin/)[\w./@+-]+", path):
            continue
        log = re.search(r">>?\s*(/(?!dev/)[\w./-]+)", line)
        labels = {"by": by} | ({"log": log[1]} if log else {})
        service = path.rpartition("/")[2]
        yield Probe(
            name=name_of("cron", path),
            kind="cron",
            what=path,
            service=service,
            interval=60.0,
            labels=labels,
        )


def _logs(survey: Survey) -> Iterator[Probe]:
    services = sorted((unit.service for unit in survey.units), key=len, reverse=True)
    for path, _, at in survey.logs:
        if survey.at - at > _LIVELY:
            continue
        service = next((name for name in services if name in path), "")
        yield Probe(
            name=name_of("log", path.removeprefix("/var/log/")),
            kind="log",
            what=path,
            service=service,
            baseline=True,
            severity="P3",
        )


def _journals(survey: Survey) -> Iterator[Probe]:
    """Asking a journal costs more than reading the end of a file: less often, and only our own."""
    for unit in survey.units:
        if unit.own and _expected(unit) and not unit.ends:
            yield Probe(
                name=name_of("journal", unit.service),
                kind="log",
                what=f"{JOURNAL}{unit.name}",
                service=unit.service,
                interval=60.0,
                baseline=True,
                severity="P3",
            )


def _notes(survey: Survey) -> Iterator[str]:
    if "systemctl" not in survey.programs:
        yield "no systemctl there: what is supervised is not known"
    if not {"curl", "wget"} & survey.programs:
        yield "no curl and no wget there: web servers are only asked whether their port is open"
    for each in survey.listeners:
        kind = _STORES.get(each.program)
        if kind is not None and _CLIENTS[kind] not in survey.programs:
            yield f"{_CLIENTS[kind]} is not there: of {kind} only port {each.port} is watched"
    for path in survey.hidden:
        yield f"{path} may not be read: its end is not watched"


def _named(probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
    """Each name once: the first find stays, the same thing is not watched twice."""
    found: dict[str, Probe] = {}
    for probe in probes:
        found.setdefault(probe.name, probe)
    return tuple(found.values())
