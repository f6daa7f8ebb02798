"""A namespace with a shop, and a neighbour that must stay untouched."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from real_cluster import RealCluster

SETTLE_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class Alert:
    title: str
    labels: Mapping[str, str]


@dataclass
class Bench:
    """A namespace with a shop: `web` with a service, and a neighbour that must stay untouched."""

    cluster: RealCluster
    namespace: str
    variant: int = 0
    workload: str = field(init=False)

    def __post_init__(self) -> None:
        self.workload = ("web", "checkout")[self.variant]

    def prepare(self) -> None:
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.apply(
            self.deployment("neighbour", image="registry.example/cache:2", port=6379),
            self.service("neighbour"),
        )
        self.wait(lambda: self.available("neighbour"), "the neighbour is available")

    def apply(self, *objects: dict[str, Any]) -> None:
        for each in objects:
            each["metadata"].setdefault("namespace", self.namespace)
        self.cluster.apply(*objects)

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *words, stdin=stdin)

    def read(self, kind: str, name: str) -> Any:
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))

    def deployment(
        self,
        name: str,
        *,
        image: str = "registry.example/shop:1.0",
        port: int = 8080,
        replicas: int = 2,
        memory: str = "128Mi",
        args: tuple[str, ...] = ("--workers=2",),
        env: tuple[Any, ...] = (),
        kind: str = "Deployment",
    ) -> dict[str, Any]:
        container = {
            "name": "app",
            "image": image,
            "args": list(args),
            "env": list(env),
            "resources": {
                "limits": {"memory": memory},
                "requests": {"memory": "32Mi", "cpu": "50m"},
            },
            "readinessProbe": {"httpGet": {"port": port, "path": "/"}},
        }
        labels = {"app": name, "tier": "front"}
        more = {"progressDeadlineSeconds": 8} if kind == "Deployment" else {"serviceName": name}
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                **more,
            },
        }

    def service(self, name: str, **selector: str) -> dict[str, Any]:
        spec = {"selector": selector or {"app": name}, "ports": [{"port": 80}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    def start_web(self, **more: Any) -> None:
        self.apply(self.deployment(self.workload, **more), self.service(self.workload))
        self.wait(lambda: self.available(self.workload), f"{self.workload} is available")

    def available(self, name: str) -> bool:
        found = self.read("deployment", name)
        wanted, status = found["spec"]["replicas"], found["status"]
        ready = status.get("readyReplicas", 0)
        return ready == wanted == status.get("updatedReplicas", 0) == status.get("replicas", 0)

    def endpoints(self, name: str) -> int:
        return sum(
            len(s.get("addresses", ())) for s in self.read("endpoints", name).get("subsets", ())
        )

    def serves(self, name: str) -> bool:
        return self.available(name) and self.endpoints(name) > 0

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.namespace}: not in time: {what}")
            time.sleep(0.3)

    def wait_for_reason(self, *reasons: str) -> None:
        def seen() -> bool:
            pods = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
            return any(reason in json.dumps(pods) for reason in reasons)

        self.wait(seen, f"one of {reasons}")

    def wait_for_condition(self, reason: str) -> None:
        self.wait(
            lambda: reason in json.dumps(self.read("deployment", self.workload)["status"]), reason
        )

    def alert(self, title: str, **labels: str) -> Alert:
        return Alert(title, {"namespace": self.namespace, **labels})
