"""Where an alert comes from, and whether two locations are related.

Two services of one host are not related by default; the host is related to all its services.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property

from hermes.core.messages import Value
from hermes.sre.settings import GroupSettings

SERVICE_LABELS = ("service", "app", "app_kubernetes_io_name", "deployment", "unit", "job")
HOST_LABELS = ("host", "hostname", "node", "instance")
EXPORTER_JOBS = frozenset({"node", "node-exporter", "node_exporter", "kubelet", "probe"})
"""Jobs whose alerts are about a host, not about the job."""
DEPENDS_ON_LABEL = "depends_on"
MAX_DEPENDENCY_DEPTH = 3
"""How many steps dependencies are followed."""


class AlertLocation(Value, frozen=True):
    service: str = ""
    host: str = ""
    namespace: str = ""

    @property
    def name(self) -> str:
        return self.service or self.host or self.namespace or "an unnamed place"


def alert_location(labels: Mapping[str, str]) -> AlertLocation:
    service = next((labels[name] for name in SERVICE_LABELS if labels.get(name)), "")
    if service.lower() in EXPORTER_JOBS:
        service = ""
    host = next((labels[name] for name in HOST_LABELS if labels.get(name)), "")
    return AlertLocation(service, _without_port(host), labels.get("namespace", ""))


def alert_dependencies(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The dependencies that an alert names in its label."""
    return tuple(
        name.strip() for name in labels.get(DEPENDS_ON_LABEL, "").split(",") if name.strip()
    )[:20]


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and name else host


class ServiceTopology:
    """Service dependencies: configured, named by labels, or learned from proved causes."""

    def __init__(self, settings: GroupSettings, known: Mapping[str, Iterable[str]]) -> None:
        self._settings = settings
        self._needs: dict[str, set[str]] = {}
        for service, needed in (*settings.depends_on.items(), *known.items()):
            self.learn(service, needed)

    def learn(self, service: str, needed: Iterable[str]) -> None:
        if fresh := {name for name in needed if name and name != service}:
            self._needs.setdefault(service, set()).update(fresh)
            self.__dict__.pop("_needed_by", None)

    @cached_property
    def _needed_by(self) -> dict[str, set[str]]:
        turned: dict[str, set[str]] = {}
        for service, needed in self._needs.items():
            for name in needed:
                turned.setdefault(name, set()).add(service)
        return turned

    def dependencies_of(self, service: str) -> set[str]:
        """All services that it needs, directly or indirectly."""
        return _reachable(service, self._needs)

    def dependents_of(self, service: str) -> set[str]:
        """All services that need it, directly or indirectly."""
        return _reachable(service, self._needed_by)

    def related(self, one: AlertLocation, other: AlertLocation) -> str:
        """Return why the two are related; empty when they are not."""
        if one.service and one.service == other.service:
            apart = one.namespace and other.namespace and one.namespace != other.namespace
            return "" if apart else f"the same service, {one.service}"
        if one.service and other.service:
            if other.service in self.dependencies_of(one.service):
                return f"{one.service} depends on {other.service}"
            if other.service in self.dependents_of(one.service):
                return f"{other.service} depends on {one.service}"
        return self._share_host_or_namespace(one, other)

    def _share_host_or_namespace(self, one: AlertLocation, other: AlertLocation) -> str:
        both = bool(one.service and other.service)
        if one.host and one.host == other.host and (self._settings.by_host or not both):
            return f"the same host, {one.host}"
        whole = not (one.service or one.host) or not (other.service or other.host)
        near = one.namespace and one.namespace == other.namespace
        if near and (whole or self._settings.by_namespace):
            return f"the same namespace, {one.namespace}"
        return ""


def _reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    edge = {start}
    for _ in range(MAX_DEPENDENCY_DEPTH):
        edge = {far for near in edge for far in edges.get(near, ())} - found - {start}
        if not edge:
            break
        found |= edge
    return found
