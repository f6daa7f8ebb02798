"""Models by reference, each with its retries and the fallbacks behind it."""

from hermes.core.bus import Bus
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events.runs import ModelFailed
from hermes.core.protocols import Model
from hermes.core.whose import whose_run
from hermes.models.chain import open_chain
from hermes.models.connections import Connections
from hermes.models.reference import resolve
from hermes.models.trial import try_model
from hermes.settings.load import Loaded


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
