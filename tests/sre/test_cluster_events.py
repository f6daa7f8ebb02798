"""A storm of warning events becomes one alert for each workload. The outputs were recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cluster_outputs import BUDGET, COMPLETE_ROLLOUT, EVENT_STORM

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import IncidentDetails
from hermes.core.protocols import CommandResult
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.sre.cluster.event_source import KubernetesEventSource
from hermes.sre.cluster.inspection import ClusterInspection
from hermes.sre.cluster.queries import MAX_EVENT_LINES
from hermes.sre.settings import KubernetesSettings
from hermes.sre.triage.severity import alert_impact

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
SETTINGS = KubernetesSettings(context="prod")
NO_CONTEXT = "Error in configuration: context was not found for specified context: prod"


class RecordedKubectl:
    """Answers the queries with recorded output. Stands in for an environment."""

    target = "recorded"

    def __init__(self, events: str = EVENT_STORM) -> None:
        self.events = events
        self.by_kind = {"deployments": COMPLETE_ROLLOUT}

    async def run(self, command: str, *, timeout: float | None = None) -> CommandResult:
        known = self.by_kind | {"events": self.events}
        output = next((text for kind, text in known.items() if f"get {kind}" in command), "")
        return CommandResult(exit_code=0, output=output)


class WatchedCluster:
    def __init__(self, journal: InMemoryJournal | None = None) -> None:
        self.journal = journal or InMemoryJournal()
        self.kubectl = RecordedKubectl()
        publish = Bus(self.journal).publish
        self.source = KubernetesEventSource(publish, SETTINGS, self.kubectl)  # type: ignore[arg-type]

    async def alerts(self) -> Sequence[AlertRaised]:
        records = [each async for each in self.journal.read(kinds=["alert.raised"])]
        return [each.event for each in records if isinstance(each.event, AlertRaised)]


async def test_a_storm_is_one_alert_for_each_workload() -> None:
    cluster = WatchedCluster()
    await cluster.source.poll(NOW)
    await cluster.source.poll(NOW + timedelta(seconds=10))
    alerts = await cluster.alerts()
    named = [(dict(each.labels)["namespace"], dict(each.labels)["service"]) for each in alerts]
    assert named == [("shop", "web"), ("shop", "db-0")]
    labels = dict(alerts[0].labels)
    assert labels["deployment"] == "web"
    assert "image not found" in alerts[0].text
    assert alerts[0].since == datetime(2026, 11, 17, 11, 59, 1, tzinfo=UTC)


async def test_old_and_single_warnings_raise_nothing() -> None:
    cluster = WatchedCluster()
    await cluster.source.poll(NOW)
    assert not [
        each for each in await cluster.alerts() if "old" in each.title or "once" in each.title
    ]


async def test_without_new_warnings_the_alert_is_over() -> None:
    cluster = WatchedCluster()
    await cluster.source.poll(NOW)
    await cluster.source.poll(NOW + timedelta(seconds=SETTINGS.quiet + 60))
    ended = [each.title for each in await cluster.alerts() if each.resolved]
    assert len(ended) == 2


async def test_a_restarted_watch_does_not_raise_it_again_and_ends_it() -> None:
    first = WatchedCluster()
    await first.source.poll(NOW)
    second = WatchedCluster(first.journal)
    await second.source.restore(second.journal, datetime.now(UTC))
    await second.source.poll(NOW + timedelta(seconds=5))
    assert len(await second.alerts()) == 2
    await second.source.poll(NOW + timedelta(seconds=SETTINGS.quiet + 60))
    assert sum(each.resolved for each in await second.alerts()) == 2


async def test_warnings_from_before_the_end_of_an_alert_do_not_raise_it_again() -> None:
    first = WatchedCluster()
    await first.source.poll(NOW)
    raised = await first.alerts()
    ended = [msgspec.structs.replace(each, at=NOW, resolved=True) for each in raised]
    await Bus(first.journal).publish(*ended)
    second = WatchedCluster(first.journal)
    await second.source.restore(second.journal, NOW)
    await second.source.poll(NOW + timedelta(seconds=5))
    assert len(await second.alerts()) == len(raised) + len(ended)
    newer = WatchedCluster()
    early = [msgspec.structs.replace(each, at=NOW - timedelta(days=1)) for each in ended]
    await Bus(newer.journal).publish(*early)
    await newer.source.restore(newer.journal, NOW)
    await newer.source.poll(NOW)
    assert [each.resolved for each in await newer.alerts()].count(False) == len(raised)


async def test_a_renamed_context_is_an_alert_that_says_so_and_ends_by_itself() -> None:
    cluster = WatchedCluster()
    cluster.kubectl.events = NO_CONTEXT
    for second in range(5):
        await cluster.source.poll(NOW + timedelta(seconds=second))
    (alert,) = await cluster.alerts()
    assert "context was not found" in alert.text
    assert "sre.kubernetes.context" in alert.text
    cluster.kubectl.events = ""
    await cluster.source.poll(NOW)
    assert [each.resolved for each in await cluster.alerts()] == [False, True]


DOWN = COMPLETE_ROLLOUT.replace("\t2\t2\t2\t2\t1\t", "\t2\t0\t2\t0\t1\t")
CORDONED_NODE = "node\tnode-1\tTrue\tcordoned\t4\t4Gi\n"
SERVICE_WITHOUT_PODS = """\
service\tshop\tweb\tClusterIP\tmap[app:wbe]
endpoints\tshop\tweb\t
"""


async def test_faults_without_events_are_alerts_until_they_are_gone() -> None:
    cluster = WatchedCluster()
    cluster.kubectl.events = ""
    cluster.kubectl.by_kind |= {"services": SERVICE_WITHOUT_PODS}
    await cluster.source.poll(NOW)
    await cluster.source.poll(NOW + timedelta(seconds=10))
    assert await cluster.alerts() == []  # it may just be being created
    await cluster.source.poll(NOW + timedelta(seconds=40))
    (alert,) = await cluster.alerts()
    assert alert.title == "Unavailable: service/web in shop selects no pod"
    assert "its selector app=wbe matches no pod" in alert.text
    cluster.kubectl.by_kind.pop("services")
    await cluster.source.poll(NOW + timedelta(seconds=140))
    assert [each.resolved for each in await cluster.alerts()] == [False, True]


async def test_a_budget_that_blocks_is_an_alert_only_while_a_node_is_emptied() -> None:
    cluster = WatchedCluster()
    cluster.kubectl.events = ""
    cluster.kubectl.by_kind |= {"poddisruptionbudgets": BUDGET}
    await cluster.source.poll(NOW)
    assert await cluster.alerts() == []
    cluster.kubectl.by_kind |= {"nodes": CORDONED_NODE}
    for second in (40, 80):
        await cluster.source.poll(NOW + timedelta(seconds=second))
    (alert,) = await cluster.alerts()
    assert alert.title == "Drain blocked: poddisruptionbudget/web in shop allows no eviction"


async def test_an_account_that_may_not_read_nodes_is_no_silent_cluster() -> None:
    cluster = WatchedCluster()
    cluster.kubectl.events = ""
    cluster.kubectl.by_kind |= {"nodes": "Error from server (Forbidden): nodes is forbidden"}
    for second in range(5):
        await cluster.source.poll(NOW + timedelta(seconds=second))
    assert await cluster.alerts() == []


async def test_a_workload_without_replicas_is_down_and_one_with_all_is_not() -> None:
    cluster = WatchedCluster()
    await cluster.source.poll(NOW)
    serving = next(each for each in await cluster.alerts() if "deployment/web" in each.title)
    assert alert_impact(serving).effect == "warning"
    down = WatchedCluster()
    down.kubectl.by_kind["deployments"] = DOWN
    await down.source.poll(NOW)
    silent = next(each for each in await down.alerts() if "deployment/web" in each.title)
    assert alert_impact(silent).effect == "down"
    assert alert_impact(silent).why == "0 of 2 replicas of web are available"


async def test_a_node_that_is_not_ready_is_one_alert() -> None:
    cluster = WatchedCluster()
    cluster.kubectl.events = "".join(
        f'event\t2026-11-17T11:59:01Z\t2\tshop\tPod/{name}-0\tNodeNotReady\t"Node is not ready"\n'
        for name in ("web", "db", "cache")
    )
    cluster.kubectl.by_kind |= {"nodes": CORDONED_NODE.replace("True", "Unknown")}
    await cluster.source.poll(NOW)
    (alert,) = await cluster.alerts()
    assert alert.title == "NodeNotReady: node/node-1"
    assert "namespace" not in dict(alert.labels)
    inspection = ClusterInspection(SETTINGS)
    assert inspection.concerns(
        IncidentDetails(incident="i", run="i", title=alert.title, labels=dict(alert.labels))
    )


@pytest.mark.parametrize("why", ["not available", "cut off"])
async def test_silence_is_no_recovery_while_the_workload_is_broken_or_warnings_are_cut_off(
    why: str,
) -> None:
    cluster = WatchedCluster()
    await cluster.source.poll(NOW)
    later = NOW + timedelta(seconds=SETTINGS.quiet + 60)
    cluster.kubectl.events = ""
    if why == "not available":
        cluster.kubectl.by_kind["deployments"] = DOWN
    else:
        other = f'event\t{later:%Y-%m-%dT%H:%M:%SZ}\t1\tblog\tPod/other-0\tFailed\t"x"\n'
        cluster.kubectl.events = other * MAX_EVENT_LINES
    await cluster.source.poll(later)
    assert not [
        each.title
        for each in await cluster.alerts()
        if each.resolved and "deployment/web" in each.title
    ]
