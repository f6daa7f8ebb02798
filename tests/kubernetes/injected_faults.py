"""Ten faults of Kubernetes, each in a fresh namespace, and what a user of it would notice.

Only this file knows which fault is injected. The node agent sees specs, Hermes sees an alert with
the words of common alert rules. `variant` 0 was used while the playbooks were written; variant 1
names, kinds and values differ, and its first run is what is reported.
"""

import base64
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_cluster import ApiError
from shop_bench import Alert, Bench


@dataclass(frozen=True)
class InjectedFault:
    name: str
    alert: Alert
    works: Callable[[], bool]
    """Whether users are served again: looked at from outside."""
    explains: tuple[str, ...]
    """Words that an explanation must name."""


def crash_loop(bench: Bench) -> InjectedFault:
    bench.start_web()
    if bench.variant:
        bench.kubectl(
            "set", "image", f"deployment/{bench.workload}", "app=registry.example/api:3.2"
        )
    else:
        bench.apply(bench.deployment(bench.workload, args=("--wrokers=4",)))
    bench.wait_for_reason("CrashLoopBackOff")
    pods = json.loads(bench.kubectl("get", "pods", "-l", f"app={bench.workload}", "-o", "json"))[
        "items"
    ]
    pod = next(p for p in pods if "CrashLoopBackOff" in json.dumps(p))["metadata"]["name"]
    return InjectedFault(
        "CrashLoopBackOff",
        bench.alert("KubePodCrashLooping: a pod is restarting", pod=pod, container="app"),
        lambda: bench.serves(bench.workload),
        ("exit code", ("--wrokers=4", "api:3.2")[bench.variant]),
    )


def oom_killed(bench: Bench) -> InjectedFault:
    memory = ("48Mi", "150Mi")[bench.variant]
    image, port = (("registry.example/shop:1.0", 8080), ("registry.example/worker:7", 9000))[
        bench.variant
    ]
    bench.apply(
        bench.deployment(bench.workload, memory=memory, image=image, port=port),
        bench.service(bench.workload),
    )
    bench.wait_for_reason("OOMKilled")
    return InjectedFault(
        "OOMKilled",
        bench.alert("KubeDeploymentReplicasMismatch", deployment=bench.workload),
        lambda: bench.serves(bench.workload),
        ("memory", memory),
    )


def image_pull(bench: Bench) -> InjectedFault:
    image = ("registry.example/shop:2.O", "registry.exmple/shop:1.1")[bench.variant]
    bench.start_web()
    bench.kubectl("set", "image", f"deployment/{bench.workload}", f"app={image}")
    bench.wait_for_reason("ImagePullBackOff")
    return InjectedFault(
        "ImagePullBackOff",
        bench.alert(
            "KubeContainerWaiting: a container waits for longer than expected",
            deployment=bench.workload,
        ),
        lambda: bench.serves(bench.workload),
        (image,),
    )


def pending(bench: Bench) -> InjectedFault:
    bench.start_web()
    if bench.variant:
        patch = {"spec": {"template": {"spec": {"nodeSelector": {"disktype": "nvme"}}}}}
        bench.kubectl("patch", "deployment", bench.workload, "-p", json.dumps(patch))
    else:
        bench.kubectl("set", "resources", f"deployment/{bench.workload}", "--requests=cpu=64")
    bench.wait_for_reason("Unschedulable")
    return InjectedFault(
        "Pending",
        bench.alert("KubePodNotReady: a pod is pending", service=bench.workload),
        lambda: bench.serves(bench.workload),
        ("nodes are available", ("64", "nvme")[bench.variant]),
    )


def failing_rollout(bench: Bench) -> InjectedFault:
    bench.start_web()
    changed = bench.deployment(bench.workload, port=(8081, 80)[bench.variant])
    bench.apply(changed)
    bench.wait_for_condition("ProgressDeadlineExceeded")
    return InjectedFault(
        "failing rollout",
        bench.alert("KubeDeploymentRolloutStuck", deployment=bench.workload),
        lambda: bench.serves(bench.workload),
        ("readiness", ("8081", "80")[bench.variant]),
    )


def missing_key(bench: Bench) -> InjectedFault:
    kind, key = (("configMapKeyRef", "db-url"), ("configMapKeyRef", "DATABASE_URL"))[bench.variant]
    held = {"name": "settings", "key": key}
    data = {key: "postgres://db/shop", "region": "eu"}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": data,
    }
    bench.apply(config)
    bench.start_web(
        image="registry.example/api:3.2", env=({"name": "DB_URL", "valueFrom": {kind: held}},)
    )
    patch = [{"op": "remove", "path": f"/data/{key}"}]
    bench.kubectl("patch", "configmap", "settings", "--type=json", "-p", json.dumps(patch))
    bench.kubectl("delete", "pods", "-l", f"app={bench.workload}", "--wait=false")
    bench.wait_for_reason("CreateContainerConfigError")
    return InjectedFault(
        "missing ConfigMap key",
        bench.alert("KubeDeploymentReplicasMismatch", deployment=bench.workload),
        lambda: bench.serves(bench.workload),
        (key, "settings"),
    )


