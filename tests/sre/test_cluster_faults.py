"""Faults of a cluster are read from what kubectl prints. The outputs were recorded, see there."""

from datetime import UTC, datetime

import pytest
from cluster_outputs import (
    BUDGET,
    COMPLETE_ROLLOUT,
    PODS_OF_A_BAD_IMAGE,
    REVISIONS,
    SERVICE_AND_ENDPOINTS,
    STUCK_ROLLOUT,
)

from hermes.core.incident import IncidentDetails
from hermes.policy.command_analysis import analyse_command
from hermes.sre.cluster.faults import (
    ClusterFault,
    concerns_incident,
    find_faults,
    healthy_parts,
    raise_memory,
)
from hermes.sre.cluster.queries import query_commands
from hermes.sre.cluster.state import parse_cluster
from hermes.sre.settings import KubernetesSettings

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
SETTINGS = KubernetesSettings(kubeconfig="~/.kube/config", context="prod")


def faults(**outputs: str) -> list[ClusterFault]:
    return find_faults(parse_cluster(outputs), NOW)


def details(**labels: str) -> IncidentDetails:
    return IncidentDetails(incident="i", run="i", title="an alert", labels=labels)


def test_a_rollout_that_never_was_available_goes_back_to_the_revision_that_serves() -> None:
    (fault,) = faults(pods=PODS_OF_A_BAD_IMAGE, workloads=STUCK_ROLLOUT, revisions=REVISIONS)
    assert fault.kind == "failed-rollout"
    assert fault.subject == "deployment/web"
    assert fault.parameters["revision"] == "1"
    assert "image registry.example/shop:1.0 -> registry.example/shop:9.9" in fault.mechanism
    assert set(fault.evidence) == {"pods", "workloads", "revisions"}


def test_without_an_earlier_revision_nothing_is_rolled_back() -> None:
    (fault,) = faults(pods=PODS_OF_A_BAD_IMAGE, workloads=STUCK_ROLLOUT)
    assert fault.kind == "image"
    assert fault.value == "registry.example/shop:9.9"


def test_a_revision_that_was_available_before_is_not_to_blame() -> None:
    pods = PODS_OF_A_BAD_IMAGE.replace("\tPending\t", "\tRunning\t")
    completed = COMPLETE_ROLLOUT.replace("\t2\t2\t2\t2\t1\t", "\t2\t1\t2\t1\t2\t")
    (fault,) = faults(pods=pods, workloads=completed, revisions=REVISIONS)
    assert fault.kind == "image"


def test_a_healthy_namespace_has_no_fault() -> None:
    assert faults(workloads=COMPLETE_ROLLOUT, services=SERVICE_AND_ENDPOINTS) == []


def test_a_pod_without_a_condition_waits_for_a_node_by_the_words_of_the_scheduler() -> None:
    pods = "pod\tshop\tweb-84f5df4d7f-q59ls\tPending\tReplicaSet/web-84f5df4d7f\t-\n"
    said = "0/1 nodes are available: 1 Insufficient cpu."
    events = (
        "event\t2026-11-17T11:59:01Z\t1\tshop\tPod/web-84f5df4d7f-q59ls\tFailedScheduling\t"
        f'"{said}"\n'
    )
    down = COMPLETE_ROLLOUT.replace("\t2\t2\t2\t2\t1\t", "\t2\t0\t2\t0\t1\t")
    (fault,) = faults(pods=pods, workloads=down, events=events)
    assert fault.kind == "unschedulable" and said in fault.mechanism
    assert "events" in fault.evidence


def test_only_what_a_query_shows_is_excluded() -> None:
    healthy = healthy_parts(parse_cluster({"services": SERVICE_AND_ENDPOINTS}))
    assert healthy["services"] == "every service has an endpoint"
    silent = SERVICE_AND_ENDPOINTS.replace("++-", "-")
    assert not {"services", "budgets"} & set(
        healthy_parts(parse_cluster({"services": silent, "budgets": BUDGET}))
    )


def test_a_container_killed_for_memory_gets_twice_its_limit() -> None:
    container = (
        'container\tapp\tx:1\tfalse\t3\twaiting\tCrashLoopBackOff\t-\t""\tOOMKilled\t137\t""\n'
    )
    pods = f"pod\tshop\tweb-5557fff87d-a\tRunning\tReplicaSet/web-5557fff87d\t-\n{container}"
    (fault,) = faults(pods=pods, workloads=COMPLETE_ROLLOUT)
    assert (fault.kind, fault.value) == ("memory-limit", "128Mi")
    assert fault.parameters["raised"] == "256Mi"
    assert fault.mechanism.endswith(
        "was killed for memory at its limit of 128Mi; restarts so far: 3"
    )


@pytest.mark.parametrize(("limit", "raised"), [("128Mi", "256Mi"), ("1G", "2G"), ("1.5Gi", "")])
def test_only_plain_amounts_are_raised(limit: str, raised: str) -> None:
    assert raise_memory(limit) == raised


