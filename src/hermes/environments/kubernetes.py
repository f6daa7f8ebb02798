"""Opens an environment in a Kubernetes pod: an existing one, or one that it starts."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

import anyio
import msgspec

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.environments.open import EnvironmentOpening, granted_variables
from hermes.environments.remote.client import ClientOutput, ClientProgram, require_program
from hermes.environments.remote.environment import RemoteEnvironment
from hermes.environments.remote.process_scripts import KEEP_ALIVE_SCRIPT
from hermes.environments.settings import TerminalSettings

CONTAINER_NAME = "shell"
"""The only container of a pod that Hermes starts."""
POD_LABELS = {"app.kubernetes.io/name": "hermes-shell", "app.kubernetes.io/managed-by": "hermes"}
_WORKSPACE_FOLDER = "/workspace"
_POD_UID = 1000
_MAX_LIFETIME_S = 24 * 3600
"""Seconds after which the cluster ends the pod in any case."""
_IDLE_CHECK_INTERVAL_S = 60
"""Seconds between checks whether the pod is still in use."""


def build_manifest(name: str, settings: TerminalSettings) -> bytes:
    """The number of processes is limited by the cluster (`podPidsLimit`), not by the pod."""
    if not settings.docker_network:
        raise SettingsError(
            "terminal.docker_network is off, but a pod cannot close its own network: set it to "
            "true and let a NetworkPolicy of the cluster do it (pods carry the label "
            "app.kubernetes.io/managed-by=hermes)"
        )
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": POD_LABELS},
            "spec": _pod_spec(settings),
        }
    )


def _pod_spec(settings: TerminalSettings) -> dict[str, Any]:
    size = {"sizeLimit": f"{settings.file_mb}Mi"}
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _MAX_LIFETIME_S,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _POD_UID,
            "runAsGroup": _POD_UID,
            "fsGroup": _POD_UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container_spec(settings)],
        "volumes": [{"name": "work", "emptyDir": size}, {"name": "tmp", "emptyDir": size}],
    }


def _container_spec(settings: TerminalSettings) -> dict[str, Any]:
    folder = settings.cwd if PurePosixPath(settings.cwd).is_absolute() else _WORKSPACE_FOLDER
    limits = {}
    if settings.memory_mb:  # 0 means no limit
        limits["memory"] = f"{settings.memory_mb}Mi"
    if settings.cpus:
        limits["cpu"] = f"{settings.cpus:g}"
    return {
        "name": CONTAINER_NAME,
        "image": settings.kubernetes_image,
        "command": ["bash", "-c", KEEP_ALIVE_SCRIPT, "hermes-keep", str(_IDLE_CHECK_INTERVAL_S)],
        "workingDir": folder,
        "env": [{"name": "HOME", "value": folder}],
        "resources": {"limits": limits, "requests": {"memory": "64Mi", "cpu": "50m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
        },
        "volumeMounts": [
            {"name": "work", "mountPath": folder},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


_START_TIMEOUT_S = 300.0
"""Includes pulling the image."""
_CALL_TIMEOUT_S = 30.0
_WAITING_REASONS_JSONPATH = (
    "{.status.conditions[*].message} {.status.containerStatuses[*].state.waiting.message}"
)


async def scope_options(client: ClientProgram, settings: TerminalSettings) -> list[str]:
    """Passed with every call, because the user may switch the current context meanwhile."""
    context = settings.kubernetes_context
    if not context:
        what = (
            "kubectl knows no cluster: set terminal.kubernetes_context, or a current context "
            "(KUBECONFIG is only passed on when it is among terminal.pass_variables)"
        )
        context = (
            await client.run_checked(what, ["config", "current-context"], timeout=_CALL_TIMEOUT_S)
        ).strip()
    return ["--context", context, "--namespace", settings.kubernetes_namespace]


class KubernetesPod:
    """Implements `RemoteClient`. Without a `name`, a pod is started when it is first needed; if
    it ends, the command fails with that error and the next one starts a new pod."""

    def __init__(
        self,
        client: ClientProgram,
        settings: TerminalSettings,
        *,
        name: str = "",
        container: str = "",
    ) -> None:
        self.variables = client.variables
        self._client, self._settings = client, settings
        self._name, self._is_foreign = name, bool(name)
        self._container = container or settings.kubernetes_container if name else CONTAINER_NAME
        self._scope: list[str] = []
        self._starting = anyio.Lock()

    @property
    def place(self) -> str:
        return f"pod {self._name}"

    async def connect(self) -> None:
        async with self._starting:
            if not self._scope:
                self._scope = await scope_options(self._client, self._settings)
            if not self._name:
                self._name = await self._start()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        how = ["--stdin", "--tty"] if terminal else ["--stdin"]
        where = ["--container", self._container] if self._container else []
        return [self._client.program, *self._scope, "exec", *how, self._name, *where, "--", *argv]

    async def find_failure(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None:
        """kubectl reports a lost connection as success; the exit code is that of the command only
        with this message."""
        result = await self._call("get", f"pod/{self._name}", "--output=jsonpath={.status.phase}")
        if result.code == 0 and result.output == b"Running":
            if f"command terminated with exit code {code}" in complaint:
                return (
                    None if begun else EnvironmentFailed(f"{self.place} has no bash: {complaint}")
                )
            if begun:
                return EnvironmentFailed(
                    f"the connection to {self.place} was lost while the command ran: how it ended "
                    f"is not known, and it may still be running there. {complaint}".rstrip()
                )
            return (
                EnvironmentFailed(f"{self.place} takes no commands: {complaint}")
                if complaint
                else None
            )
        if result.code != 0 and "NotFound" not in result.complaint:
            return EnvironmentFailed(f"the cluster does not answer: {result.complaint}")
        died = self.place
        if self._is_foreign:
            return EnvironmentFailed(
                f"{died} is not running. {complaint or result.complaint}".rstrip()
            )
        self._name = ""
        return EnvironmentFailed(
            f"{died} ended under us, perhaps out of memory (terminal.memory_mb). The next command "
            "gets a new one: files and shell state that were in it are gone"
        )

    def reopen(self, place: str) -> "KubernetesPod | None":
        kind, _, name = place.partition(" ")
        if kind != "pod" or not name.startswith("hermes-"):
            return None
        return KubernetesPod(self._client, self._settings, name=name, container=CONTAINER_NAME)

    async def close(self, *, spare: bool) -> None:
        """A pod that Hermes started ends itself when the last process in it has ended."""
        if self._name and not spare and not self._is_foreign:
            name, self._name = self._name, ""
            await self._delete(name)

    async def _start(self) -> str:
        await self._sweep()
        name = f"hermes-{secrets.token_hex(6)}"
        what, wanted = f"cannot start pod {name}", build_manifest(name, self._settings)
        try:
            await self._client.run_checked(
                what, [*self._scope, "create", "--filename", "-"], wanted, timeout=_CALL_TIMEOUT_S
            )
            await self._until_ready(f"pod/{name}")
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(EnvironmentFailed):
                await self._delete(name)
            raise
        return name

    async def _until_ready(self, pod: str) -> None:
        wait = ["wait", pod, "--for=condition=Ready", f"--timeout={_START_TIMEOUT_S:.0f}s"]
        result = await self._client.run(
            [*self._scope, *wait], timeout=_START_TIMEOUT_S + _CALL_TIMEOUT_S
        )
        if result.code != 0:
            why = await self._call("get", pod, f"--output=jsonpath={_WAITING_REASONS_JSONPATH}")
            reasons = why.output.decode("utf-8", "replace").strip()
            raise EnvironmentFailed(
                f"{pod} did not come up: {result.complaint}\n{reasons}".rstrip()
            )

    async def _sweep(self) -> None:
        """Deletes pods of Hermes that have ended."""
        ours = ",".join(f"{name}={value}" for name, value in POD_LABELS.items())
        ended = ["--selector", ours, "--field-selector=status.phase=Succeeded"]
        await self._call("delete", "pods", *ended, "--wait=false")

    async def _delete(self, name: str) -> None:
        flags = ["--now", "--wait=false", "--ignore-not-found"]
        await self._call("delete", f"pod/{name}", *flags)

    async def _call(self, *words: str) -> ClientOutput:
        return await self._client.run([*self._scope, *words], timeout=_CALL_TIMEOUT_S)


_CHECK_TIMEOUT_S = 30.0


def open_kubernetes(opening: EnvironmentOpening) -> RemoteEnvironment:
    """`terminal.cwd` is a folder in the pod; "." is the default of the container. An existing
    pod does not count as isolated. Raises `EnvironmentFailed` without kubectl."""
    settings = opening.settings
    where = f"{settings.kubernetes_context or 'current context'}/{settings.kubernetes_namespace}"
    return RemoteEnvironment(
        "kubernetes",
        f"{where}/{settings.kubernetes_pod or settings.kubernetes_image}",
        KubernetesPod(_kubectl_client(opening), settings, name=settings.kubernetes_pod),
        settings=settings,
        isolated=not settings.kubernetes_pod,
        start="" if settings.cwd == "." else settings.cwd,
        variables=granted_variables(opening),
    )


async def why_not(opening: EnvironmentOpening) -> str | None:
    """Return what is missing for a pod, or None. Nothing is started."""
    try:
        client = _kubectl_client(opening)
        where = await scope_options(client, opening.settings)
        for words in _needed_permissions(bool(opening.settings.kubernetes_pod)):
            asked = await client.run(
                [*where, "auth", "can-i", *words, "--quiet"], timeout=_CHECK_TIMEOUT_S
            )
            if asked.code != 0:
                return asked.complaint or (
                    f"this account may not {' '.join(words)}: ask for a role that may"
                )
    except EnvironmentFailed as error:
        return str(error)
    return None


def _needed_permissions(there: bool) -> list[list[str]]:
    enter = ["create", "pods", "--subresource=exec"]
    return [enter] if there else [["create", "pods"], enter]


def _kubectl_client(opening: EnvironmentOpening) -> ClientProgram:
    advice = "kubectl is not on the PATH: see kubernetes.io/docs/tasks/tools"
    program = require_program(["kubectl"], opening.variables, advice=advice)
    return ClientProgram(program, dict(opening.variables))