def quota(bench: Bench) -> InjectedFault:
    hard = ({"pods": "4"}, {"requests.memory": "160Mi"})[bench.variant]
    bench.start_web()
    spec = {"hard": hard}
    bench.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": spec}
    )
    bench.wait(
        lambda: bool(bench.read("resourcequota", "team").get("status", {}).get("used")), "used"
    )
    bench.kubectl("scale", f"deployment/{bench.workload}", "--replicas=6")
    bench.wait_for_condition("FailedCreate")
    return InjectedFault(
        "quota",
        bench.alert("KubeDeploymentReplicasMismatch", deployment=bench.workload),
        lambda: bench.serves(bench.workload),
        ("quota", next(iter(hard))),
    )


def wrong_selector(bench: Bench) -> InjectedFault:
    bench.start_web()
    wrong = ({"app": "wbe"}, {"app": bench.workload, "tier": "frontend"})[bench.variant]
    patch = [{"op": "replace", "path": "/spec/selector", "value": wrong}]
    bench.kubectl("patch", "service", bench.workload, "--type=json", "-p", json.dumps(patch))
    bench.wait(lambda: not bench.endpoints(bench.workload), "no endpoints")
    return InjectedFault(
        "wrong selector",
        bench.alert("ServiceHasNoEndpoints: requests are refused", service=bench.workload),
        lambda: bench.serves(bench.workload),
        ("selector", ("wbe", "frontend")[bench.variant]),
    )


def budget_deadlock(bench: Bench) -> InjectedFault:
    replicas = (2, 3)[bench.variant]
    bench.start_web(replicas=replicas)
    selector = {"matchLabels": {"app": bench.workload}}
    bench.apply(
        {
            "apiVersion": "policy/v1beta1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"{bench.workload}-budget"},
            "spec": {"minAvailable": replicas, "selector": selector},
        }
    )
    path = f"{bench.workload}-budget"
    bench.wait(
        lambda: bench.read("pdb", path).get("status", {}).get("currentHealthy") == replicas,
        "counted",
    )

    def evictable() -> bool:
        pods = json.loads(bench.kubectl("get", "pods", "-l", f"app={bench.workload}", "-o", "json"))
        name = pods["items"][0]["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1beta1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": bench.namespace},
            "deleteOptions": {"dryRun": ["All"]},
        }
        place = f"/api/v1/namespaces/{bench.namespace}/pods/{name}/eviction"
        try:
            bench.cluster.client.request("POST", place, body)
        except ApiError as error:
            if error.status == 429:
                return False
            raise
        return True

    assert not evictable()
    return InjectedFault(
        "PDB deadlock",
        bench.alert("NodeDrainBlocked: a node cannot be drained", poddisruptionbudget=path),
        lambda: evictable() and bench.serves(bench.workload),
        ("minAvailable", str(replicas)),
    )


def expired_certificate(bench: Bench) -> InjectedFault:
    host, folder = f"{bench.workload}.example", bench.cluster.folder
    bench.start_web()
    bench.apply(_tls_secret(folder, "web-tls", host, "20240101000000Z", "20250101000000Z"))
    bench.apply(_tls_secret(folder, "web-tls-renewed", host, "20260101000000Z", "20360101000000Z"))
    backend = {"service": {"name": bench.workload, "port": {"number": 80}}}
    rule = {
        "host": host,
        "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
    }
    bench.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "front"},
            "spec": {"rules": [rule], "tls": [{"hosts": [host], "secretName": "web-tls"}]},
        }
    )

    def valid() -> bool:
        named = bench.read("ingress", "front")["spec"]["tls"][0]["secretName"]
        text = base64.b64decode(bench.read("secret", named)["data"]["tls.crt"])
        checked = subprocess.run(
            ["openssl", "x509", "-noout", "-checkend", "0"],
            input=text,
            capture_output=True,
            check=False,
        )
        return checked.returncode == 0

    assert not valid()
    labels = ({"ingress": "front"}, {"instance": f"https://{host}"})[bench.variant]
    return InjectedFault(
        "expired certificate",
        bench.alert(f"CertificateExpired: TLS check of {host} fails", **labels),
        valid,
        ("expired", "web-tls"),
    )


def _tls_secret(folder: Path, name: str, host: str, begins: str, ends: str) -> dict[str, Any]:
    key, request, chain = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))

    def run(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    run(
        "req",
        "-new",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        key,
        "-out",
        request,
        "-subj",
        f"/CN={host}",
    )
    index = folder / f"{name}-ca"
    index.mkdir(exist_ok=True)
    (index / "index.txt").write_text("")
    (index / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=own\n[own]\ndatabase={index}/index.txt\nnew_certs_dir={index}\n"
        f"rand_serial=yes\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n"
    )
    run("ca", "-batch", "-selfsign", "-config", index / "ca.cnf", "-keyfile", key, "-in", request,
        "-out", chain, "-startdate", begins, "-enddate", ends, "-notext")  # fmt: skip
    encoded = {
        "tls.crt": base64.b64encode(chain.read_bytes()).decode(),
        "tls.key": base64.b64encode(key.read_bytes()).decode(),
    }
    meta = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": meta,
        "data": encoded,
    }


FAULTS: Mapping[str, Callable[[Bench], InjectedFault]] = {
    "crash-loop": crash_loop,
    "oom-killed": oom_killed,
    "image-pull": image_pull,
    "pending": pending,
    "failing-rollout": failing_rollout,
    "missing-key": missing_key,
    "quota": quota,
    "wrong-selector": wrong_selector,
    "budget-deadlock": budget_deadlock,
    "expired-certificate": expired_certificate,
}
