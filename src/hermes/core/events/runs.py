"""A run, its turns, and the messages in them."""

from typing import Literal

from hermes.core.events.base import BaseEvent, RunOrigin
from hermes.core.messages import Message, Usage


class RunStarted(BaseEvent, tag="run.started", kw_only=True, frozen=True):
    origin: RunOrigin
    parent: str = ""
    task: str = ""
    """The first words of the request, for listings."""
    model: str = ""
    directory: str = ""
    tools: tuple[str, ...] = ()
    unattended: bool = False
    """No person watches: after a crash it is resumed automatically."""
    by: str = ""
    """Who began it: the name of a person, or `channel:id` for one who has none."""
    audience: str = ""
    """Who hears it, for a direct chat or a private thread: its address. It is recalled only there
    and in private chats of the same person. Empty: everybody may."""


class RunRenamed(BaseEvent, tag="run.renamed", kw_only=True, frozen=True):
    title: str


class RunDeleted(BaseEvent, tag="run.deleted", kw_only=True, frozen=True):
    """Deleted by a person. Its texts leave the store at the next compaction."""


class TurnStarted(BaseEvent, tag="turn.started", kw_only=True, frozen=True):
    """A request of a person, or of Hermes itself, to the agent."""

    turn: int
    by: str = ""
    """The person who asked, by their name in `people`, or `telegram:123`."""


class TurnEnded(BaseEvent, tag="turn.ended", kw_only=True, frozen=True):
    turn: int
    outcome: Literal["answered", "interrupted", "exhausted", "failed"]
    reason: str = ""


class TurnUndone(BaseEvent, tag="turn.undone", kw_only=True, frozen=True):
    """The turn is no longer part of the conversation."""

    turn: int


class MessageAdded(BaseEvent, tag="message.added", kw_only=True, frozen=True):
    """System, user and assistant messages. Tool results are `ToolFinished`: one copy each."""

    message: Message


class ModelAnswered(BaseEvent, tag="model.answered", kw_only=True, frozen=True):
    """The cost of an answer; spending limits are checked against the sum of these."""

    model: str
    usage: Usage
    seconds: float = 0.0


class ModelFailed(BaseEvent, tag="model.failed", kw_only=True, frozen=True):
    """An attempt to call a model failed; `next` says what is tried instead, and after which
    pause."""

    model: str
    error: str
    next: str = ""
    wait: float = 0.0


class ModelSwitched(BaseEvent, tag="model.switched", kw_only=True, frozen=True):
    model: str


class ContextCompressed(BaseEvent, tag="context.compressed", kw_only=True, frozen=True):
    """Older messages were replaced by a summary. `dropped` counts them from the first kept one
    on."""

    summary: str
    kept_first: int
    dropped: int
    tokens_before: int = 0
    tokens_after: int = 0
