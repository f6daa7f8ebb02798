"""Opens models, replaces one that is not capable, and checks whether a server can be reached."""

import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import anyio

from hermes.agent.budget import SpendingBudget
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, ModelError, SettingsError
from hermes.core.events.runs import ModelFailed
from hermes.core.protocols import Model, Tool
from hermes.core.run_ids import current_run
from hermes.models.catalog import resolve_reference
from hermes.models.open import ModelConnections, check_model
from hermes.models.retry import open_chain
from hermes.settings.default_model import LOCAL_MODEL, LOCAL_WEIGHTS_MODULE
from hermes.settings.load import DEFAULT_MODEL_KEY, LoadedSettings
from hermes.tools.settings import IMAGE_KEY_VARIABLE

CONNECT_TIMEOUT_S = 3.0
REACH_CACHE_S = 60.0
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def is_bundled(name: str) -> bool:
    """The small weights of the extra `local`: they can talk, and cannot use tools."""
    found = find_spec(LOCAL_WEIGHTS_MODULE)
    folders = (found.submodule_search_locations if found else None) or ()
    files = (file for folder in folders for file in Path(folder).glob("*.gguf"))
    return any(name == f"{LOCAL_MODEL}{file.stem}" for file in files)


class ModelReachability:
    """Whether the server of a model can be reached: checked in the background, kept for a minute.

    Only a connection is opened. It costs no tokens, and it does not prove that the key is valid.
    """

    def __init__(self, loaded: LoadedSettings, name: str) -> None:
        self._loaded, self.name = loaded, name
        self._problem: str | None = None
        self._asked_at = 0.0

    @property
    def description(self) -> str:
        """The name with what is known by now; for a greeting that must not wait."""
        if is_bundled(self.name):
            return f"{self.name} (bundled; it can only talk)"
        if not self._server():
            return self.name
        if self._problem is None:
            return f"{self.name} (configured, not reached yet)"
        return f"{self.name} ({self._problem or 'its server is reachable'})"

    async def connection_problem(self) -> str:
        """Return why it cannot be reached; empty when its server accepts connections or has
        none."""
        server = self._server()
        if not server:
            return ""
        if self._problem is None or time.monotonic() - self._asked_at > REACH_CACHE_S:
            self._problem = await _connection_problem(*server)
            self._asked_at = time.monotonic()
        return self._problem

    def _server(self) -> tuple[str, int] | None:
        """Return None where there is nothing to connect to, or only a proxy could tell."""
        if any(self._loaded.secrets.get(name) for name in PROXY_VARIABLES):
            return None
        try:
            url = urlsplit(
                resolve_reference(self.name, self._loaded.settings.model).provider.base_url
            )
        except HermesError:  # a scripted model, or the model of an old conversation
            return None
        port = url.port or (443 if url.scheme == "https" else 80)
        return (url.hostname, port) if url.hostname else None


async def _connection_problem(host: str, port: int) -> str:
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            await (await anyio.connect_tcp(host, port)).aclose()
    except TimeoutError:
        return f"{host}:{port} did not answer within {CONNECT_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error}"
    return ""


LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
CHECKS_MODEL_REFERENCE = "built-in:checks"
"""The model name under which answers from checks and the journal are recorded."""


def refuse_own_address(loaded: LoadedSettings) -> None:
    """Raises `SettingsError` when a chosen model is at the address where Hermes listens."""
    models = loaded.settings.model
    targets = [resolve_reference(models.default, models)]
    for reference in filter(None, (models.cheap, models.strong, models.summary, *models.fallbacks)):
        with suppress(SettingsError):  # said when it is asked: others may do without it
            targets.append(resolve_reference(reference, models))
    for target in targets:
        if _is_own_address(loaded, target.provider.base_url or ""):
            raise SettingsError(
                f"{target.reference} would be asked at {target.provider.base_url}, where Hermes "
                f"itself listens: hermes config set web.port 8644, or move the model"
            )


def _is_own_address(loaded: LoadedSettings, url: str) -> bool:
    web, parts = loaded.settings.web, urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    everywhere = web.listen in ("0.0.0.0", "::", "")
    hosts = {web.listen.lower()}
    if everywhere or web.listen in LOOPBACK_HOSTS:
        hosts.update(LOOPBACK_HOSTS)
    return port == web.port and (parts.hostname or "") in hosts


class ApplicationModels:
    def __init__(self, loaded: LoadedSettings, connections: ModelConnections, bus: Bus) -> None:
        self._loaded = loaded
        self._connections = connections
        self._bus = bus
        self.budget = SpendingBudget(bus.journal, loaded.settings.agent.limits)

    def tools(self, chosen: str = "") -> dict[str, Tool]:
        """Tools that ask other models. Where none is configured they are not even loaded."""
        settings = self._loaded.settings
        draws = settings.tools.images.provider or self._loaded.secrets.get(IMAGE_KEY_VARIABLE)
        configured = bool(settings.model.vision or settings.model.mixtures or draws)
        if not configured:
            with suppress(SettingsError):  # said when it is opened
                configured = resolve_reference(chosen, settings.model).card.vision
        if not configured:
            return {}
        from hermes.app.tools.model_tools import make_model_tools

        return make_model_tools(self._loaded, self.open, self.budget, chosen)

    def open(self, reference: str) -> Model:
        """Raises `SettingsError` for an unknown name."""
        loaded = self._loaded
        return open_chain(
            reference,
            loaded.settings.model,
            loaded.secrets,
            self._connections,
            self._record_failure,
        )

    def substitute_for(self, reference: str, folder: Path) -> Model | None:
        """Return what answers in a conversation when that model is not capable; None when it is."""
        resumed = reference == CHECKS_MODEL_REFERENCE  # then use what can answer now
        if lacks_capable_model(self._loaded, "" if resumed else reference):
            from hermes.app.checks.health import ChecksModel

            return ChecksModel(CHECKS_MODEL_REFERENCE, self._loaded, folder, self._bus.journal)
        return self.open("") if resumed else None

    async def open_checked(self, reference: str) -> Model:
        """The model, once it is known to be usable: its key exists, and it is in the catalog or
        answers. Raises `SettingsError` or `ModelError`."""
        settings, secrets = self._loaded.settings.model, self._loaded.secrets
        target = resolve_reference(reference, settings)
        variable = target.provider.key_variable
        if variable and not secrets.get(variable):
            raise SettingsError(
                f"{target.reference} needs {variable}, which is not set: run `hermes setup`, or "
                f"`hermes config set {variable}`"
            )
        model = self.open(reference)
        if target.provider.base_url and target.model not in target.provider.models:
            await check_model(target.reference, settings, secrets)
        return model

    async def _record_failure(
        self, model: str, error: ModelError, following: str, wait: float
    ) -> None:
        await self._bus.publish(
            ModelFailed(run=current_run(), model=model, error=str(error), next=following, wait=wait)
        )


def lacks_capable_model(loaded: LoadedSettings, reference: str) -> bool:
    """Return True for the small bundled model, and where no model was chosen and there is no
    key."""
    settings = loaded.settings.model
    target = resolve_reference(reference, settings)
    if target.provider.dialect == "local":
        return not settings.local.path and not target.model.endswith(".gguf")
    variable = target.provider.key_variable
    unset = bool(variable) and not loaded.secrets.get(variable)
    chosen = loaded.origin(DEFAULT_MODEL_KEY).source != "default" or target.reference != (
        resolve_reference("", settings).reference
    )
    return unset and not chosen and not settings.fallbacks
