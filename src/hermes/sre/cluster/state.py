"""Reads the output of the cluster queries into values."""

import ast
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from hermes.core.messages import Value

LabelMap = dict[str, str]


class ContainerState(Value, kw_only=True, frozen=True):
    name: str
    image: str = ""
    ready: bool = False
    restarts: int = 0
    state: str = ""
    """waiting, running or terminated."""
    reason: str = ""
    exit_code: str = ""
    message: str = ""
    last_reason: str = ""
    """Why it ended the last time."""
    last_exit_code: str = ""
    last_message: str = ""


class PodState(Value, kw_only=True, frozen=True):
    namespace: str
    name: str
    phase: str
    owner: str = ""
    """`ReplicaSet/web-7d4b9`."""
    ending: bool = False
    conditions: dict[str, tuple[str, str]] = {}
    """Conditions that are not met: reason and message by type."""
    containers: tuple[ContainerState, ...] = ()


class ContainerSpec(Value, kw_only=True, frozen=True):
    name: str
    image: str = ""
    memory_limit: str = ""
    memory_request: str = ""
    cpu_request: str = ""


class Workload(Value, kw_only=True, frozen=True):
    kind: str
    namespace: str
    name: str
    desired: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0
    revision: int = 0
    paused: bool = False
    labels: LabelMap = {}
    """Of its pods."""
    selector: LabelMap = {}
    conditions: dict[str, tuple[str, str, str]] = {}
    """Status, reason and message by type."""
    containers: tuple[ContainerSpec, ...] = ()

    @property
    def reference(self) -> str:
        return f"{self.kind.lower()}/{self.name}"

    @property
    def rollout_incomplete(self) -> bool:
        """Whether the last change of the template never became available."""
        if self.kind != "Deployment":
            return self.updated < self.desired
        reason = self.conditions.get("Progressing", ("", "", ""))[1]
        return reason != "NewReplicaSetAvailable"


class Revision(Value, kw_only=True, frozen=True):
    namespace: str
    deployment: str
    number: int
    desired: int = 0
    ready: int = 0
    containers: dict[str, dict[str, str]] = {}
    """The parts of the template that break a rollout, by container."""


class ClusterEvent(Value, kw_only=True, frozen=True):
    at: datetime
    count: int
    namespace: str
    subject: str
    """`Pod/web-7d4b9-x2x4c`."""
    reason: str
    message: str


class ServiceEndpoints(Value, kw_only=True, frozen=True):
    namespace: str
    name: str
    kind: str = "ClusterIP"
    selector: LabelMap = {}
    ready: int = 0
    """Addresses that receive traffic."""
    not_ready: int = 0


class QuotaState(Value, kw_only=True, frozen=True):
    namespace: str
    name: str
    resource: str
    used: str
    hard: str


class DisruptionBudget(Value, kw_only=True, frozen=True):
    namespace: str
    name: str
    min_available: str = ""
    max_unavailable: str = ""
    allowed: int = 0
    healthy: int = 0
    needed: int = 0
    expected: int = 0
    selector: LabelMap = {}


class IngressTls(Value, kw_only=True, frozen=True):
    namespace: str
    name: str
    secret: str
    hosts: str = ""


class CertificateState(Value, kw_only=True, frozen=True):
    namespace: str
    secret: str
    ends_at: datetime
    subject: str = ""


class NodeState(Value, kw_only=True, frozen=True):
    name: str
    ready: bool
    cordoned: bool = False
    cpu: str = ""
    memory: str = ""


