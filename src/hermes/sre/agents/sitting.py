"""One model at one task in a run of its own, until it has said what was asked of it or may no more.

Whatever becomes of it is an answer: it dies, hangs or talks nonsense for itself alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
import msgspec

from hermes.agent.conversation import Conversation
from hermes.agent.hearing import PEOPLE
from hermes.agent.means import Means, recall_nothing
from hermes.core.errors import HermesError, MalformedReply, StoreError
from hermes.core.messages import Value
from hermes.core.protocols import Model
from hermes.sre.agents.bounded import Bounded
from hermes.sre.agents.settings import Budget
from hermes.tools.executor import Executor


class Sat(Value, kw_only=True, frozen=True):
    run: str
    said: str = ""
    trouble: str = ""
    """Why it did not come to its own end."""


@dataclass(frozen=True)
class Seat:
    means: Means
    model: Model
    executor: Executor
    budget: Budget
    run: str
    parent: str
    title: str
    system: str
    over: Callable[[], bool]
    """Whether it has said what was asked of it."""
    reminder: str
    """Said once, when it talks instead."""
    recalls: bool = False
    """Whether it is told what memory has of the matter."""


async def sit(seat: Seat, text: str) -> Sat:
    """Raises `StoreError` alone: without a journal nothing may go on."""
    model = Bounded(seat.model, seat.budget.turns, seat.over)
    said, trouble = "", f"cut off after {seat.budget.seconds:g} s"
    try:
        with anyio.move_on_after(seat.budget.seconds):
            said = await _talk(seat, model, text)
            trouble = f"all {seat.budget.turns} turns were used" if model.spent else ""
    except StoreError:
        raise
    except HermesError as error:
        trouble = str(error)
    except Exception as error:  # noqa: BLE001 - one that dies must not take the others along
        trouble = f"{type(error).__name__}: {error}"
    return Sat(run=seat.run, said=said, trouble=trouble[:500])


async def _talk(seat: Seat, model: Bounded, text: str) -> str:
    talk = await Conversation.begin(
        _means(seat, model), task=seat.title, run=seat.run, parent=seat.parent, system=seat.system
    )
    reminder = seat.reminder
    try:
        said = await talk.say(text)
    except MalformedReply as error:
        said, reminder = "", f"{reminder} (Your last answer could not be read: {error})"
    if seat.over() or model.spent:
        return said
    return await talk.say(reminder) or said


def _means(seat: Seat, model: Bounded) -> Means:
    means, tokens = seat.means, seat.budget.tokens
    limits = means.settings.limits
    if limits.subagent_tokens is not None:
        tokens = min(tokens, limits.subagent_tokens)
    settings = msgspec.structs.replace(
        means.settings,
        max_iterations=seat.budget.turns,
        max_depth=0,
        limits=msgspec.structs.replace(limits, subagent_tokens=tokens),
    )
    return replace(
        means,
        model=model,
        executor=seat.executor,
        settings=settings,
        ask=None,
        # Its task is made of an alert and of logs: nobody vouches for those words.
        origin="incident" if means.origin in PEOPLE else means.origin,
        sections=(),
        recall=means.recall if seat.recalls else recall_nothing,
    )
