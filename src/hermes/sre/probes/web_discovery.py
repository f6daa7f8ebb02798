"""Proposes probes for what a host serves over HTTP: the pages that users request, by its logs."""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from hermes.sre.probes.host_scan import HostScan, LoggedRequests
from hermes.sre.probes.kinds.logs import JOURNAL_PREFIX
from hermes.sre.probes.probe import Probe, probe_name, state_label

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
