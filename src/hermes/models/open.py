"""Opens models by reference, keeps their shared connections, and checks whether a model answers."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar, cast

import anyio
import msgspec

from hermes.core.errors import ModelTimedOut
from hermes.core.messages import Message
from hermes.core.plugins import load_plugin
from hermes.core.protocols import Model
from hermes.models.catalog import ModelTarget, resolve_reference
from hermes.models.settings import ModelSettings


class Closable(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=Closable)


class ModelConnections:
    """Opened lazily: without a remote model, the HTTP client is never loaded."""

    def __init__(self) -> None:
        self._open: dict[str, Closable] = {}

    def share(self, key: str, make: Callable[[], T]) -> T:
        """The object kept under `key`, made at the first request for it."""
        if key not in self._open:
            self._open[key] = make()
        return cast(T, self._open[key])

    async def aclose(self) -> None:
        while self._open:
            _, connection = self._open.popitem()
            await connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()


@dataclass(frozen=True)
class ModelContext:
    """Everything that a dialect may know."""

    target: ModelTarget
    settings: ModelSettings
    connections: ModelConnections
    key: str = field(default="", repr=False)
    open_other: Callable[[str], Model] | None = field(default=None, repr=False)
    """Opens another model by its reference; raises `SettingsError`."""


Opening = ModelContext
"""The earlier name, which plug-ins may still import."""


def open_model(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    connections: ModelConnections,
) -> Model:
    """The model behind `reference`. Raises `SettingsError`; a missing key is reported at the
    first call, so that a chain can continue with its next model."""
    target = resolve_reference(reference, settings)
    key = secrets.get(target.provider.key_variable, "") if target.provider.key_variable else ""
    dialect = load_plugin("models", target.provider.dialect)
    opening = ModelContext(
        target=target,
        settings=settings,
        connections=connections,
        key=key.strip(),
        open_other=lambda other: open_model(other, settings, secrets, connections),
    )
    return cast(Model, dialect(opening))


ANSWER_TIMEOUT_S = 60.0
MAX_ANSWER_TOKENS = 256
CHECK_QUESTION = Message(role="user", text="Answer with the single word: ready")


class ModelCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    answer: str
    seconds: float
    input_tokens: int
    output_tokens: int
    cost_usd: float


async def check_model(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    *,
    key: str = "",
) -> ModelCheckResult:
    """Raises `ModelError` or `SettingsError`. `key` is tried in place of the stored one."""
    settings = msgspec.structs.replace(settings, max_output_tokens=MAX_ANSWER_TOKENS)
    target = resolve_reference(reference or settings.default, settings)
    if key and target.provider.key_variable:
        secrets = {**secrets, target.provider.key_variable: key}
    async with ModelConnections() as connections:
        return await _ask_question(open_model(target.reference, settings, secrets, connections))


async def _ask_question(model: Model) -> ModelCheckResult:
    started = time.monotonic()
    try:
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            completion = await model.complete([CHECK_QUESTION])
    except TimeoutError as error:
        raise ModelTimedOut(
            f"{model.name} gave no answer within {ANSWER_TIMEOUT_S:.0f} seconds"
        ) from error
    return ModelCheckResult(
        model=completion.model or model.name,
        answer=completion.message.text.strip(),
        seconds=round(time.monotonic() - started, 2),
        input_tokens=completion.usage.input_tokens,
        output_tokens=completion.usage.output_tokens,
        cost_usd=completion.usage.cost_usd,
    )