def test_a_missing_key_names_its_holder() -> None:
    message = "couldn't find key db-url in ConfigMap shop/settings"
    waiting = f'container\tapp\tx:1\tfalse\t0\twaiting\tCreateContainerConfigError\t-\t"{message}"'
    pods = (
        f'pod\tshop\tweb-5557fff87d-a\tPending\tReplicaSet/web-5557fff87d\t-\n{waiting}\t-\t-\t""\n'
    )
    completed = COMPLETE_ROLLOUT.replace("\t2\t2\t2\t2\t1\t", "\t2\t0\t2\t0\t1\t")
    (fault,) = faults(pods=pods, workloads=completed)
    assert (fault.kind, fault.value) == ("missing-key", "db-url in configmap/settings")
    assert '"/data/db-url"' in fault.parameters["back"]


def test_a_selector_that_matches_nothing_is_set_to_the_labels_of_the_workload() -> None:
    services = "service\tshop\tweb\tClusterIP\tmap[app:wbe]\nendpoints\tshop\tweb\t\n"
    (fault,) = faults(workloads=COMPLETE_ROLLOUT, services=services)
    assert fault.kind == "wrong-selector"
    assert '{"app": "web"}' in fault.parameters["patch"]
    assert '{"app": "wbe"}' in fault.parameters["back"]


def test_a_service_of_an_unknown_workload_is_only_explained() -> None:
    services = "service\tshop\tother\tClusterIP\tmap[app:gone]\nendpoints\tshop\tother\t\n"
    (fault,) = faults(workloads=COMPLETE_ROLLOUT, services=services)
    assert fault.kind == "wrong-selector"
    assert "patch" not in fault.parameters


def test_a_budget_that_allows_no_eviction_needs_one_replica_more() -> None:
    (fault,) = faults(workloads=COMPLETE_ROLLOUT, budgets=BUDGET)
    assert fault.kind == "disruption-budget"
    assert (fault.parameters["was"], fault.parameters["replicas"]) == ("2", "3")


def test_a_budget_that_waits_for_an_unhealthy_pod_is_no_fault() -> None:
    assert (
        faults(workloads=COMPLETE_ROLLOUT, budgets=BUDGET.replace("\t0\t2\t2\t2", "\t0\t1\t2\t2"))
        == []
    )


def test_an_expired_certificate_points_at_the_renewed_one() -> None:
    certificates = (
        "certificate\tshop\told\tnotAfter=Jan  1 00:00:00 2025 GMT\tsubject=CN=shop.example\t\n"
        "certificate\tshop\tnew\tnotAfter=Jan  1 00:00:00 2036 GMT\tsubject=CN=shop.example\t\n"
        "certificate\tshop\tanother\tnotAfter=Jan  1 00:00:00 2037 GMT\tsubject=CN=x.example\t\n"
    )
    (fault,) = faults(
        ingresses="ingress\tshop\tfront\told\tshop.example \n", certificates=certificates
    )
    assert fault.parameters["renewed"] == "new"
    assert fault.value == "notAfter 2025-01-01T00:00:00Z"


def test_an_alert_names_its_workload_by_label_pod_or_text() -> None:
    fault = ClusterFault(kind="x", namespace="shop", subject="deployment/web", mechanism="m")
    assert concerns_incident(fault, details(namespace="shop", deployment="web"))
    assert concerns_incident(fault, details(namespace="shop", pod="web-84f5df4d7f-q59ls"))
    assert concerns_incident(fault, details(namespace="shop"))
    assert not concerns_incident(fault, details(namespace="shop", deployment="other"))
    assert not concerns_incident(fault, details(namespace="elsewhere", deployment="web"))


@pytest.mark.parametrize("namespaces", [(), ("shop", "kube-system")])
def test_every_query_only_reads(namespaces: tuple[str, ...]) -> None:
    for name, command in query_commands(SETTINGS, namespaces).items():
        found = analyse_command(command, cwd="/")
        assert found.is_read_only and not found.problems, name
        assert "--context prod" in command


def test_a_namespace_out_of_an_alert_is_never_an_option_or_a_command() -> None:
    commands = query_commands(SETTINGS, ("--as=root", "x; reboot", "$(id)"))
    assert all("reboot" not in each and "--as" not in each for each in commands.values())


@pytest.mark.parametrize(
    ("command", "reads_secret"),
    [
        ("kubectl get secret db -o yaml", True),
        ("kubectl get secrets -o go-template='{{range .items}}{{.data}}{{end}}'", True),
        ("""kubectl get secrets -o go-template='{{index .data "tls.key"}}'""", True),
        ("kubectl apply view-last-applied secret/db -o yaml", True),
        ("kubectl apply view-last-applied -f objects.yaml", True),
        ("kubectl apply view-last-applied configmap/db -o yaml", False),
        (
            """kubectl get secrets -o go-template='{{index .data "tls.crt"}}'""",
            False,
        ),
        ("kubectl describe secret db", False),
    ],
)
def test_values_of_secrets_stay_secret_and_certificates_are_public(
    command: str, reads_secret: bool
) -> None:
    assert ("secret-read" in analyse_command(command).effects) is reads_secret
