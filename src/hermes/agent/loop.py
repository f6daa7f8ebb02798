"""The agent loop: ask the model, run its tool calls, repeat until it answers in words."""

from collections.abc import Iterator, Sequence
from typing import Literal

import anyio

from hermes.agent.compression import compress, compress_if_full
from hermes.agent.prompt import CUT_OFF_NOTE, EMPTY_ANSWER_NOTE, OUT_OF_STEPS_NOTE
from hermes.agent.session import ConversationSession, call_model, with_unique_call_ids
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
from hermes.core.messages import AttachedText, Completion, Message, Picture, ToolCall, ToolResult

TurnOutcome = Literal["answered", "interrupted", "exhausted", "failed"]


async def run_turn(session: ConversationSession) -> str:
    """Continue from the history until the turn is ended; returns its answer."""
    history, nudged = session.history, False
    while history.steps < session.dependencies.settings.max_iterations:
        await add_steering_messages(session)
        message = await ask_model(session)
        if message.calls:
            nudged = False
            await run_calls(session, message.calls)
            if history.repetition.reason:
                reason = f"Stopped: {history.repetition.reason}."
                await session.record(turn_ended(session, "failed", reason))
                return reason
        elif not history.open:
            return message.text
        elif not message.text.strip():
            if nudged:
                raise MalformedReply(
                    f"{session.dependencies.model.name} answered with nothing, twice"
                )
            nudged = True
            await session.record(
                MessageAdded(run=session.run, message=user_message(EMPTY_ANSWER_NOTE))
            )
    return await ask_for_summary(session)


async def ask_model(session: ConversationSession, *, last: bool = False) -> Message:
    """Ask the model once and record its answer; compress the context window first if it is full.

    The `last` answer of a turn gets no tools and ends the turn, whatever it says.
    """
    await compress_if_full(session)
    for _ in range(3):
        try:
            return await _ask_model_once(session, last)
        except ContextTooLong:
            if session.leave_out_pictures():
                continue
            if await compress(session, hard=True) is None:
                raise
    return await _ask_model_once(session, last)


async def _ask_model_once(session: ConversationSession, last: bool) -> Message:
    history, tools = session.history, () if last else session.specs
    tokens = session.gauge.tokens(history.messages)
    model = session.dependencies.model
    visible = await session.load_pictures(session.visible_messages())
    async with call_model(session, model, visible, tools, tokens=tokens) as (reply, cost):
        message = with_unique_call_ids(reply.message, history.call_ids)
        if last and message.calls:  # the request offered no tools
            message = Message(role="assistant", text=message.text)
        events: list[Event] = [cost]
        if message.calls or message.text.strip():  # providers refuse an empty message later on
            events.insert(0, MessageAdded(run=session.run, message=message))
        if last or (message.text.strip() and not message.calls and not session.inbox):
            events.append(_answered_event(session, reply, last))
        await session.record(*events)
    used = reply.usage  # without what other models used for it
    session.gauge.set_measured(used.input_tokens and used.tokens, len(history.messages))
    _check_finish(session, reply, message)
    return message


def _answered_event(session: ConversationSession, reply: Completion, last: bool) -> TurnEnded:
    if last:
        steps = session.dependencies.settings.max_iterations
        return turn_ended(session, "exhausted", f"all {steps} steps of the turn were used")
    cut = "the answer was cut off at its longest possible length"
    notes = [*session.new_notes(), *([cut] if reply.finish == "length" else [])]
    return turn_ended(session, "answered", "; ".join(notes))


def _check_finish(session: ConversationSession, reply: Completion, message: Message) -> None:
    if reply.finish == "length" and any(call.malformed for call in message.calls):
        session.inbox.appendleft(user_message(CUT_OFF_NOTE))
    elif reply.finish == "filtered" and not (message.calls or message.text.strip()):
        raise PermanentModelError(f"{reply.model or 'the provider'} withheld its answer (filtered)")


async def ask_for_summary(session: ConversationSession) -> str:
    await session.record(MessageAdded(run=session.run, message=user_message(OUT_OF_STEPS_NOTE)))
    return (await ask_model(session, last=True)).text or "All steps of this turn are used up."


async def add_steering_messages(session: ConversationSession) -> None:
    if session.inbox:
        waiting = list(session.inbox)
        session.inbox.clear()
        try:
            await session.record(
                *(MessageAdded(run=session.run, message=message) for message in waiting)
            )
        except StoreError:
            session.inbox.extendleft(reversed(waiting))  # not recorded, so not yet sent
            raise


async def run_calls(session: ConversationSession, calls: Sequence[ToolCall]) -> None:
    """Run calls in parallel, except tools that must run alone; answers in the order of the
    calls."""
    await session.inform_policy()
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


def user_message(
    text: str,
    attached: Sequence[AttachedText] = (),
    key: str = "",
    pictures: Sequence[Picture] = (),
) -> Message:
    return Message(
        role="user", text=text, attached=tuple(attached), key=key, pictures=tuple(pictures)
    )


def turn_ended(session: ConversationSession, outcome: TurnOutcome, reason: str = "") -> TurnEnded:
    return TurnEnded(run=session.run, turn=session.history.turn, outcome=outcome, reason=reason)
