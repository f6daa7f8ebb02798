"""The probes of an incident as checks of a drill."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from hermes.core.errors import SettingsError
from hermes.gym.incidents.recorded import RecordedIncident
from hermes.gym.scenario_spec import (
    HttpCheck,
    PortCheck,
    ScenarioCheck,
    ScriptCheck,
    TrafficSpec,
    UnitRunningCheck,
)
from hermes.sre.probes.probe import Probe, shell_command_of

SCRIPT_KINDS = ("postgres", "redis", "mysql", "sqlite", "command", "config", "tls", "certificate")
"""Kinds whose command tells by its exit code whether all is well."""
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
WITHIN_S = 3.0
_BAD_ANSWERS = re.compile(r"answers for (/\S*) were bad")
_PORT = re.compile(r":(\d{2,5})\b")


class RepeatedChecks:
    """`healthy` and `symptoms` of a drill; `left_out`: probes that a drill cannot repeat."""

    def __init__(self, recorded: RecordedIncident) -> None:
        self._recorded = recorded
        self.healthy: list[ScenarioCheck] = []
        self.symptoms: list[ScenarioCheck] = []
        self.traffic: list[TrafficSpec] = []
        self.left_out: list[str] = []
        for probe in recorded.probes:
            self._add(probe)

    def _add(self, probe: Probe) -> None:
        failing = probe.name in self._recorded.failing_checks
        if not failing and probe.name not in self._recorded.passing_checks:
            return
        checks = list(self._checks(probe))
        if not checks:
            self.left_out.append(f"check {probe.name}: a drill cannot repeat the kind {probe.kind}")
        self.healthy += checks
        if failing:
            self.symptoms += checks

    def _checks(self, probe: Probe) -> Iterator[ScenarioCheck]:
        if probe.kind == "http":
            yield from self._http(probe)
        elif probe.kind == "port" and (port := _port_of(probe.what)):
            yield PortCheck(name=probe.name, port=port)
        elif probe.kind == "unit" and not probe.status:
            unit = probe.what if "." in probe.what else f"{probe.what}.service"
            yield UnitRunningCheck(name=probe.name, unit=unit)
        elif probe.kind == "answers":
            yield from self._answers(probe)
        elif probe.kind in SCRIPT_KINDS:
            yield from self._script(probe)

    def _script(self, probe: Probe) -> Iterator[ScenarioCheck]:
        try:
            yield ScriptCheck(name=probe.name, script=shell_command_of(probe))
        except SettingsError as error:
            self.left_out.append(f"check {probe.name}: {error}")

    def _http(self, probe: Probe) -> Iterator[ScenarioCheck]:
        at = urlsplit(probe.what)
        if at.scheme != "http" or at.hostname not in LOCAL_NAMES:
            return
        if not probe.status.isdigit():  # several are right
            yield from self._script(probe)
            return
        path = at.path or "/"
        yield HttpCheck(
            name=probe.name,
            port=at.port or 80,
            path=f"{path}?{at.query}" if at.query else path,
            status=int(probe.status),
            contains=probe.contains,
            within=WITHIN_S,
        )

    def _answers(self, probe: Probe) -> Iterator[ScenarioCheck]:
        """Requests of users that were answered badly are repeated."""
        detail = self._recorded.failing_checks.get(probe.name, "")
        ports = [
            int(port)
            for each in self._recorded.probes
            if each.service == probe.service and each.kind in ("http", "port")
            for port in _PORT.findall(f":{each.what}")
        ]
        paths = tuple(dict.fromkeys(_BAD_ANSWERS.findall(detail)))
        if not paths or not ports:
            return
        self.traffic.append(TrafficSpec(port=ports[0], paths=paths))
        for path in paths:
            name = f"{probe.name} {path}"
            yield HttpCheck(name=name, port=ports[0], path=path, within=WITHIN_S)


def _port_of(what: str) -> int:
    host, _, port = what.rpartition(":")
    local = not host or host.strip("[]") in LOCAL_NAMES
    return int(port) if port.isdigit() and local else 0
