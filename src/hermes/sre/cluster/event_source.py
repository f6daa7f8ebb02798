"""Polls the warnings of a cluster, and publishes one alert for each workload that has some."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import anyio
import msgspec

from hermes.core.errors import EnvironmentFailed, StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.foreign_text import (
    MAX_TEXT_CHARS,
    MAX_TITLE_CHARS,
    alert_fingerprint,
    clean_labels,
    clean_line,
)
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value
from hermes.core.protocols import Environment, Journal
from hermes.sre.cluster.checks import is_available
from hermes.sre.cluster.faults import ClusterFault, find_faults
from hermes.sre.cluster.queries import (
    FAULT_ALERT,
    KUBECTL_ERROR,
    MAX_EVENT_LINES,
    QUERY_TIMEOUT_S,
    SILENT_ALERT,
    WARNINGS_ALERT,
    query_commands,
    with_context_hint,
)
from hermes.sre.cluster.state import ClusterEvent, ClusterState, Workload, parse_cluster
from hermes.sre.probes.host_facts import run_query
from hermes.sre.settings import KubernetesSettings
from hermes.sre.triage.severity import REPLICAS_LABEL

KUBERNETES_SOURCE = "kubernetes"
ALERT_HISTORY = timedelta(days=2)
"""How far back a new watch reads its earlier alerts."""
MAX_FAILED_POLLS = 3
"""Polls in a row without an answer before that is an alert."""
MAX_SHOWN_EVENTS = 5
API_ALERT_TITLE = "the Kubernetes API gives no answer"
IGNORED_REASONS = frozenset({"DNSConfigForming", "FailedToUpdateEndpoint", "Preempted"})
"""Warnings of a healthy cluster."""
NODE_REASON = "NodeNotReady"
"""Said about every pod of a node; it is one problem of the node."""
STATE_INTERVAL = timedelta(seconds=30)
"""Between two looks for faults that no event reports; one that both find is no object that is just
being created."""
STATE_QUERIES = ("workloads", "services", "budgets", "ingresses", "certificates", "nodes")
SILENT_FAULT_TITLES = {
    "wrong-selector": "Unavailable: {} in {} selects no pod",
    "certificate-expired": "Certificate expired: {} in {}",
    "disruption-budget": "Drain blocked: {} in {} allows no eviction",
}
"""Faults for which Kubernetes writes no event."""
_HASHED_NAME = re.compile(r"(.+?)(?:-[a-z0-9]{6,10})?-[a-z0-9]{5}")
PublishEvents = Callable[..., Awaitable[Sequence[int]]]


class ClusterUnavailable(Exception):
    """kubectl gave no usable answer; it may the next time."""


class WarningGroup(Value, kw_only=True, frozen=True):
    """The recent warnings of one workload."""

    namespace: str
    kind: str
    name: str
    events: tuple[ClusterEvent, ...]
    workload: Workload | None = None

    @property
    def key(self) -> str:
        return alert_fingerprint("kubernetes", self.namespace, self.kind, self.name)

    @property
    def count(self) -> int:
        return sum(each.count for each in self.events)


class KubernetesEventSource:
    def __init__(
        self, publish: PublishEvents, settings: KubernetesSettings, environment: Environment
    ) -> None:
        self._publish, self._settings, self._environment = publish, settings, environment
        self._firing: dict[str, AlertRaised] = {}
        self._closed_at: dict[str, datetime] = {}
        """By fingerprint, when an alert was over: its older warnings are no new fault."""
        self._failed = 0
        self._silent: dict[str, AlertRaised] = {}
        self._found_last: frozenset[str] = frozenset()
        self._looked_at: datetime | None = None
        self._workloads: tuple[Workload, ...] = ()
        self._cut_off = False

    async def restore(self, journal: Journal, now: datetime) -> None:
        """Read the alerts that an earlier watch raised, and when it resolved them."""
        async for recorded in journal.read(kinds=["alert.raised"], since=now - ALERT_HISTORY):
            event = recorded.event
            if isinstance(event, AlertRaised) and event.source == KUBERNETES_SOURCE:
                self._firing.pop(event.fingerprint, None)
                if event.resolved:
                    self._closed_at[event.fingerprint] = event.at
                else:
                    self._firing[event.fingerprint] = event

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            with suppress(StoreError):  # the next round publishes it again
                await self.poll(datetime.now(UTC))
            await anyio.sleep(self._settings.every)

    async def poll(self, now: datetime) -> None:
        """Raises `StoreError`."""
        try:
            groups = await self._read_groups(now)
            await self._look_for_silent_faults(now)
        except ClusterUnavailable as error:
            self._failed += 1
            if self._failed >= MAX_FAILED_POLLS:
                await self._raise(unanswered_alert(self._settings, str(error), now))
            return
        self._failed = 0
        wanted = [
            each
            for each in groups
            if each.key in self._firing
            or (each.count >= self._settings.repeats and not self._is_over(each))
        ]
        alerts = self._silent | {each.fingerprint: each for each in map(warning_alert, wanted)}
        for alert in alerts.values():
            await self._raise(alert)
        for fingerprint in set(self._firing) - set(alerts):
            if self._may_continue(self._firing[fingerprint]):
                continue
            over = msgspec.structs.replace(self._firing[fingerprint], at=now, resolved=True)
            await self._publish(over)
            self._closed_at[fingerprint] = now
            del self._firing[fingerprint]

    async def _raise(self, alert: AlertRaised) -> None:
        """Once for each workload: what is said about it later belongs to the same incident."""
        if alert.fingerprint not in self._firing:
            await self._publish(alert)
            self._firing[alert.fingerprint] = alert

    def _is_over(self, group: WarningGroup) -> bool:
        """Return whether its alert was resolved after the last of these warnings, and it works."""
        closed_at = self._closed_at.get(group.key)
        if closed_at is None or max(each.at for each in group.events) > closed_at:
            return False
        return group.workload is None or is_available(group.workload)

    def _may_continue(self, alert: AlertRaised) -> bool:
        """Return whether silence is no end: its workload is not available, or warnings were cut
        off."""
        labels = dict(alert.labels)
        if labels.get("alertname") != WARNINGS_ALERT:
            return False
        broken = [each for each in self._workloads if not is_available(each)]
        own = any(
            each.namespace == labels.get("namespace") and labels.get(each.kind.lower()) == each.name
            for each in broken
        )
        return own or self._cut_off

    async def _read_groups(self, now: datetime) -> list[WarningGroup]:
        commands = query_commands(self._settings)
        events = parse_cluster({"events": await self._ask(commands["events"])}).events
        recent = now - timedelta(seconds=self._settings.quiet)
        fresh = [
            each for each in events if each.at >= recent and each.reason not in IGNORED_REASONS
        ]
        self._cut_off = len(fresh) >= MAX_EVENT_LINES
        self._workloads = ()
        if not fresh and not self._firing:
            return []
        self._workloads = parse_cluster(
            {"workloads": await self._ask(commands["workloads"])}
        ).workloads
        lost = tuple(each for each in fresh if each.reason == NODE_REASON)
        nodes = parse_cluster({"nodes": await self._ask(commands["nodes"])}).nodes if lost else ()
        return [
            *group_warnings([each for each in fresh if each not in lost], self._workloads),
            *(
                WarningGroup(namespace="", kind="node", name=each.name, events=lost)
                for each in nodes
                if not each.ready
            ),
        ]

    async def _look_for_silent_faults(self, now: datetime) -> None:
        """Raises `ClusterUnavailable`. A query that this account may not send finds nothing."""
        if self._looked_at is not None and now - self._looked_at < STATE_INTERVAL:
            return
        commands, outputs = query_commands(self._settings), dict[str, str]()
        for name in STATE_QUERIES:
            try:
                outputs[name] = await self._ask(commands[name])
            except ClusterUnavailable as error:
                if "Forbidden" not in str(error):
                    raise
        found = silent_faults(parse_cluster(outputs), now)
        alerts = {alert.fingerprint: alert for alert in map(fault_alert, found)}
        known = self._found_last | set(self._firing)
        self._silent = {key: alert for key, alert in alerts.items() if key in known}
        self._found_last, self._looked_at = frozenset(alerts), now

    async def _ask(self, command: str) -> str:
        """Raises `ClusterUnavailable`."""
        try:
            done = await run_query(self._environment, command, 2 * QUERY_TIMEOUT_S)
        except EnvironmentFailed as error:
            raise ClusterUnavailable(str(error)) from error
        wrong = KUBECTL_ERROR.search(done.output)
        if done.timed_out or done.exit_code or wrong:
            said = wrong[0] if wrong else done.output.strip()[-300:]
            raise ClusterUnavailable("no answer in time" if done.timed_out else said)
        return done.output


def group_warnings(
    events: Iterable[ClusterEvent], workloads: Sequence[Workload]
) -> list[WarningGroup]:
    """One group for each workload, whatever object of it the warnings are about."""
    found: dict[tuple[str, str, str], list[ClusterEvent]] = {}
    for event in events:
        key = (event.namespace, *_workload_of(event, workloads))
        found.setdefault(key, []).append(event)
    known = {(each.namespace, each.kind.lower(), each.name): each for each in workloads}
    return [
        WarningGroup(
            namespace=key[0], kind=key[1], name=key[2], events=tuple(own), workload=known.get(key)
        )
        for key, own in found.items()
    ]


def silent_faults(state: ClusterState, now: datetime) -> list[ClusterFault]:
    """A budget that allows no eviction matters once a node is drained."""
    draining = any(each.cordoned for each in state.nodes)
    return [
        each
        for each in find_faults(state, now)
        if each.kind in SILENT_FAULT_TITLES and (draining or each.kind != "disruption-budget")
    ]


def _workload_of(event: ClusterEvent, workloads: Sequence[Workload]) -> tuple[str, str]:
    """Kind and name; the object itself where it belongs to no workload."""
    kind, _, name = event.subject.partition("/")
    near = [each for each in workloads if each.namespace == event.namespace]
    owners = [each for each in near if name == each.name or name.startswith(f"{each.name}-")]
    if kind in ("Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet") and owners:
        owner = max(owners, key=lambda each: len(each.name))
        return owner.kind.lower(), owner.name
    if kind == "Pod" and (hashed := _HASHED_NAME.fullmatch(name)):
        return "workload", hashed[1]
    return kind.lower(), name


def warning_alert(group: WarningGroup) -> AlertRaised:
    last = max(group.events, key=lambda each: each.at)
    shown = sorted(group.events, key=lambda each: each.at, reverse=True)[:MAX_SHOWN_EVENTS]
    text = "; ".join(
        f"{each.subject} {each.reason} ({each.count}): {each.message}" for each in shown
    )
    where = f" in {group.namespace}" if group.namespace else ""
    title = f"{last.reason}: {group.kind}/{group.name}{where}"
    labels = {
        "alertname": WARNINGS_ALERT,
        "namespace": group.namespace,
        group.kind: group.name,
        "service": group.name,
        "reason": last.reason,
    }
    if group.workload is not None:
        replicas = f"{group.workload.available} of {group.workload.desired}"
        labels[REPLICAS_LABEL] = replicas
        text = f"{replicas} replicas are available; {text}"
    return AlertRaised(
        run=WATCH_RUN,
        source=KUBERNETES_SOURCE,
        fingerprint=group.key,
        title=clean_line(title, MAX_TITLE_CHARS),
        text=clean_line(text, MAX_TEXT_CHARS),
        labels=clean_labels({key: value for key, value in labels.items() if value}),
        severity="critical" if group.kind == "node" else "warning",
        since=min(each.at for each in group.events),
    )


def fault_alert(fault: ClusterFault) -> AlertRaised:
    kind, _, name = fault.subject.partition("/")
    labels = {
        "alertname": FAULT_ALERT,
        "namespace": fault.namespace,
        kind: name,
        "service": name,
        "reason": fault.kind,
    }
    if fault.kind == "certificate-expired":
        labels["kind"] = "certificate"  # triage knows what that means for users
    return AlertRaised(
        run=WATCH_RUN,
        source=KUBERNETES_SOURCE,
        fingerprint=alert_fingerprint("kubernetes-fault", fault.namespace, fault.subject),
        title=clean_line(
            SILENT_FAULT_TITLES[fault.kind].format(fault.subject, fault.namespace), MAX_TITLE_CHARS
        ),
        text=clean_line(fault.mechanism, MAX_TEXT_CHARS),
        labels=clean_labels(labels),
        severity="warning",
    )


def unanswered_alert(settings: KubernetesSettings, why: str, now: datetime) -> AlertRaised:
    where = settings.context or settings.kubeconfig
    return AlertRaised(
        run=WATCH_RUN,
        source=KUBERNETES_SOURCE,
        fingerprint=alert_fingerprint("kubernetes-api", where),
        title=API_ALERT_TITLE,
        text=clean_line(f"{where}: {with_context_hint(why)}", MAX_TEXT_CHARS),
        labels=(("alertname", SILENT_ALERT), ("service", "kubernetes")),
        severity="critical",
        since=now,
    )
