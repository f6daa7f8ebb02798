"""The chosen model and those that step in for it, as one model."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from hermes.core.errors import PermanentModelError, SettingsError
from hermes.core.messages import Completion, Delta, Message, ToolSpec
from hermes.core.protocols import Model
from hermes.models.connections import Connections
from hermes.models.open import open_model
from hermes.models.reference import resolve
from hermes.models.resilient import Failed, ResilientModel, shown
from hermes.models.settings import ModelSettings


def open_chain(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    connections: Connections,
    on_failure: Failed | None = None,
) -> ResilientModel:
    """`reference` with the fallbacks of the settings behind it. Raises `SettingsError`."""
    first = open_model(reference, settings, secrets, connections)
    chain: dict[str, Model] = {resolve(reference, settings).reference: first}
    for fallback in settings.fallbacks:
        deferred = DeferredModel(fallback, settings, secrets, connections)
        chain.setdefault(deferred.name, deferred)
    return ResilientModel(
        list(chain.values()),
        retries=settings.retries,
        longest_wait=settings.longest_wait,
        on_failure=on_failure,
    )


class DeferredModel:
    """Opened when it is first asked: most fallbacks never are, and some are heavy to load."""

    def __init__(
        self,
        reference: str,
        settings: ModelSettings,
        secrets: Mapping[str, str],
        connections: Connections,
    ) -> None:
        target = resolve(reference, settings)
        self.name = target.reference
        self.window = target.window
        self._parts = (target.reference, settings, secrets, connections)
        self._model: Model | None = None

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        return await self._opened().complete(messages, tools)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Delta | Completion, None]:
        async with aclosing(shown(self._opened(), messages, tools)) as pieces:
            async for piece in pieces:
                yield piece

    def _opened(self) -> Model:
        if self._model is None:
            try:
                self._model = open_model(*self._parts)
            except SettingsError as error:
                raise PermanentModelError(f"{self.name} cannot be opened: {error}") from error
        return self._model
