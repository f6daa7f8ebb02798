"""The loop, whole: ask the model, run what it asks for, go on until it answers in words."""

from collections.abc import Iterator, Sequence
from typing import Literal

import anyio

from hermes.agent.asking import ask, tidy
from hermes.agent.compression import compress, make_room
from hermes.agent.own_words import CUT_OFF, NUDGE, SUM_UP
from hermes.agent.session import Session
from hermes.core.errors import (
    ContextTooLong,
    HermesError,
    MalformedReply,
    PermanentModelError,
    StoreError,
)
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, TurnEnded
from hermes.core.events.tools import ToolFinished
from hermes.core.messages import Completion, Message, ToolCall, ToolResult

Outcome = Literal["answered", "interrupted", "exhausted", "failed"]


async def run_turn(session: Session) -> str:
    """Go on from whatever the history says until the turn is ended; its answer."""
    history, nudged = session.history, False
    while history.steps < session.means.settings.max_iterations:
        await take_inbox(session)
        message = await think(session)
        if message.calls:
            nudged = False
            await run_calls(session, message.calls)
            if history.repetition.reason:
                reason = f"Stopped: {history.repetition.reason}."
                await session.record(ended(session, "failed", reason))
                return reason
        elif not history.open:
            return message.text
        elif not message.text.strip():
            if nudged:
                raise MalformedReply(f"{session.means.model.name} answered with nothing, twice")
            nudged = True
            await session.record(MessageAdded(run=session.run, message=said(NUDGE)))
    return await sum_up(session)


async def think(session: Session, *, last: bool = False) -> Message:
    """One answer of the model, written down; a window found to be full is emptied on the way.

    The `last` one of a turn is given no tools and ends it, whatever it says.
    """
    await make_room(session)
    for _ in range(2):
        try:
            return await _think(session, last)
        except ContextTooLong:
            if await compress(session, hard=True) is None:
                raise
    return await _think(session, last)


async def _think(session: Session, last: bool) -> Message:
    history, tools = session.history, () if last else session.specs
    tokens = session.gauge.tokens(history.messages)
    model = session.means.model
    async with ask(session, model, session.shown(), tools, tokens=tokens) as (reply, cost):
        message = tidy(reply.message, history.call_ids)
        if last and message.calls:  # it was told that there are none
            message = Message(role="assistant", text=message.text)
        events: list[Event] = [cost]
        if message.calls or message.text.strip():  # providers refuse an empty message later on
            events.insert(0, MessageAdded(run=session.run, message=message))
        if last or (message.text.strip() and not message.calls and not session.inbox):
            events.append(_answered(session, reply, last))
        await session.record(*events)
    session.gauge.measured(cost.usage.input_tokens and cost.usage.tokens, len(history.messages))
    _look_at_finish(session, reply, message)
    return message


def _answered(session: Session, reply: Completion, last: bool) -> TurnEnded:
    if last:
        steps = session.means.settings.max_iterations
        return ended(session, "exhausted", f"all {steps} steps of the turn were used")
    cut = "the answer was cut off at its longest possible length"
    notes = [*session.new_notes(), *([cut] if reply.finish == "length" else [])]
    return ended(session, "answered", "; ".join(notes))


def _look_at_finish(session: Session, reply: Completion, message: Message) -> None:
    if reply.finish == "length" and any(call.malformed for call in message.calls):
        session.inbox.appendleft(CUT_OFF)
    elif reply.finish == "filtered" and not (message.calls or message.text.strip()):
        raise PermanentModelError(f"{reply.model or 'the provider'} withheld its answer (filtered)")


async def sum_up(session: Session) -> str:
    await session.record(MessageAdded(run=session.run, message=said(SUM_UP)))
    return (await think(session, last=True)).text or "All steps of this turn are used up."


async def take_inbox(session: Session) -> None:
    if session.inbox:
        texts = list(session.inbox)
        session.inbox.clear()
        try:
            await session.record(*(MessageAdded(run=session.run, message=said(t)) for t in texts))
        except StoreError:
            session.inbox.extendleft(reversed(texts))  # not written, so not yet said
            raise


async def run_calls(session: Session, calls: Sequence[ToolCall]) -> None:
    """Side by side, except for tools that want to be alone; answers in the order of the calls."""
    await session.before_calls()
    results: dict[str, ToolResult] = {}
    broken: list[HermesError] = []

    async def one(call: ToolCall, group: anyio.CancelScope | None = None) -> None:
        try:
            results[call.id] = await session.executor.execute(call, session.context)
        except HermesError as error:  # the store failed: raised bare, not as a group of one
            broken.append(error)
            if group is not None:
                group.cancel()

    for batch in _batches(calls, {spec.name for spec in session.specs if spec.alone}):
        if len(batch) == 1:
            await one(batch[0])
        else:
            async with anyio.create_task_group() as group:
                for call in batch:
                    group.start_soon(one, call, group.cancel_scope)
        if broken:
            raise broken[0]
    for call in calls:
        session.history.apply(ToolFinished(run=session.run, result=results[call.id]))


def _batches(calls: Sequence[ToolCall], alone: set[str]) -> Iterator[list[ToolCall]]:
    batch: list[ToolCall] = []
    for call in calls:
        if call.name not in alone:
            batch.append(call)
            continue
        if batch:
            yield batch
        yield [call]
        batch = []
    if batch:
        yield batch


def said(text: str) -> Message:
    return Message(role="user", text=text)


def ended(session: Session, outcome: Outcome, reason: str = "") -> TurnEnded:
    return TurnEnded(run=session.run, turn=session.history.turn, outcome=outcome, reason=reason)
