"""A small kubelet for tests: a node, and the status of its pods derived from their specs alone.

It knows images, as a registry and the programs in them would: how much memory a program needs,
which options and variables it takes, which port answers. It reads what a pod names (keys of config
maps and secrets). It never learns which fault a test has injected.
"""

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from known_images import Failure, is_ready, start_container
from real_cluster import ApiClient, ApiError

NODE = "node-1"
ROUND_S = 0.3
BACK_OFF_S = 1.5


@dataclass
class ContainerLife:
    """What the agent remembers about one container, as a real kubelet does."""

    running: bool = False
    restarts: int = 0
    tried_at: float = 0.0
    last: Failure | None = None
    log: list[str] = field(default_factory=list)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class NodeAgent:
    def __init__(self, client: ApiClient, folder: Path) -> None:
        self._client, self._folder = client, folder
        self._lives: dict[str, dict[str, ContainerLife]] = {}
        self._addresses: dict[str, str] = {}
        self._reported: dict[tuple[str, str], int] = {}
        self._stopped = threading.Event()
        self._server = self._open_log_server()

    @contextmanager
    def run(self) -> Iterator["NodeAgent"]:
        self._register()
        threads = [
            threading.Thread(target=self._keep, daemon=True),
            threading.Thread(target=self._server.serve_forever, daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            self._server.shutdown()
            for thread in threads:
                thread.join(10)
            self._server.server_close()

    def _register(self) -> None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        try:
            self._client.request("POST", "/api/v1/nodes", body)
        except ApiError as error:
            if error.status != 409:
                raise
        self._report_node()

    def _report_node(self) -> None:
        size = {"cpu": "32", "memory": "32Gi", "pods": "500"}  # for all tests together
        self._client.patch(
            f"/api/v1/nodes/{NODE}/status",
            {
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.server_port}},
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "KubeletReady",
                            "lastHeartbeatTime": now(),
                            "lastTransitionTime": now(),
                        }
                    ],
                }
            },
        )

    def _keep(self) -> None:
        reported = time.monotonic()
        while not self._stopped.wait(ROUND_S):
            try:
                if time.monotonic() - reported > 5:
                    self._report_node()
                    reported = time.monotonic()
                pods = self._client.get(f"/api/v1/pods?fieldSelector=spec.nodeName={NODE}")
                for pod in pods["items"]:
                    self._sync(pod)
            except (ApiError, OSError):
                continue  # the next round asks again

    def _sync(self, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if meta.get("deletionTimestamp"):
            self._lives.pop(meta["uid"], None)
            self._client.request("DELETE", path, {"gracePeriodSeconds": 0})
            return
        status = self._status_of(pod)
        if _without_times(status) != _without_times(pod.get("status", {})):
            self._client.patch(f"{path}/status", {"status": status})

    def _status_of(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        meta, spec = pod["metadata"], pod["spec"]
        lives = self._lives.setdefault(meta["uid"], {})
        found = [
            self._container_status(pod, each, lives.setdefault(each["name"], ContainerLife()))
            for each in spec["containers"]
        ]
        ready = all(each["ready"] for each in found)
        address = self._addresses.setdefault(
            meta["uid"], f"10.9.{len(self._addresses) // 250}.{len(self._addresses) % 250 + 1}"
        )
        conditions = {
            "Initialized": True,
            "PodScheduled": True,
            "ContainersReady": ready,
            "Ready": ready,
        }
        waiting = any("waiting" in each["state"] and not each["restartCount"] for each in found)
        return {
            "phase": "Pending" if waiting else "Running",
            "startTime": pod.get("status", {}).get("startTime") or now(),
            "podIP": address,
            "podIPs": [{"ip": address}],
            "hostIP": "127.0.0.1",
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if holds else "False",
                    "lastTransitionTime": now(),
                    **({} if holds else {"reason": "ContainersNotReady"}),
                }
                for kind, holds in conditions.items()
            ],
            "containerStatuses": found,
        }

    def _container_status(
        self, pod: Mapping[str, Any], spec: Mapping[str, Any], life: ContainerLife
    ) -> dict[str, Any]:
        namespace = pod["metadata"]["namespace"]
        if not life.running and time.monotonic() - life.tried_at >= BACK_OFF_S:
            if life.tried_at and life.last is not None and life.last.code is not None:
                life.restarts += 1
            life.tried_at = time.monotonic()
            try:
                start_container(spec, lambda kind, name: self._read(namespace, kind, name))
                life.running, life.log = True, [*life.log, "started"]
            except Failure as failure:
                life.last, life.log = failure, [*life.log, failure.message][-50:]
                self._warn(pod, failure)
        if life.running and not is_ready(spec):
            self._warn(pod, Failure("Unhealthy", "Readiness probe failed: connection refused"))
        ended = _ended(life.last) if life.last and life.last.code is not None else {}
        if life.running:
            state: dict[str, Any] = {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}
        else:
            assert life.last is not None
            state = {"waiting": _waiting(life, spec)}
        return {
            "name": spec["name"],
            "image": spec["image"],
            "imageID": "",
            "containerID": f"test://{pod['metadata']['uid']}-{life.restarts}"
            if life.running or ended
            else "",
            "ready": life.running and is_ready(spec),
            "started": life.running,
            "restartCount": life.restarts,
            "state": state,
            "lastState": ended,
        }

    def _read(self, namespace: str, kind: str, name: str) -> Mapping[str, str] | None:
        try:
            held = self._client.get(f"/api/v1/namespaces/{namespace}/{kind}s/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return {**held.get("data", {}), "/": namespace}

    def _warn(self, pod: Mapping[str, Any], failure: Failure) -> None:
        """One event per pod and reason, whose count rises."""
        meta = pod["metadata"]
        reason = (
            "BackOff"
            if failure.code is not None
            else "Unhealthy"
            if failure.reason == "Unhealthy"
            else "Failed"
        )
        name = f"{meta['name']}.{failure.reason.lower()}"
        count = self._reported[meta["uid"], reason] = (
            self._reported.get((meta["uid"], reason), 0) + 1
        )
        path = f"/api/v1/namespaces/{meta['namespace']}/events"
        event = {
            "metadata": {"name": name, "namespace": meta["namespace"]},
            "involvedObject": {
                "kind": "Pod",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "reason": reason,
            "message": failure.message
            or f"Back-off restarting failed container ({failure.reason})",
            "type": "Warning",
            "count": count,
            "lastTimestamp": now(),
            "source": {"component": "kubelet"},
        }
        try:
            if count == 1:
                self._client.request("POST", path, {"apiVersion": "v1", "kind": "Event", **event})
            elif count % 4 == 0:
                self._client.patch(f"{path}/{name}", {"count": count, "lastTimestamp": now()})
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _open_log_server(self) -> ThreadingHTTPServer:
        agent = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """`/containerLogs/NAMESPACE/POD/CONTAINER`."""
                text = agent.log_of(*self.path.partition("?")[0].split("/")[2:5])
                self.send_response(200)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: Any) -> None:
                return None

        certificate = self._folder / "kubelet.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=node-1",
             "-keyout", certificate, "-out", self._folder / "kubelet.crt"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "kubelet.crt", certificate)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        return server

    def log_of(self, namespace: str, pod: str, container: str) -> str:
        try:
            uid = self._client.get(f"/api/v1/namespaces/{namespace}/pods/{pod}")["metadata"]["uid"]
        except ApiError:
            return ""
        life = self._lives.get(uid, {}).get(container)
        return "".join(f"{line}\n" for line in life.log) if life else ""


def _ended(failure: Failure) -> dict[str, Any]:
    return {
        "terminated": {
            "reason": failure.reason,
            "exitCode": failure.code,
            "message": failure.message,
        }
    }


def _waiting(life: ContainerLife, spec: Mapping[str, Any]) -> dict[str, str]:
    assert life.last is not None
    if life.last.code is not None:
        return {
            "reason": "CrashLoopBackOff",
            "message": f"back-off restarting failed container={spec['name']}",
        }
    if life.last.reason == "ErrImagePull":
        return {
            "reason": "ImagePullBackOff",
            "message": f'Back-off pulling image "{spec["image"]}"',
        }
    return {"reason": life.last.reason, "message": life.last.message}


def _without_times(status: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("phase", "podIP", "containerStatuses")
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return {**{key: status.get(key) for key in kept}, "conditions": conditions}