class ClusterState(Value, kw_only=True, frozen=True):
    pods: tuple[PodState, ...] = ()
    workloads: tuple[Workload, ...] = ()
    revisions: tuple[Revision, ...] = ()
    events: tuple[ClusterEvent, ...] = ()
    services: tuple[ServiceEndpoints, ...] = ()
    quotas: tuple[QuotaState, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    ingresses: tuple[IngressTls, ...] = ()
    certificates: tuple[CertificateState, ...] = ()
    nodes: tuple[NodeState, ...] = ()

    def workload_of(self, pod: PodState) -> Workload | None:
        """The workload that a pod belongs to, by its owner's name."""
        kind, _, owner = pod.owner.partition("/")
        name = owner.rpartition("-")[0] if kind == "ReplicaSet" else owner
        wanted = "Deployment" if kind == "ReplicaSet" else kind
        return next(
            (
                each
                for each in self.workloads
                if (each.kind, each.namespace, each.name) == (wanted, pod.namespace, name)
            ),
            None,
        )


def parse_cluster(outputs: Mapping[str, str]) -> ClusterState:
    """`outputs`: what the queries printed, by their short names. Other lines are skipped."""
    return ClusterState(
        pods=tuple(_parse_pods(outputs.get("pods", ""))),
        workloads=tuple(_parse_workloads(outputs.get("workloads", ""))),
        revisions=tuple(_parse_revisions(outputs.get("revisions", ""))),
        events=tuple(parse_events(outputs.get("events", ""))),
        services=tuple(_parse_services(outputs.get("services", ""))),
        quotas=tuple(
            QuotaState(namespace=row[0], name=row[1], resource=row[2], used=row[3], hard=row[4])
            for row in _rows(outputs.get("quotas", ""), "quota", 5)
        ),
        budgets=tuple(_parse_budgets(outputs.get("budgets", ""))),
        ingresses=tuple(
            IngressTls(namespace=row[0], name=row[1], secret=row[2], hosts=row[3].strip())
            for row in _rows(outputs.get("ingresses", ""), "ingress", 4)
        ),
        certificates=tuple(_parse_certificates(outputs.get("certificates", ""))),
        nodes=tuple(
            NodeState(
                name=row[0],
                ready=row[1] == "True",
                cordoned=row[2] == "cordoned",
                cpu=row[3],
                memory=row[4],
            )
            for row in _rows(outputs.get("nodes", ""), "node", 5)
        ),
    )


def parse_labels(text: str) -> LabelMap:
    """A map as Go prints it: `map[app:web tier:front]`."""
    found = re.fullmatch(r"map\[(.*)\]", text.strip())
    if found is None:
        return {}
    return {key: value for key, _, value in (each.partition(":") for each in found[1].split())}


def selects(selector: LabelMap, labels: LabelMap) -> bool:
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def parse_events(output: str) -> Iterator[ClusterEvent]:
    for row in _rows(output, "event", 6):
        try:
            at = datetime.fromisoformat(row[0].replace("Z", "+00:00"))
        except ValueError:
            at = datetime.now(UTC)
        yield ClusterEvent(
            at=at,
            count=_number(row[1]),
            namespace=row[2],
            subject=row[3],
            reason=row[4],
            message=_text(row[5]),
        )


def _rows(output: str, kind: str, fields: int) -> Iterator[list[str]]:
    """The fields of each line of this kind; lines with fewer are padded, cut ones are skipped."""
    for line in output.splitlines():
        first, *rest = line.split("\t")
        if first == kind:
            yield [*rest, *[""] * fields][: max(fields, len(rest))]


def _text(quoted: str) -> str:
    """A text as Go quotes it."""
    try:
        value = ast.literal_eval(quoted) if quoted.startswith('"') else quoted
    except (ValueError, SyntaxError):
        return quoted.strip('"')
    return str(value)


def _plain(field: str) -> str:
    return "" if field in ("-", "<no value>") else field


def _number(field: str) -> int:
    return int(field) if field.isdigit() else 0


def _blocks(output: str, kind: str) -> Iterator[list[list[str]]]:
    """Each object with the lines that belong to it."""
    block: list[list[str]] = []
    for line in output.splitlines():
        fields = line.split("\t")
        if fields[0] == kind:
            if block:
                yield block
            block = [fields]
        elif block:
            block.append(fields)
    if block:
        yield block


def _parse_pods(output: str) -> Iterator[PodState]:
    for head, *rest in _blocks(output, "pod"):
        row = [*head, *[""] * 6]
        yield PodState(
            namespace=row[1],
            name=row[2],
            phase=row[3],
            owner=row[4],
            ending=row[5] == "ending",
            conditions={
                each[1]: (_plain(each[2]), _text(each[3]))
                for each in rest
                if each[0] == "condition" and len(each) >= 4
            },
            containers=tuple(
                ContainerState(
                    name=each[1],
                    image=each[2],
                    ready=each[3] == "true",
                    restarts=_number(each[4]),
                    state=each[5],
                    reason=_plain(each[6]),
                    exit_code=_plain(each[7]),
                    message=_text(each[8]),
                    last_reason=_plain(each[9]),
                    last_exit_code=_plain(each[10]),
                    last_message=_text(each[11]),
                )
                for each in rest
                if each[0] == "container" and len(each) >= 12
            ),
        )


def _parse_workloads(output: str) -> Iterator[Workload]:
    for head, *rest in _blocks(output, "workload"):
        row = [*head, *[""] * 12]
        yield Workload(
            kind=row[1],
            namespace=row[2],
            name=row[3],
            desired=_number(row[4]),
            ready=_number(row[5]),
            updated=_number(row[6]),
            available=_number(row[7]),
            revision=_number(row[8]),
            paused=row[9] == "paused",
            labels=parse_labels(row[10]),
            selector=parse_labels(row[11]),
            conditions={
                each[1]: (each[2], _plain(each[3]), _text(each[4]))
                for each in rest
                if each[0] == "condition" and len(each) >= 5
            },
            containers=tuple(
                ContainerSpec(
                    name=each[1],
                    image=each[2],
                    memory_limit=_plain(each[3]),
                    memory_request=_plain(each[4]),
                    cpu_request=_plain(each[5]),
                )
                for each in rest
                if each[0] == "container" and len(each) >= 6
            ),
        )


def _parse_revisions(output: str) -> Iterator[Revision]:
    for head, *rest in _blocks(output, "revision"):
        row = [*head, *[""] * 6]
        yield Revision(
            namespace=row[1],
            deployment=row[2],
            number=_number(row[3]),
            desired=_number(row[4]),
            ready=_number(row[5]),
            containers={
                each[1]: dict(field.split("=", 1) for field in each[2:] if "=" in field)
                for each in rest
                if each[0] == "container" and len(each) >= 3
            },
        )


def _parse_services(output: str) -> Iterator[ServiceEndpoints]:
    endpoints = {(row[0], row[1]): row[2] for row in _rows(output, "endpoints", 3)}
    for row in _rows(output, "service", 4):
        addresses = endpoints.get((row[0], row[1]), "")
        yield ServiceEndpoints(
            namespace=row[0],
            name=row[1],
            kind=row[2],
            selector=parse_labels(row[3]),
            ready=addresses.count("+"),
            not_ready=addresses.count("-"),
        )


def _parse_budgets(output: str) -> Iterator[DisruptionBudget]:
    for row in _rows(output, "budget", 9):
        yield DisruptionBudget(
            namespace=row[0],
            name=row[1],
            min_available=_plain(row[2]),
            max_unavailable=_plain(row[3]),
            allowed=_number(row[4]),
            healthy=_number(row[5]),
            needed=_number(row[6]),
            expected=_number(row[7]),
            selector=parse_labels(row[8]),
        )


def _parse_certificates(output: str) -> Iterator[CertificateState]:
    for row in _rows(output, "certificate", 4):
        ends = re.search(r"notAfter=(\w{3} +\d+ [\d:]+ \d{4})", "\t".join(row[2:]))
        if ends is None:
            continue
        subject = next((each for each in row[2:] if each.startswith("subject=")), "")
        at = datetime.strptime(f"{' '.join(ends[1].split())} +0000", "%b %d %H:%M:%S %Y %z")
        yield CertificateState(
            namespace=row[0],
            secret=row[1],
            ends_at=at,
            subject=subject.removeprefix("subject=").strip(),
        )


def is_expired(certificate: CertificateState, now: datetime, margin_s: float = 0.0) -> bool:
    return certificate.ends_at <= now + timedelta(seconds=margin_s)
