"""Models by reference, each with its retries and the fallbacks behind it."""

from hermes.core.bus import Bus
from hermes.core.errors import ModelError
from hermes.core.events.runs import ModelFailed
from hermes.core.protocols import Model
from hermes.core.whose import whose_run
from hermes.models.chain import open_chain
from hermes.models.connections import Connections
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

    async def _failed(self, model: str, error: ModelError, following: str, wait: float) -> None:
        await self._bus.publish(
            ModelFailed(run=whose_run(), model=model, error=str(error), next=following, wait=wait)
        )
