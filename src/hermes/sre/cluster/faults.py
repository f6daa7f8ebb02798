"""Finds what is wrong in a cluster: the object, the mechanism, the value, and what shows it.

A fault carries the parameters of the playbook that can repair it. Whether a rollout is to blame is
not guessed: Kubernetes itself records whether the current revision was ever available.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from hermes.core.foreign_text import clean_line
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.sre.cluster.state import (
    CertificateState,
    ClusterState,
    ContainerState,
    DisruptionBudget,
    IngressTls,
    PodState,
    Revision,
    ServiceEndpoints,
    Workload,
    is_expired,
    selects,
)

NAMESPACE_LABELS = ("namespace", "kubernetes_namespace", "exported_namespace")
OBJECT_LABELS = (
    *("deployment", "statefulset", "daemonset", "replicaset", "pod", "workload", "service"),
    *("ingress", "poddisruptionbudget", "resourcequota", "node", "job_name", "app", "container"),
)
PULL_REASONS = frozenset(
    {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"}
)
CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError"})
MAX_CHANGED_CHARS = 300
MAX_REPLICAS = 1000
"""Replicas to which a workload may be scaled where no quota is known."""
_MISSING_KEY = re.compile(r"couldn't find key (\S+) in (ConfigMap|Secret) (?:[^/\s]+/)?(\S+)")
_MISSING_OBJECT = re.compile(r'(configmap|secret) "([^"]+)" not found', re.I)
_MEMORY = re.compile(r"(\d+)(Ki|Mi|Gi|k|M|G)?")
_MEMORY_BYTES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


class ClusterFault(Value, kw_only=True, frozen=True):
    kind: str
    """A word that playbooks know."""
    namespace: str
    subject: str
    """The object that is broken, such as `deployment/web`."""
    mechanism: str
    value: str = ""
    evidence: tuple[str, ...] = ()
    """Queries that show it, by their short names."""
    related: tuple[str, ...] = ()
    """Names of other objects that an alert about it may name."""
    parameters: dict[str, str] = {}

    @property
    def claim(self) -> str:
        return clean_line(f"{self.namespace}/{self.subject}: {self.mechanism}", 400)


def find_faults(state: ClusterState, now: datetime) -> list[ClusterFault]:
    """All faults, those of workloads first: others often follow from them."""
    found = [fault for each in state.workloads if (fault := _workload_fault(state, each))]
    broken = {(fault.namespace, fault.subject) for fault in found}
    found += [
        fault
        for each in state.services
        if (fault := _service_fault(state, each)) and (each.namespace, fault.subject) not in broken
    ]
    found += [fault for each in state.budgets if (fault := _budget_fault(state, each))]
    found += _certificate_faults(state, now)
    found += [
        ClusterFault(
            kind="node-not-ready",
            namespace="",
            subject=f"node/{each.name}",
            mechanism="the node is not ready",
            value=each.name,
            evidence=("nodes",),
        )
        for each in state.nodes
        if not each.ready
    ]
    return found


def healthy_parts(state: ClusterState) -> dict[str, str]:
    """Return what can be excluded, in words, by the query that shows it."""
    services = [each for each in state.services if each.selector]
    found = {}
    if services and all(each.ready for each in services):
        found["services"] = "every service has an endpoint"
    if not state.quotas:
        found["quotas"] = "there is no quota"
    if all(each.allowed for each in state.budgets):
        found["budgets"] = "no disruption budget forbids an eviction"
    if not state.ingresses:
        found["ingresses"] = "no ingress uses TLS"
    if state.nodes and all(each.ready and not each.cordoned for each in state.nodes):
        found["nodes"] = "every node is ready"
    return found


def alert_namespace(details: IncidentDetails) -> str:
    return next((details.labels[key] for key in NAMESPACE_LABELS if details.labels.get(key)), "")


def concerns_incident(fault: ClusterFault, details: IncidentDetails) -> bool:
    """Return whether an incident is about this fault, by the names in its labels or its text."""
    namespace = alert_namespace(details)
    if namespace and fault.namespace not in ("", namespace):
        return False
    own = fault.subject.partition("/")[2]
    names = {own, *fault.related}
    labelled = {details.labels[key] for key in OBJECT_LABELS if details.labels.get(key)}
    if labelled & names or any(_is_pod_of(label, own) for label in labelled):
        return True
    text = details.facts.combined_text
    named = any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for name in names if name)
    return named or (bool(namespace) and not labelled)


def _is_pod_of(label: str, workload: str) -> bool:
    """`web-7d4b9c5f6-x2x4c` and `db-0` are pods of `web` and `db`."""
    return bool(re.fullmatch(rf"{re.escape(workload)}-([a-z0-9]+-)?[a-z0-9]{{1,10}}", label))


class _Symptom(Value, kw_only=True, frozen=True):
    kind: str
    text: str
    value: str = ""
    container: str = ""
    evidence: tuple[str, ...] = ("pods",)
    parameters: dict[str, str] = {}


def _workload_fault(state: ClusterState, workload: Workload) -> ClusterFault | None:
    symptom = _worst_symptom(state, workload)
    if symptom is None:
        return None
    parameters = {
        "namespace": workload.namespace,
        "workload": workload.reference,
        **symptom.parameters,
    }
    kind, text, evidence = symptom.kind, symptom.text, (*symptom.evidence, "workloads")
    previous = _previous_revision(state, workload) if workload.rollout_incomplete else None
    if previous is not None:
        kind = "failed-rollout"
        changed = _changed_since(state, workload, previous)
        text = (
            f"revision {workload.revision} was never available: {text}"
            f"{f'; changed since revision {previous.number}: {changed}' if changed else ''}"
        )
        evidence = (*evidence, "revisions")
        parameters |= {"revision": str(previous.number), "current": str(workload.revision)}
    return ClusterFault(
        kind=kind,
        namespace=workload.namespace,
        subject=workload.reference,
        mechanism=clean_line(text, 500),
        value=clean_line(symptom.value, 200),
        evidence=tuple(dict.fromkeys(evidence)),
        related=_names_around(state, workload),
        parameters=parameters,
    )


def _names_around(state: ClusterState, workload: Workload) -> tuple[str, ...]:
    services = [
        each.name
        for each in state.services
        if each.namespace == workload.namespace and selects(each.selector, workload.labels)
    ]
    pods = [each.name for each in state.pods if state.workload_of(each) == workload]
    return (*services, *pods)


def _worst_symptom(state: ClusterState, workload: Workload) -> _Symptom | None:
    pods = [each for each in state.pods if state.workload_of(each) == workload and not each.ending]
    found = [symptom for pod in pods for symptom in _pod_symptoms(pod, workload)]
    found += _unscheduled_pods(state, pods)
    if refused := _refused_pods(state, workload):
        found.append(refused)
    if not found:
        return None
    if workload.available >= workload.desired and not workload.rollout_incomplete:
        found = [each for each in found if each.kind == "memory-limit"]
    order = ("memory-limit", "missing-key", "image", "unschedulable", "quota", "crash-loop")
    return min(
        found,
        key=lambda each: order.index(each.kind) if each.kind in order else len(order),
        default=None,
    )


def _unscheduled_pods(state: ClusterState, pods: Sequence[PodState]) -> Iterator[_Symptom]:
    """Pods that wait for a node by the words of the scheduler: their condition may come later."""
    waiting = {
        f"Pod/{each.name}" for each in pods if each.phase == "Pending" and not each.conditions
    }
    for event in state.events:
        if event.reason == "FailedScheduling" and event.subject in waiting:
            text = f"pod {event.subject[4:]} finds no node: {event.message}"
            evidence = ("pods", "events", "nodes")
            yield _Symptom(kind="unschedulable", text=text, value=event.message, evidence=evidence)


def _pod_symptoms(pod: PodState, workload: Workload) -> Iterator[_Symptom]:
    reason, message = pod.conditions.get("PodScheduled", ("", ""))
    if reason == "Unschedulable":
        text = f"pod {pod.name} finds no node: {message}"
        yield _Symptom(kind="unschedulable", text=text, value=message, evidence=("pods", "nodes"))
        return
    for container in pod.containers:
        if symptom := _container_symptom(pod, container, workload):
            yield symptom
    runs = pod.phase == "Running" and all(each.state == "running" for each in pod.containers)
    if runs and not all(each.ready for each in pod.containers):
        text = f"pod {pod.name} runs but its readiness probe does not pass"
        yield _Symptom(kind="not-ready", text=text, evidence=("pods", "events"))


def _container_symptom(
    pod: PodState, container: ContainerState, workload: Workload
) -> _Symptom | None:
    where = f"container {container.name} of pod {pod.name}"
    if "OOMKilled" in (container.reason, container.last_reason):
        limit = next((c.memory_limit for c in workload.containers if c.name == container.name), "")
        raised = raise_memory(limit)
        known = {"container": container.name, "limit": limit, "raised": raised} if raised else {}
        text = f"{where} was killed for memory"
        text += f" at its limit of {limit}" if limit else ""
        text += f"; restarts so far: {container.restarts}" if container.restarts else ""
        return _Symptom(kind="memory-limit", text=text, value=limit, parameters=known)
    if container.state == "waiting" and container.reason in PULL_REASONS:
        text = f"the image {container.image} of {where} cannot be pulled: {container.message}"
        return _Symptom(kind="image", text=text, value=container.image)
    if container.state == "waiting" and container.reason in CONFIG_REASONS:
        return _config_symptom(where, container.message)
    ended = container.restarts or container.exit_code or container.last_exit_code
    if container.state in ("waiting", "terminated") and ended:
        code = container.exit_code or container.last_exit_code
        words = container.last_message or container.message
        text = f"{where} ends with exit code {code} again and again: {words}"
        parameters = {"container": container.name}
        return _Symptom(
            kind="crash-loop", text=text, value=f"exit code {code}", parameters=parameters
        )
    return None


def _config_symptom(where: str, message: str) -> _Symptom:
    text = f"{where} cannot be configured: {message}"
    if key := _MISSING_KEY.search(message):
        holder = f"{key[2].lower()}/{key[3]}"
        pointer = key[1].replace("~", "~0").replace("/", "~1")
        back = json.dumps([{"op": "remove", "path": f"/data/{pointer}"}])
        known = {"holder": holder, "key": key[1], "back": back}
        return _Symptom(
            kind="missing-key", text=text, value=f"{key[1]} in {holder}", parameters=known
        )
    if gone := _MISSING_OBJECT.search(message):
        return _Symptom(kind="missing-object", text=text, value=f"{gone[1].lower()}/{gone[2]}")
    return _Symptom(kind="configuration", text=text, value=message[:100])


def _refused_pods(state: ClusterState, workload: Workload) -> _Symptom | None:
    """Pods that the API server refuses to create."""
    status, reason, message = workload.conditions.get("ReplicaFailure", ("", "", ""))
    evidence: tuple[str, ...] = ("workloads",)
    if status != "True" or reason != "FailedCreate":
        owners = (f"StatefulSet/{workload.name}", f"DaemonSet/{workload.name}")
        told = [
            each
            for each in state.events
            if each.namespace == workload.namespace
            and each.reason == "FailedCreate"
            and each.subject in owners
        ]
        if not told or workload.ready >= workload.desired:
            return None
        message, evidence = told[-1].message, ("workloads", "events")
    if "exceeded quota" not in message:
        return _Symptom(kind="refused", text=f"pods are refused: {message}", value=message[:100])
    found = re.search(r"exceeded quota: ([^,]+), (requested: .*)", message)
    value = found[2] if found else message
    known = {"fitting": str(workload.available), "was": str(workload.desired)}
    return _Symptom(
        kind="quota",
        text=f"{workload.desired - workload.ready} pods do not fit into quota {value}",
        value=value,
        evidence=(*evidence, "quotas"),
        parameters=known,
    )


def _previous_revision(state: ClusterState, workload: Workload) -> Revision | None:
    """The revision to go back to: one that still runs, else the last one before."""
    if workload.kind != "Deployment" or workload.paused:
        return None
    older = [each for each in _revisions_of(state, workload) if each.number < workload.revision]
    serving = [each for each in older if each.ready]
    return max(serving or older, key=lambda each: each.number, default=None)


def _revisions_of(state: ClusterState, workload: Workload) -> list[Revision]:
    own = (workload.namespace, workload.name)
    return [each for each in state.revisions if (each.namespace, each.deployment) == own]


def _changed_since(state: ClusterState, workload: Workload, previous: Revision) -> str:
    current = next(
        (each for each in _revisions_of(state, workload) if each.number == workload.revision), None
    )
    if current is None:
        return ""
    parts = []
    for name in dict.fromkeys((*current.containers, *previous.containers)):
        old, new = previous.containers.get(name, {}), current.containers.get(name, {})
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                parts.append(f"{name} {key} {old.get(key, 'none')} -> {new.get(key, 'none')}")
    return clean_line(", ".join(parts), MAX_CHANGED_CHARS)


def raise_memory(limit: str) -> str:
    """Twice the limit; empty where it is not a plain amount."""
    found = _MEMORY.fullmatch(limit)
    return f"{2 * int(found[1])}{found[2] or ''}" if found else ""


def memory_bytes(amount: str) -> int:
    found = _MEMORY.fullmatch(amount)
    return int(found[1]) * _MEMORY_BYTES[found[2] or ""] if found else 0


def _service_fault(state: ClusterState, service: ServiceEndpoints) -> ClusterFault | None:
    """A service without any address. Pods that are not ready explain themselves."""
    if not service.selector or service.ready or service.not_ready:
        return None
    near = [each for each in state.workloads if each.namespace == service.namespace]
    selected = [each for each in near if selects(service.selector, each.labels)]
    if any(each.desired for each in selected):
        return None  # its pods are missing or not ready: a fault of the workload
    if selected:
        return _scaled_to_zero(selected[0], service)
    return _wrong_selector(service, near)


def _scaled_to_zero(workload: Workload, service: ServiceEndpoints) -> ClusterFault:
    return ClusterFault(
        kind="scaled-to-zero",
        namespace=workload.namespace,
        subject=workload.reference,
        mechanism=f"it is scaled to 0 replicas, and service/{service.name} has no endpoints",
        value="0 replicas",
        evidence=("workloads", "services"),
        related=(service.name,),
        parameters={
            "namespace": workload.namespace,
            "workload": workload.reference,
            "fitting": str(MAX_REPLICAS),
            "was": "0",
        },
    )


def _wrong_selector(service: ServiceEndpoints, near: Sequence[Workload]) -> ClusterFault:
    named = [each for each in near if each.name == service.name]
    alike = [each for each in near if _shares_label(service, each) and each.ready]
    meant = named[0] if len(named) == 1 else alike[0] if len(alike) == 1 else None
    wrong = ",".join(f"{key}={value}" for key, value in sorted(service.selector.items()))
    parameters = {"namespace": service.namespace, "service": service.name}
    if meant is not None and meant.selector:
        parameters |= {
            "patch": _selector_patch(meant.selector),
            "back": _selector_patch(service.selector),
        }
    right = f", as {meant.reference} has {_labels_text(meant)}" if meant is not None else ""
    return ClusterFault(
        kind="wrong-selector",
        namespace=service.namespace,
        subject=f"service/{service.name}",
        mechanism=f"its selector {wrong} matches no pod{right}",
        value=wrong,
        evidence=("services", "workloads"),
        related=(meant.name,) if meant is not None else (),
        parameters=parameters,
    )


def _labels_text(workload: Workload) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(workload.selector.items()))


def _shares_label(service: ServiceEndpoints, workload: Workload) -> bool:
    return any(workload.labels.get(key) == value for key, value in service.selector.items())


def _reference_patch(path: str, name: str) -> str:
    """The name first: right after the word `secretName` it would be redacted like a secret."""
    return json.dumps([{"op": "replace", "value": name, "path": path}])


def _selector_patch(selector: dict[str, str]) -> str:
    return json.dumps([{"op": "replace", "path": "/spec/selector", "value": selector}])


def _budget_fault(state: ClusterState, budget: DisruptionBudget) -> ClusterFault | None:
    """A budget that allows no eviction although every pod is healthy."""
    if budget.allowed or not budget.expected or budget.healthy < budget.expected:
        return None
    near = [each for each in state.workloads if each.namespace == budget.namespace]
    guarded = [each for each in near if selects(budget.selector, each.labels)]
    demand = (
        f"minAvailable {budget.min_available}"
        if budget.min_available
        else f"maxUnavailable {budget.max_unavailable or '0'}"
    )
    parameters = {"namespace": budget.namespace, "budget": budget.name}
    if len(guarded) == 1 and guarded[0].kind != "DaemonSet" and budget.min_available.isdigit():
        workload = guarded[0]
        parameters |= {
            "workload": workload.reference,
            "was": str(workload.desired),
            "replicas": str(int(budget.min_available) + 1),
        }
    return ClusterFault(
        kind="disruption-budget",
        namespace=budget.namespace,
        subject=f"poddisruptionbudget/{budget.name}",
        mechanism=(
            f"{demand} with {budget.expected} pods allows no eviction although all are healthy: "
            "a node can never be drained"
        ),
        value=demand,
        evidence=("budgets", "workloads"),
        related=tuple(each.name for each in guarded),
        parameters=parameters,
    )


def _certificate_faults(state: ClusterState, now: datetime) -> Iterator[ClusterFault]:
    known = {(each.namespace, each.secret): each for each in state.certificates}
    numbers: dict[tuple[str, str], int] = {}
    for tls in state.ingresses:
        at = numbers.get((tls.namespace, tls.name), 0)
        numbers[tls.namespace, tls.name] = at + 1
        certificate = known.get((tls.namespace, tls.secret))
        if certificate is not None and is_expired(certificate, now):
            yield _expired_certificate(state, tls, at, certificate, now)


def _expired_certificate(
    state: ClusterState, tls: IngressTls, at: int, old: CertificateState, now: datetime
) -> ClusterFault:
    day = 86_400.0
    renewed: Callable[[CertificateState], bool] = lambda each: (  # noqa: E731
        each.namespace == old.namespace
        and each.subject == old.subject
        and not is_expired(each, now, margin_s=day)
    )
    newest = max(filter(renewed, state.certificates), key=lambda each: each.ends_at, default=None)
    parameters = {"namespace": tls.namespace, "ingress": tls.name, "secret": tls.secret}
    if newest is not None:
        path = f"/spec/tls/{at}/secretName"
        parameters |= {
            "renewed": newest.secret,
            "patch": _reference_patch(path, newest.secret),
            "back": _reference_patch(path, tls.secret),
        }
    hint = f"; secret/{newest.secret} holds a valid one" if newest is not None else ""
    return ClusterFault(
        kind="certificate-expired",
        namespace=tls.namespace,
        subject=f"ingress/{tls.name}",
        mechanism=(
            f"the certificate in secret/{tls.secret} for {tls.hosts or old.subject} expired at "
            f"{old.ends_at:%Y-%m-%d %H:%M} UTC{hint}"
        ),
        value=f"notAfter {old.ends_at:%Y-%m-%dT%H:%M:%SZ}",
        evidence=("ingresses", "certificates"),
        related=(tls.secret, *tls.hosts.split()),
        parameters=parameters,
    )
