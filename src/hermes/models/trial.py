"""Asks a model one tiny question: the only honest test of a key or of a model's name."""

import time
from collections.abc import Mapping

import anyio
import msgspec

from hermes.core.errors import ModelTimedOut
from hermes.core.messages import Message
from hermes.core.protocols import Model
from hermes.models.connections import Connections
from hermes.models.open import open_model
from hermes.models.reference import resolve
from hermes.models.settings import ModelSettings

ANSWER_TIMEOUT_S = 60.0
ANSWER_LIMIT_TOKENS = 256
QUESTION = Message(role="user", text="Answer with the single word: ready")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    answer: str
    seconds: float
    input_tokens: int
    output_tokens: int
    cost_usd: float


async def try_model(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    *,
    key: str = "",
) -> Trial:
    """Raises `ModelError` or `SettingsError`. `key` is tried in place of the one that is kept."""
    settings = msgspec.structs.replace(settings, max_output_tokens=ANSWER_LIMIT_TOKENS)
    target = resolve(reference or settings.default, settings)
    if key and target.provider.key_variable:
        secrets = {**secrets, target.provider.key_variable: key}
    async with Connections() as connections:
        return await _ask(open_model(target.reference, settings, secrets, connections))


async def _ask(model: Model) -> Trial:
    started = time.monotonic()
    try:
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            completion = await model.complete([QUESTION])
    except TimeoutError as error:
        raise ModelTimedOut(
            f"{model.name} gave no answer within {ANSWER_TIMEOUT_S:.0f} seconds"
        ) from error
    return Trial(
        model=completion.model or model.name,
        answer=completion.message.text.strip(),
        seconds=round(time.monotonic() - started, 2),
        input_tokens=completion.usage.input_tokens,
        output_tokens=completion.usage.output_tokens,
        cost_usd=completion.usage.cost_usd,
    )
