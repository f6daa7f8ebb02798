"""Web pages worth asking for: those that answer, and those that users ask for and only read."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from hermes.sre.probes.kinds.logs import JOURNAL
from hermes.sre.probes.marks import name_of, now
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.survey import Asked, Survey

_CHANGES = re.compile(
    r"put|post|add|new|order|book|buy|pay|del|remove|publish|send|note|store|upload|write|create"
    r"|update|reset|logout|login|sign|token|settle|transfer|accept|submit|queue|push|issue|leak"
    r"|admin|run|exec|start|stop|kill|trigger|[?;&%]",
    re.IGNORECASE,
)
"""Paths that may do more than read, by their names: nobody but users asks for them."""
_PATHS = 3


def web_probes(survey: Survey, *, failing_too: bool = False) -> Iterator[Probe]:
    """`failing_too`: also a page that fails when it is first seen, which may be an outage. While
    an incident is worked on it may as well have failed always."""
    owner = {each.port: each.service for each in survey.listeners}
    for port, statuses in sorted(survey.http.items()):
        noted = [each for each in survey.asked if each.unit == f"{owner.get(port, '')}.service"]
        if not any(statuses.values()) and not noted:
            continue
        for path, status in statuses.items():
            if _worth_asking(path, status, noted, failing_too):
                yield _get(port, path, status, owner.get(port, ""))
    for port, (status, name) in sorted(survey.https.items()):
        service = owner.get(port, "")
        yield replace(_get(port, "/", status, service), what=f"https://127.0.0.1:{port}/")
        yield _tls(port, name, service)
    yield from _noted(survey)


def _tls(port: int, name: str, service: str) -> Probe:
    return Probe(
        name=f"tls-{port}",
        kind="tls",
        what=f"127.0.0.1:{port}/{name}" if name else f"127.0.0.1:{port}",
        service=service,
        interval=60.0,
    )


def _worth_asking(path: str, status: int, noted: list[Asked], failing_too: bool) -> bool:
    if path != "/":
        return status not in (0, 400, 401, 403, 404, 405)
    users = any(each.path == "/" and each.times > 2 for each in noted)
    fine = 0 < status < 500
    return fine or users or (status == 0 and bool(noted)) or (status >= 500 and failing_too)


def _get(port: int, path: str, status: int, service: str) -> Probe:
    fine = 0 < status < 500
    return Probe(
        name=name_of(f"http-{port}", path if path != "/" else ""),
        kind="http",
        what=f"http://127.0.0.1:{port}{path}",
        service=service,
        status="<400" if 0 < status < 400 or path != "/" else "<500",
        labels=now(fine),
    )


def _noted(survey: Survey) -> Iterator[Probe]:
    """What users ask for, by the service's own log: the pages that only read are asked for too."""
    ports = {each.service: each.port for each in survey.listeners if each.port not in survey.https}
    ports |= {unit.removesuffix(".service"): port for unit, port in survey.hears if port} | ports
    for name in sorted({each.unit for each in survey.asked}):
        service = name.removesuffix(".service")
        noted = sorted(
            (each for each in survey.asked if each.unit == name and each.times > 1),
            key=lambda each: (each.last < 400, -each.times, each.path),
        )
        yield Probe(
            name=name_of("answers", service),
            kind="answers",
            what=f"{JOURNAL}{name}",
            service=service,
            labels=now(not any(each.last >= 500 or each.last == 429 for each in noted)),
        )
        reads = [each for each in noted if each.method == "GET" and _only_reads(each.path)]
        for each in reads[:_PATHS] if service in ports else ():
            probe = _get(ports[service], each.path, each.last, service)
            seen = "<400" if each.good else "<400,401,403,404,405"
            yield replace(probe, status=seen, labels=now(each.last < 400))


def _only_reads(path: str) -> bool:
    plain = re.fullmatch(r"/[\w./~-]{0,80}", path) is not None
    return plain and path not in ("/", "/health") and not _CHANGES.search(path)
