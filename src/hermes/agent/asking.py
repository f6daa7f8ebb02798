"""One call of a model: the limits before it, the pieces while it comes, its price after it."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from hermes.agent.session import Session
from hermes.core.errors import MalformedReply
from hermes.core.events.runs import ModelAnswered
from hermes.core.messages import Completion, Message, ToolCall, ToolSpec, Usage
from hermes.core.protocols import Model, StreamsText


@asynccontextmanager
async def ask(
    session: Session,
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    tokens: int,
    shown: bool = True,
) -> AsyncGenerator[tuple[Completion, ModelAnswered], None]:
    """The answer, and the event that says what it cost, to be recorded inside the `async with`:
    until then the money is held, so that another subagent cannot spend it a second time.

    Raises `ModelError` and `BudgetSpent`.
    """
    means, expected = session.means, Usage(tokens, session.means.settings.output_reserve)
    usd = means.price(model.name, expected) if session.ledger.counts_money else 0.0
    if usd is None:
        session.note(
            f"no price is known for {model.name}: limits in money cannot be checked before its "
            "calls (limits in tokens hold)"
        )
    own = means.settings.limits.subagent_tokens if "/" in session.run else None
    async with session.ledger.hold(session.run, expected, usd, own_tokens=own):
        started = time.monotonic()
        if shown and isinstance(model, StreamsText):
            completion = await _stream(session, model, messages, tools)
        else:
            completion = await model.complete(messages, tools)
        yield completion, _cost(session, model, completion, time.monotonic() - started)


async def _stream(
    session: Session, model: StreamsText, messages: Sequence[Message], tools: Sequence[ToolSpec]
) -> Completion:
    whole: Completion | None = None
    async for piece in model.stream(messages, tools):
        if isinstance(piece, Completion):
            whole = piece
        else:
            session.means.bus.glimpse(session.run, piece)
    if whole is None:
        raise MalformedReply("the stream ended before the answer was whole")
    return whole


def _cost(session: Session, model: Model, completion: Completion, seconds: float) -> ModelAnswered:
    name, usage = completion.model or model.name, completion.usage
    if not usage.cost_usd:
        usage = replace(usage, cost_usd=session.means.price(name, usage) or 0.0)
    return ModelAnswered(run=session.run, model=name, usage=usage, seconds=seconds)


def tidy(message: Message, taken: set[str]) -> Message:
    """The message with call ids that are there and unique in the run; models repeat them.

    Results are matched to calls, and artifacts named, by these ids alone.
    """
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for call in message.calls:
        id, number = call.id or "call", 1
        while id in seen or id in taken:
            number += 1
            id = f"{call.id or 'call'}-{number}"
        seen.add(id)
        calls.append(call if id == call.id else replace(call, id=id))
    return message if tuple(calls) == message.calls else replace(message, calls=tuple(calls))
