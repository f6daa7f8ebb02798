"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler.

`scripts/kubernetes-build` builds the programs. Everything ends with the block.
"""

import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

ADMIN_TOKEN, VIEWER_TOKEN = "admintoken", "viewtoken"
CONTEXT = "bench"
START_TIMEOUT_S = 240.0
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters:
- {{name: bench, cluster: {{server: "https://127.0.0.1:{port}", insecure-skip-tls-verify: true}}}}
users:
- {{name: bench, user: {{token: {token}}}}}
contexts:
- {{name: {context}, context: {{cluster: bench, user: bench}}}}
current-context: {context}
"""


def build_folder() -> Path:
    return Path(os.environ["HERMES_KUBERNETES"])


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ApiError(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


@dataclass(frozen=True)
class ApiClient:
    """Sends JSON to the API server."""

    port: int
    token: str = ADMIN_TOKEN

    def request(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Any:
        """Raises `ApiError`."""
        context = ssl._create_unverified_context()
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise ApiError(answer.status, text)
        return json.loads(text) if text[:1] in "{[" else text

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def patch(self, path: str, body: object) -> Any:
        return self.request("PATCH", path, body, "application/merge-patch+json")


@dataclass(frozen=True)
class RealCluster:
    folder: Path
    port: int

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def client(self) -> ApiClient:
        return ApiClient(self.port)

    def write_kubeconfig(self, name: str, token: str, context: str = CONTEXT) -> Path:
        path = self.folder / name
        path.write_text(KUBECONFIG.format(port=self.port, token=token, context=context))
        path.chmod(0o600)
        return path

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Raises `subprocess.CalledProcessError`."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *words],
            input=stdin,
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise subprocess.CalledProcessError(
                done.returncode, words, done.stdout, f"{words}: {done.stderr}"
            )
        return done.stdout

    def apply(self, *objects: object) -> None:
        whole = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(whole))


@contextmanager
def _program(folder: Path, name: str, *words: str) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [name if name == "etcd" else str(build_folder() / "out" / name), *words],
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def run_cluster(folder: Path) -> Iterator[RealCluster]:
    """The cluster is ready: requests are answered, and controllers run."""
    clients, peers, port = free_port(), free_port(), free_port()
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True,
                   capture_output=True)  # fmt: skip
    (folder / "tokens.csv").write_text(
        f'{ADMIN_TOKEN},admin,1,"system:masters"\n{VIEWER_TOKEN},viewer,2,"viewers"\n'
    )
    cluster = RealCluster(folder, port)
    cluster.write_kubeconfig("kubeconfig", ADMIN_TOKEN)
    etcd = f"http://127.0.0.1:{clients}"
    key = str(folder / "sa.key")
    with ExitStack() as stack:
        stack.enter_context(
            _program(
                folder,
                "etcd",
                *("--data-dir", "etcd", "--unsafe-no-fsync"),
                *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
                *("--listen-peer-urls", f"http://127.0.0.1:{peers}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers}"),
                *("--initial-cluster", f"default=http://127.0.0.1:{peers}"),
            )
        )
        stack.enter_context(
            _program(
                folder,
                "kube-apiserver",
                *("--etcd-servers", etcd, "--cert-dir", "certs", "--secure-port", str(port)),
                *("--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"),
                *("--service-cluster-ip-range", "10.0.0.0/24"),
                *("--service-account-key-file", key, "--service-account-signing-key-file", key),
                *("--service-account-issuer", "https://kubernetes.default.svc"),
                *("--authorization-mode", "RBAC", "--token-auth-file", "tokens.csv"),
                *("--disable-admission-plugins", "ServiceAccount"),
            )
        )
        _wait_until_ready(cluster)
        config = ("--kubeconfig", str(cluster.kubeconfig), "--leader-elect=false")
        stack.enter_context(
            _program(
                folder,
                "kube-controller-manager",
                *config,
                *("--port=0", "--secure-port=0", "--service-account-private-key-file", key),
                *("--concurrent-deployment-syncs=2", "--resource-quota-sync-period=2s"),
            )
        )
        stack.enter_context(
            _program(folder, "kube-scheduler", *config, "--port=0", "--secure-port=0")
        )
        yield cluster


def _wait_until_ready(cluster: RealCluster) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            if cluster.client.get("/readyz") == "ok":
                return
        except (OSError, ApiError):
            pass
        if time.monotonic() > deadline:
            log = (cluster.folder / "kube-apiserver.log").read_text()[-2000:]
            raise AssertionError(f"kube-apiserver did not start: {log}")
        time.sleep(0.2)
