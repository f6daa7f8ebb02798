"""Models by reference, each with its retries and the fallbacks behind it."""

from pathlib import Path

from hermes.core.bus import Bus
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events.runs import ModelFailed
from hermes.core.protocols import Model
from hermes.core.whose import whose_run
from hermes.models.chain import open_chain
from hermes.models.connections import Connections
from hermes.models.reference import resolve
from hermes.models.trial import try_model
from hermes.settings.load import DEFAULT_MODEL, Loaded

CHECKS = "built-in:checks"
"""The name under which answers from checks and the journal are written down."""


class Models:
    def __init__(self, loaded: Loaded, connections: Connections, bus: Bus) -> None:
        self._loaded = loaded
        self._connections = connections
        self._bus = bus

    def open(self, reference: str) -> Model:
        """Raises `SettingsError` for a name that nobody answers to."""
        loaded = self._loaded
        return open_chain(
            reference, loaded.settings.model, loaded.secrets, self._connections, self._failed
        )

    def instead_of(self, reference: str, folder: Path) -> Model | None:
        """What answers in a conversation when that model is not capable; None when it is."""
        resumed = reference == CHECKS  # then, what can answer now counts
        if lacks_capable_model(self._loaded, "" if resumed else reference):
            from hermes.app.host_answers import HostAnswers

            return HostAnswers(CHECKS, self._loaded, folder, self._bus.journal)
        return self.open("") if resumed else None

    async def checked(self, reference: str) -> Model:
        """The model, once it is known to be usable: its key is there, and it is in the catalogue
        or answers. Raises `SettingsError` or `ModelError`.
        """
        settings, secrets = self._loaded.settings.model, self._loaded.secrets
        target = resolve(reference, settings)
        variable = target.provider.key_variable
        if variable and not secrets.get(variable):
            raise SettingsError(
                f"{target.reference} needs {variable}, which is not set: run `hermes setup`, or "
                f"`hermes config set {variable}`"
            )
        model = self.open(reference)
        if target.provider.base_url and target.model not in target.provider.models:
            await try_model(target.reference, settings, secrets)
        return model

    async def _failed(self, model: str, error: ModelError, following: str, wait: float) -> None:
        await self._bus.publish(
            ModelFailed(run=whose_run(), model=model, error=str(error), next=following, wait=wait)
        )


def lacks_capable_model(loaded: Loaded, reference: str) -> bool:
    """True for the small bundled model, and where no model was chosen and no key is there."""
    settings = loaded.settings.model
    target = resolve(reference, settings)
    if target.provider.dialect == "local":
        return not settings.local.path and not target.model.endswith(".gguf")
    variable = target.provider.key_variable
    unset = bool(variable) and not loaded.secrets.get(variable)
    chosen = loaded.origin(DEFAULT_MODEL).source != "default" or target.reference != (
        resolve("", settings).reference
    )
    return unset and not chosen and not settings.fallbacks
