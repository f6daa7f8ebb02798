"""The toolset `kubernetes` and the events of the watch on a real API server."""

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from injected_faults import FAULTS
from real_cluster import CONTEXT, VIEWER_TOKEN, RealCluster
from shop_bench import Bench

from hermes.agent.dependencies import execute_for_run
from hermes.app.application import Application, open_application
from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.core.incident import IncidentDetails
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.run_ids import new_id
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.settings.load import LoadedSettings, load
from hermes.sre.cluster.checks import incident_commands
from hermes.sre.cluster.event_source import KubernetesEventSource
from hermes.sre.settings import KubernetesSettings

pytestmark = pytest.mark.anyio
SECRET_VALUE = "hunter2-not-for-anybody"


def settings(cluster: RealCluster, name: str, context: str = CONTEXT) -> LoadedSettings:
    home = cluster.folder / "user" / ".hermes" / name
    home.mkdir(parents=True)
    overrides = {
        "policy.set": "careful",
        "sre.kubernetes.kubeconfig": "~/.kube/config",
        "sre.kubernetes.context": context,
    }
    variables = {"PATH": os.environ["PATH"], "HOME": str(cluster.folder / "user")}
    return load(home=home, variables=variables, overrides=overrides)


async def approve(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="ann")


def printed(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


async def call(application: Application, tool: str, /, **arguments: object) -> ToolResult:
    dependencies = application.agent_dependencies
    execute = execute_for_run(dependencies, "tools", dependencies.executor)
    return await execute(ToolCall(new_id("call"), tool, arguments))


async def test_tools_read_and_scale_and_never_print_a_secret(
    cluster: RealCluster, tmp_path: Path
) -> None:
    bench = Bench(cluster, "tools")
    bench.prepare()
    bench.start_web()
    bench.kubectl("create", "secret", "generic", "db", f"--from-literal=password={SECRET_VALUE}")
    loaded = settings(cluster, "tools")
    own = {"namespace": "tools"}
    async with open_application(
        loaded, approver=approve, directory=tmp_path, toolsets=("default",)
    ) as application:
        pods = await call(application, "kubernetes_get", kind="pods", **own)
        assert "web-" in pods.content and pods.status == "ok"
        described = await call(application, "kubernetes_describe", kind="secret", name="db", **own)
        assert "password" in described.content
        listed = await call(application, "kubernetes_get", kind="secrets", output="yaml", **own)
        assert listed.status == "error"
        logs = await call(application, "kubernetes_logs", pod="deployment/web", **own)
        assert "started" in logs.content
        may = await call(application, "kubernetes_who_can", verb="delete", kind="pods", **own)
        assert "yes" in may.content
        scaled = await call(
            application, "kubernetes_scale", workload="deployment/web", replicas=3, **own
        )
        assert scaled.status == "ok", scaled.content
        assert "--replicas 2]" in scaled.content
        records = [each async for each in application.journal.read()]
    assert not [each for each in records if SECRET_VALUE in str(each.event)]
    assert bench.read("deployment", "web")["spec"]["replicas"] == 3


async def test_a_renamed_context_is_named_in_the_error(
    cluster: RealCluster, tmp_path: Path
) -> None:
    loaded = settings(cluster, "renamed", context="gone")
    async with open_application(
        loaded, approver=approve, directory=tmp_path, toolsets=("default",)
    ) as application:
        found = await call(application, "kubernetes_get", kind="pods")
    assert "context was not found for specified context: gone" in found.content


async def test_an_account_that_may_only_view_gets_everything_but_certificates(
    cluster: RealCluster,
) -> None:
    cluster.kubectl(
        *("create", "clusterrolebinding", "viewers", "--clusterrole=view", "--group=viewers")
    )
    path = cluster.write_kubeconfig("user/.kube/viewer", VIEWER_TOKEN)
    details = IncidentDetails(incident="i", run="i", title="t", labels={"namespace": "default"})
    commands = incident_commands(KubernetesSettings(kubeconfig=str(path)), details)
    refused = {name for name, command in commands.items() if "Forbidden" in printed(command)}
    assert refused == {"certificates", "nodes"}


async def test_a_storm_of_events_is_one_alert_for_each_workload(
    cluster: RealCluster, tmp_path: Path
) -> None:
    bench = Bench(cluster, "storm")
    bench.prepare()
    FAULTS["image-pull"](bench)
    bench.apply(bench.deployment("api", image="registry.example/api:3.2", replicas=4))
    bench.wait_for_reason("CrashLoopBackOff")
    journal = InMemoryJournal()
    watched = KubernetesSettings(
        kubeconfig=str(cluster.kubeconfig), context=CONTEXT, namespaces=("storm",), repeats=1
    )
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}) as environment:
        source = KubernetesEventSource(Bus(journal).publish, watched, environment)
        for _ in range(3):
            await source.poll(datetime.now(UTC))
    alerts = [each.event async for each in journal.read(kinds=["alert.raised"])]
    named = [
        dict(each.labels).get("deployment") for each in alerts if isinstance(each, AlertRaised)
    ]
    assert sorted(filter(None, named)) == ["api", "web"]
