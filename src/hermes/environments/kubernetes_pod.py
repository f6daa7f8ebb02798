"""One pod, by kubectl: ours or somebody's, entered, asked how it is, and left."""

import secrets
from collections.abc import Sequence
from contextlib import suppress

import anyio

from hermes.core.errors import PlaceFailed
from hermes.environments.errands.client import Client, Said
from hermes.environments.kubernetes_manifest import CONTAINER, LABELS, manifest
from hermes.environments.settings import TerminalSettings

_START = 300.0
"""Seconds for a pod to come up; its image may have to be fetched first."""
_CALL = 30.0
_REASONS = "{.status.conditions[*].message} {.status.containerStatuses[*].state.waiting.message}"


async def scope(client: Client, settings: TerminalSettings) -> list[str]:
    """Said with every call: somebody may switch the current context under us."""
    context = settings.kubernetes_context
    if not context:
        what = (
            "kubectl knows no cluster: set terminal.kubernetes_context, or a current context "
            "(KUBECONFIG is only passed on when it is among terminal.pass_variables)"
        )
        context = (await client.expect(what, ["config", "current-context"], timeout=_CALL)).strip()
    return ["--context", context, "--namespace", settings.kubernetes_namespace]


class Pod:
    """Fulfils `remote.client.Client`. Without a `name`, a pod is started when one is needed; one
    that died is replaced, after that has been told."""

    def __init__(
        self, client: Client, settings: TerminalSettings, *, name: str = "", container: str = ""
    ) -> None:
        self.variables = client.variables
        self._client, self._settings = client, settings
        self._name, self._theirs = name, bool(name)
        self._container = container or settings.kubernetes_container if name else CONTAINER
        self._scope: list[str] = []
        self._starting = anyio.Lock()

    @property
    def place(self) -> str:
        return f"pod {self._name}"

    async def reach(self) -> None:
        async with self._starting:
            if not self._scope:
                self._scope = await scope(self._client, self._settings)
            if not self._name:
                self._name = await self._start()

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        how = ["--stdin", "--tty"] if terminal else ["--stdin"]
        where = ["--container", self._container] if self._container else []
        return [self._client.program, *self._scope, "exec", *how, self._name, *where, "--", *argv]

    async def broken(self, code: int, complaint: str, *, begun: bool) -> PlaceFailed | None:
        """kubectl calls a lost connection a success; only with these words it tells the exit code
        of what it ran."""
        said = await self._call("get", f"pod/{self._name}", "--output=jsonpath={.status.phase}")
        if said.code == 0 and said.output == b"Running":
            if f"command terminated with exit code {code}" in complaint:
                return None if begun else PlaceFailed(f"{self.place} has no bash: {complaint}")
            if begun:
                return PlaceFailed(
                    f"the connection to {self.place} was lost while the command ran: how it ended "
                    f"is not known, and it may still be running there. {complaint}".rstrip()
                )
            return (
                PlaceFailed(f"{self.place} takes no commands: {complaint}") if complaint else None
            )
        if said.code != 0 and "NotFound" not in said.complaint:
            return PlaceFailed(f"the cluster does not answer: {said.complaint}")
        died = self.place
        if self._theirs:
            return PlaceFailed(f"{died} is not running. {complaint or said.complaint}".rstrip())
        self._name = ""
        return PlaceFailed(
            f"{died} ended under us, perhaps out of memory (terminal.memory_mb). The next command "
            "gets a new one: files and shell state that were in it are gone"
        )

    def elsewhere(self, place: str) -> "Pod | None":
        kind, _, name = place.partition(" ")
        if kind != "pod" or not name.startswith("hermes-"):
            return None
        return Pod(self._client, self._settings, name=name, container=CONTAINER)

    async def close(self, *, spare: bool) -> None:
        """A pod of ours in which processes go on ends by itself after them."""
        if self._name and not spare and not self._theirs:
            name, self._name = self._name, ""
            await self._delete(name)

    async def _start(self) -> str:
        await self._sweep()
        name = f"hermes-{secrets.token_hex(6)}"
        what, wanted = f"cannot start pod {name}", manifest(name, self._settings)
        try:
            await self._client.expect(
                what, [*self._scope, "create", "--filename", "-"], wanted, timeout=_CALL
            )
            await self._until_ready(f"pod/{name}")
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(PlaceFailed):
                await self._delete(name)
            raise
        return name

    async def _until_ready(self, pod: str) -> None:
        wait = ["wait", pod, "--for=condition=Ready", f"--timeout={_START:.0f}s"]
        said = await self._client.call([*self._scope, *wait], timeout=_START + _CALL)
        if said.code != 0:
            why = await self._call("get", pod, f"--output=jsonpath={_REASONS}")
            reasons = why.output.decode("utf-8", "replace").strip()
            raise PlaceFailed(f"{pod} did not come up: {said.complaint}\n{reasons}".rstrip())

    async def _sweep(self) -> None:
        """Pods of ours that have ended by themselves."""
        ours = ",".join(f"{name}={value}" for name, value in LABELS.items())
        ended = ["--selector", ours, "--field-selector=status.phase=Succeeded"]
        await self._call("delete", "pods", *ended, "--wait=false")

    async def _delete(self, name: str) -> None:
        flags = ["--now", "--wait=false", "--ignore-not-found"]
        await self._call("delete", f"pod/{name}", *flags)

    async def _call(self, *words: str) -> Said:
        return await self._client.call([*self._scope, *words], timeout=_CALL)
