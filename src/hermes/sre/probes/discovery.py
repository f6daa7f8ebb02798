"""Discovers the services of a host and proposes probes for them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.sre.probes.host_scan import (
    DEFAULT_CRITERIA,
    HostScan,
    InstalledServer,
    LoggedRequests,
    ServiceCriteria,
    ServiceUnit,
    is_below,
    parse_scan,
    scan_script,
)
from hermes.sre.probes.inventory import (
    RunningService,
    find_running_services,
    mark_provisional,
    names_of_services,
    process_probes,
    service_of_log,
)
from hermes.sre.probes.kinds.locks import lock_probes
from hermes.sre.probes.kinds.logs import JOURNAL_PREFIX
from hermes.sre.probes.probe import (
    STATE_LABEL,
    SUPPOSED_LABEL,
    Probe,
    ProbeKind,
    probe_name,
    state_label,
)

_CHANGING_PATHS = re.compile(
    r"put|post|add|new|order|book|buy|pay|del|remove|publish|send|note|store|upload|write|create"
    r"|update|reset|logout|login|sign|token|settle|transfer|accept|submit|queue|push|issue|leak"
    r"|admin|run|exec|start|stop|kill|trigger|[?;&%]",
    re.IGNORECASE,
)
"""Paths that may do more than read, by their names: never probed."""
_MAX_PATHS = 3
CERTIFICATE_INTERVAL_S = 20.0
"""Seconds between two runs of a `tls` probe: an expired certificate is an outage."""


def web_probes(scan: HostScan, *, failing_too: bool = False) -> Iterator[Probe]:
    """`failing_too`: also pages that fail at discovery, which may be an outage. During the work on
    an incident they are left out: they may always have failed."""
    owner = {each.port: each.service for each in scan.listeners}
    for port, statuses in sorted(scan.http.items()):
        requests = [
            each for each in scan.logged_requests if each.unit == f"{owner.get(port, '')}.service"
        ]
        if not any(statuses.values()) and not requests:
            continue
        for path, status in statuses.items():
            if _is_worth_probing(path, status, requests, failing_too):
                yield _http_probe(port, path, status, owner.get(port, ""))
    for port, (status, name) in sorted(scan.https.items()):
        service = owner.get(port, "")
        yield replace(_http_probe(port, "/", status, service), what=f"https://127.0.0.1:{port}/")
        yield _tls_probe(port, name, service)
    yield from _logged_page_probes(scan)


def _tls_probe(port: int, name: str, service: str) -> Probe:
    return Probe(
        name=f"tls-{port}",
        kind="tls",
        what=f"127.0.0.1:{port}/{name}" if name else f"127.0.0.1:{port}",
        service=service,
        interval=CERTIFICATE_INTERVAL_S,
    )


def _is_worth_probing(
    path: str, status: int, requests: list[LoggedRequests], failing_too: bool
) -> bool:
    if status == 501:  # it answers, and does not know GET
        return False
    if path != "/":
        return status not in (0, 400, 401, 403, 404, 405)
    users = any(each.path == "/" and each.times > 2 for each in requests)
    fine = 0 < status < 500
    return fine or users or (status == 0 and bool(requests)) or (status >= 500 and failing_too)


def _http_probe(port: int, path: str, status: int, service: str) -> Probe:
    fine = 0 < status < 500
    return Probe(
        name=probe_name(f"http-{port}", path if path != "/" else ""),
        kind="http",
        what=f"http://127.0.0.1:{port}{path}",
        service=service,
        status="<400" if 0 < status < 400 or path != "/" else "<500",
        baseline=True,
        labels=state_label(fine),
    )


def _logged_page_probes(scan: HostScan) -> Iterator[Probe]:
    """Probes of the pages that users request by the log of a service, if they only read."""
    ports = {each.service: each.port for each in scan.listeners if each.port not in scan.https}
    ports |= {
        unit.removesuffix(".service"): port for unit, port in scan.announced_ports if port
    } | ports
    services = names_of_services(scan)
    for name in sorted({each.unit for each in scan.logged_requests}):
        # The path of a log, or the unit whose journal it is.
        service = service_of_log(name, services) if "/" in name else name.removesuffix(".service")
        requests = sorted(
            (each for each in scan.logged_requests if each.unit == name and each.times > 1),
            key=lambda each: (each.last < 400, -each.times, each.path),
        )
        if "/" not in name:
            yield _journal_answers_probe(name, service, requests)
        reads = [each for each in requests if each.method == "GET" and _only_reads(each.path)]
        for each in reads[:_MAX_PATHS] if service in ports else ():
            probe = _http_probe(ports[service], each.path, each.last, service)
            expected = "<400" if each.good else "<400,401,403,404,405"
            yield replace(probe, status=expected, labels=state_label(each.last < 400))


def _journal_answers_probe(unit: str, service: str, requests: Sequence[LoggedRequests]) -> Probe:
    return Probe(
        name=probe_name("answers", service),
        kind="answers",
        what=f"{JOURNAL_PREFIX}{unit}",
        service=service,
        labels=state_label(not any(each.last >= 500 or each.last == 429 for each in requests)),
    )


def _only_reads(path: str) -> bool:
    plain = re.fullmatch(r"/[\w./~-]{0,80}", path) is not None
    return plain and path not in ("/", "/health") and not _CHANGING_PATHS.search(path)


_DATABASE_KINDS: dict[str, ProbeKind] = {
    "postgres": "postgres",
    "redis-server": "redis",
    "mysqld": "mysql",
    "mariadbd": "mysql",
}
_DATABASE_CLIENTS: dict[ProbeKind, str] = {
    "postgres": "pg_isready",
    "redis": "redis-cli",
    "mysql": "mysqladmin",
}
_CONFIG_OPTIONS = {
    "nginx": "-c",
    "apache2": "-f",
    "httpd": "-f",
    "haproxy": "-f",
    "named": "-c",
    "sshd": "-f",
    "postgres": "-D",
}
"""Servers whose configuration can be checked, and the option that names it."""
LOG_INTERVAL_S, LOG_LINES_A_MINUTE = 12.0, 12.5
"""Two runs fit into 30 s, the second confirms the first. Two new lines are within the limit."""
_MAX_LOG_AGE_S = 3600.0
"""Seconds since the last write to a log that is probed."""


class DiscoveryResult(Value, kw_only=True, frozen=True):
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    """What was found and is not probed, and why."""
    lacks: str = ""
    """What the host lacks, and what is used instead, in one line."""
    services: tuple[RunningService, ...] = ()
    """Services that run."""
    installed: tuple[InstalledServer, ...] = ()
    """Servers that are installed and do not run."""
    stopped: tuple[str, ...] = ()
    """Programs that are stopped in supervisord."""


async def discover_probes(
    environment: Environment,
    *,
    http_timeout_s: float = 0.4,
    timeout: float = 15.0,
    criteria: ServiceCriteria = DEFAULT_CRITERIA,
    failing_too: bool = False,
) -> DiscoveryResult:
    """Scan the host once; changes nothing. `http_timeout_s`: seconds for a web server to answer;
    `failing_too`: also pages that fail now."""
    script = scan_script(http_timeout_s, criteria.own_ports)
    result = await environment.run(script, timeout=timeout, cwd="/")
    found = propose_probes(parse_scan(result.output), criteria, failing_too=failing_too)
    if result.timed_out:
        note = f"the scan was stopped after {timeout:g} s: there may be more"
        return replace(found, notes=(*found.notes, note))
    return found


def propose_probes(
    scan: HostScan, criteria: ServiceCriteria = DEFAULT_CRITERIA, *, failing_too: bool = False
) -> DiscoveryResult:
    notes = list(_notes(scan))
    services = tuple(find_running_services(scan, criteria))
    provisional = {each.name for each in services if not each.why}
    ports = {port for each in services for port in each.provisional_ports}
    probes = _unique_by_name(
        (
            *_host_probes(scan, criteria),
            *_unit_probes(scan),
            *_port_probes(scan),
            *web_probes(scan, failing_too=failing_too),
            *_database_probes(scan),
            *lock_probes(scan),
            *process_probes(scan),
            *_certificate_probes(scan),
            *_config_probes(scan),
            *_cron_probes(scan),
            *_log_probes(scan, criteria),
            *_journal_probes(scan),
        )
    )
    return DiscoveryResult(
        probes=tuple(
            mark_provisional(each)
            if each.service in provisional or _probed_port(each) in ports
            else each
            for each in probes
        ),
        notes=tuple(notes),
        lacks=_lacking_parts(scan),
        services=services,
        installed=scan.installed,
        stopped=tuple(each.name for each in scan.supervised if each.state == "STOPPED"),
    )


def _probed_port(probe: Probe) -> int:
    """0 where the probe is not about one port of this host."""
    found = re.fullmatch(r"(?:https?://)?(?:127\.0\.0\.1:)?(\d+)(?:/.*)?", probe.what)
    return int(found[1]) if found else 0


def _host_probes(scan: HostScan, criteria: ServiceCriteria) -> Iterator[Probe]:
    yield Probe(name="cpu", kind="cpu", fails=4, severity="P3")
    yield Probe(name="load", kind="load", fails=4, severity="P3")
    yield Probe(name="memory", kind="memory", severity="P2")
    yield Probe(name="processes", kind="processes", interval=60.0, baseline=True, severity="P3")
    yield Probe(name="zombies", kind="zombies", interval=60.0, severity="P3")
    for path, (used, free) in scan.disks.items():
        if is_below(path, criteria.temporary_folders):
            continue
        limit = 60 if path == "/dev/shm" else None
        state = state_label(used < (limit or 90) and free >= 1024)
        if used >= 98 or free < 1024:
            state = {STATE_LABEL: "full"}
        name = probe_name("disk", path)
        yield Probe(name=name, kind="disk", what=path, limit=limit, labels=state)
        if not path.startswith(("/dev", "/run")):
            yield Probe(
                name=probe_name("forecast", path),
                kind="forecast",
                what=path,
                interval=60.0,
                fails=3,
                severity="P3",
            )
    for path, used in scan.inodes.items():
        if is_below(path, criteria.temporary_folders):
            continue
        yield Probe(
            name=probe_name("inodes", path),
            kind="inodes",
            what=path,
            interval=60.0,
            labels=state_label(used < 90),
        )


def _unit_probes(scan: HostScan) -> Iterator[Probe]:
    for unit in scan.units:
        if not _is_expected(unit):
            continue
        yield Probe(
            name=probe_name("unit", unit.service),
            kind="unit",
            what=unit.name,
            service=unit.service,
            status="ended-well" if unit.is_oneshot else "",
            labels=state_label(unit.is_healthy),
        )


def _is_expected(unit: ServiceUnit) -> bool:
    """Return whether a unit is enabled, runs, or has failed."""
    if unit.is_oneshot and unit.active == "inactive" and unit.result in ("success", ""):
        return False
    return unit.active in ("failed", "activating", "active") or unit.is_enabled


def _port_probes(scan: HostScan) -> Iterator[Probe]:
    known_ports = {each.port for each in scan.listeners}
    for port in sorted(known_ports):
        each = next(one for one in scan.listeners if one.port == port)
        host = _probe_host(each.host)
        yield Probe(
            name=f"port-{port}",
            kind="port",
            what=f"{host}:{port}" if host else str(port),
            service=each.service,
            labels=state_label(True),
        )
    down = {unit.name for unit in scan.units if _is_expected(unit) and not unit.is_oneshot}
    for unit, port in scan.announced_ports:
        if unit in down and port not in known_ports and 0 < port < 65536:
            known_ports.add(port)
            labels = {**state_label(False), SUPPOSED_LABEL: "named in the log of its last start"}
            service = unit.removesuffix(".service")
            yield Probe(
                name=f"port-{port}", kind="port", what=str(port), service=service, labels=labels
            )


def _probe_host(host: str) -> str:
    """Empty for loopback and for all addresses, which loopback reaches."""
    plain = host.strip("[]").partition("%")[0]
    return "" if plain in ("*", "0.0.0.0", "::", "any", "127.0.0.1", "::1") else plain


def _database_probes(scan: HostScan) -> Iterator[Probe]:
    for each in scan.listeners:
        kind = _DATABASE_KINDS.get(each.program)
        if kind is not None and _DATABASE_CLIENTS[kind] in scan.programs:
            yield Probe(
                name=f"{kind}-{each.port}", kind=kind, what=str(each.port), service=each.service
            )
    if "sqlite3" in scan.programs:
        for unit, path in scan.sqlite:
            service = unit.removesuffix(".service")
            name = probe_name("sqlite", path)
            yield Probe(name=name, kind="sqlite", what=path, service=service, interval=60.0)


def _certificate_probes(scan: HostScan) -> Iterator[Probe]:
    services = names_of_services(scan)
    for path, days, owner in scan.certificates:
        yield Probe(
            name=probe_name("certificate", path),
            kind="certificate",
            what=path,
            service=owner if owner in services else "",
            interval=300.0,
            labels=state_label(days > 0),
        )


def _config_probes(scan: HostScan) -> Iterator[Probe]:
    """For servers whose process is visible: its arguments name the configuration."""
    for each in scan.listeners:
        if each.program in _CONFIG_OPTIONS and each.process is not None:
            words = each.process.command.split()
            option = _CONFIG_OPTIONS[each.program]
            path = next((after for word, after in pairwise(words) if word == option), "")
            if not path.startswith("/"):
                path = ""
            if each.program == "postgres" and not path:
                continue
            yield _config_probe(each.program, path, each.service, words, each.process.executable)
    if "visudo" in scan.programs:
        yield _config_probe("sudo", "", "", [], "")


def _config_probe(
    program: str, path: str, service: str, words: Sequence[str], executable: str
) -> Probe:
    labels = {}
    if program == "postgres":
        file = next((w.partition("=")[2] for w in words if w.startswith("config_file=")), "")
        labels = {"program": executable} | ({"config_file": file} if file else {})
    return Probe(
        name=probe_name("config", service or program),
        kind="config",
        what=f"{program}:{path}" if path else program,
        service=service,
        interval=60.0,
        timeout=20.0,
        fails=1,
        severity="P3",
        labels=labels,
    )


def _cron_probes(scan: HostScan) -> Iterator[Probe]:
    for _, line in scan.cron:
        words = line.split()
        by = words[0] if re.search(r"/(python3?|bash|sh|perl|ruby|node)$", words[0]) else ""
        paths = (word for word in words[1:] if not word.startswith("-"))
        path = next(paths, "") if by else words[0]
        if not re.fullmatch(r"/(?!dev/|usr/(?!local/)|bin/|sbin/)[\w./@+-]+", path):
            continue
        log = re.search(r">>?\s*(/(?!dev/)[\w./-]+)", line)
        labels = {"by": by} | ({"log": log[1]} if log else {})
        service = path.rpartition("/")[2]
        yield Probe(
            name=probe_name("cron", path),
            kind="cron",
            what=path,
            service=service,
            interval=60.0,
            labels=labels,
        )


def _log_probes(scan: HostScan, criteria: ServiceCriteria) -> Iterator[Probe]:
    services = names_of_services(scan, criteria.known_names)
    for path, _, at in scan.logs:
        name, service = path.removeprefix("/var/log/"), service_of_log(path, services)
        service = service or scan.log_writers.get(path, "")
        has_requests = "access" in path.rpartition("/")[2] or path in scan.request_logs
        if has_requests and (service or scan.at - at <= _MAX_LOG_AGE_S):
            # A page may fail its users while all requests of probes are answered well.
            yield Probe(
                name=probe_name("answers", name), kind="answers", what=path, service=service
            )
        if scan.at - at > _MAX_LOG_AGE_S:
            continue
        yield Probe(
            name=probe_name("log", name),
            kind="log",
            what=path,
            service=service,
            interval=LOG_INTERVAL_S,
            limit=LOG_LINES_A_MINUTE,
            baseline=True,
            severity="P3",
        )


def _journal_probes(scan: HostScan) -> Iterator[Probe]:
    """Only for local units, and less often: journalctl costs more than reading a file."""
    for unit in scan.units:
        if unit.is_local and _is_expected(unit) and not unit.is_oneshot:
            yield Probe(
                name=probe_name("journal", unit.service),
                kind="log",
                what=f"{JOURNAL_PREFIX}{unit.name}",
                service=unit.service,
                interval=60.0,
                baseline=True,
                severity="P3",
            )


def _lacking_parts(scan: HostScan) -> str:
    """Return what the host lacks, and what is used instead, in one line."""
    parts = []
    if "systemctl" not in scan.programs:
        managers = Counter(
            each.process.supervisor or "daemon"
            for each in {one.service: one for one in scan.listeners}.values()
            if each.process is not None
        )
        managers["supervisord"] = max(managers["supervisord"], len(scan.supervised))
        daemons = managers.pop("daemon", 0)
        ways = [f"by {name} ({number})" for name, number in sorted(managers.items()) if number]
        ways += [f"as plain daemons ({daemons})"] if daemons else []
        known = f"services are managed {' and '.join(ways)}" if ways else "no service is known"
        parts.append(f"no systemctl; {known}")
    if "ss" not in scan.programs:
        parts.append("no ss: ports are read from /proc")
    return "; ".join(parts)


def _notes(scan: HostScan) -> Iterator[str]:
    if lacks := _lacking_parts(scan):
        yield lacks
    if not {"curl", "wget"} & scan.programs:
        yield "neither curl nor wget is installed: only the ports of web servers are probed"
    for each in scan.listeners:
        kind = _DATABASE_KINDS.get(each.program)
        if kind is not None and _DATABASE_CLIENTS[kind] not in scan.programs:
            client = _DATABASE_CLIENTS[kind]
            yield f"{client} is not installed: of {kind} only port {each.port} is probed"
    for path in scan.unreadable:
        yield f"{path} cannot be read: its expiry is not watched"


def _unique_by_name(probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
    """The first probe of each name."""
    found: dict[str, Probe] = {}
    for probe in probes:
        found.setdefault(probe.name, probe)
    return tuple(found.values())
