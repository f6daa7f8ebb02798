"""Probes as checks of an incident: looks that whoever mends it has no hand in."""

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hermes.skills.playbook.schema import Check
from hermes.sre.case import Case
from hermes.sre.probes.command import command_of
from hermes.sre.probes.marks import NOW
from hermes.sre.probes.probe import Probe

MOST = 16
_GUARDS = 6
"""Units that others live on: seen to be undisturbed."""
_NAMED = ("service", "job", "unit", "name", "app", "container", "check")
_SPACE = re.compile(r"disk|space|full|inode|file ?system|volume|upload|stor(e|ing)|write", re.I)
_TLS = re.compile(r"tls|ssl|cert|https|handshake|expir", re.I)
_SLOW = re.compile(r"slow|latency|p9\d|response time|takes too long", re.I)
_BUSY = re.compile(r"\bcpu\b|saturat|busy|burn(s|ing)? a core|load average", re.I)
_JOB = re.compile(r"cron|job|backup|nightly|schedul|stale|fresh|report|renew", re.I)


def as_check(probe: Probe) -> Check:
    """The same command, in a shell of its own; fine is exit code 0."""
    command = f"(\n{command_of(probe).strip()}\n)"
    return Check(name=probe.name, command=command, timeout=max(probe.timeout, 5.0))


def checks_for(case: Case, probes: Sequence[Probe]) -> tuple[Check, ...]:
    """Those that concern the case: its service, its ports, and what everything stands on."""
    return tuple(as_check(probe) for probe in concerned(case, probes)[:MOST])


def triggers_for(case: Case, probes: Sequence[Probe]) -> tuple[str, ...]:
    """Commands that may be set off again to tell a cure from relief; they take the common road."""
    own = _services(case, probes, _named_ports(case))
    found = (each.trigger for each in probes if each.trigger and each.service in own)
    return tuple(dict.fromkeys(found))


def concerned(case: Case, probes: Sequence[Probe]) -> tuple[Probe, ...]:
    words = case.facts.words
    ports = _named_ports(case)
    services = _services(case, probes, ports)
    near = {each.service for each in probes if ports & set(_ports_of(each))}
    own = [
        _sharpened(each, words)
        for each in probes
        if _own(each, services, words) or ports & set(_ports_of(each))
    ]
    if _BUSY.search(words):
        own += [_busy(each) for each in own if each.kind == "unit" and not each.status]
    others = [
        each
        for each in probes
        if each.kind == "unit" and each.service and each.service not in services | near
    ]
    broken = [each for each in others if each.labels.get(NOW) == "failing"]
    if not any(each.service in services for each in own):
        own += broken  # it names nobody we know; else what failed elsewhere may have for ages
    guards = [each for each in others if each.labels.get(NOW) != "failing"]
    whole = [each for each in probes if _host_wide(each, words)]
    return tuple({each.name: each for each in (*own, *whole, *guards[:_GUARDS])}.values())


def _named_ports(case: Case) -> frozenset[str]:
    return frozenset(re.findall(r":(\d{2,5})\b", case.facts.words))


def _services(case: Case, probes: Sequence[Probe], ports: frozenset[str]) -> frozenset[str]:
    """Whom the alert is about: by name or label; else by a port; else by its words.

    A name goes before a port: somebody else may have taken it.
    """
    words = case.facts.words
    said = {case.service, *(case.labels.get(key, "") for key in _NAMED)} - {""}
    said |= {each.removesuffix(".service") for each in said}
    known = {each.service for each in probes if each.service}
    if known & said:
        return frozenset(said)
    if at := {each.service for each in probes if each.service and ports & set(_ports_of(each))}:
        return frozenset(at | said)
    return frozenset(
        each for each in known if re.search(rf"(?<![\w-]){re.escape(each)}(?![\w-])", words)
    )


def _ports_of(probe: Probe) -> Iterator[str]:
    if probe.kind in ("port", "http", "tls", "postgres", "redis", "mysql"):
        yield from re.findall(
            r"(?:^|:)(\d{2,5})(?:/|$)", probe.what.partition("//")[2] or probe.what
        )


def _own(probe: Probe, services: frozenset[str], words: str) -> bool:
    if probe.kind in ("log", "certificate"):
        return probe.kind == "certificate" and bool(_TLS.search(words))
    if probe.kind == "cron":
        named = any(name in probe.what for name in services)
        return named or bool(_JOB.search(words))
    if probe.kind in ("postgres", "redis", "mysql"):
        return True
    return bool(probe.service) and probe.service in services


def _sharpened(probe: Probe, words: str) -> Probe:
    if probe.kind == "http" and probe.limit is None and _SLOW.search(words):
        return replace(probe, limit=1.0)
    return probe


def _busy(unit: Probe) -> Probe:
    name = f"cpu-{unit.name}"[:48]
    return Probe(name=name, kind="cpu", what=unit.what, service=unit.service, limit=50.0)


def _host_wide(probe: Probe, words: str) -> bool:
    """A disk that was nearly full for weeks is not what this case is about, unless it says so."""
    if probe.kind not in ("disk", "inodes"):
        return False
    return probe.labels.get(NOW) != "failing" or bool(_SPACE.search(words))
