"""Messages of people through chat channels, and the sessions that they belong to.

The run of a message is the session that it was assigned to when it was received, even before that
session has begun.
"""

from typing import Literal

from hermes.core.channels import InboundMessage
from hermes.core.events.base import BaseEvent

ChatOutcome = Literal["turn", "command", "press", "answer", "incident", "refused", "expired"]


class ChatReceived(BaseEvent, tag="chat.received", kw_only=True, frozen=True):
    """A message to Hermes, written before the platform learns that it was received."""

    message: InboundMessage
    session: str
    """Which chat, thread or topic, such as `telegram:-100123:42`."""
    to: str
    """The address of the answer."""
    person: str = ""
    """Who sent it: the name in `people`, or `telegram:123`."""
    incident: str = ""
    """The incident whose thread it was written in, or one of whose messages it answers."""


class ChatHandled(BaseEvent, tag="chat.handled", kw_only=True, frozen=True):
    """These messages have what they get: an answer, or another outcome."""

    keys: tuple[str, ...]
    """Keys of `message`, each with the name of its channel: `telegram:77`."""
    outcome: ChatOutcome = "turn"
    turn: int = 0
    notice: str = ""
    """The notification with the answer."""


class ChatSessionEnded(BaseEvent, tag="chat.ended", kw_only=True, frozen=True):
    """The next message of this chat begins a new session."""

    session: str
    reason: Literal["new", "idle", "daily", "undone"] = "new"
    by: str = ""


class ChatVoiceChosen(BaseEvent, tag="chat.voice", kw_only=True, frozen=True):
    """People of this chat chose whether its answers are also spoken."""

    session: str
    on: bool
    by: str = ""


def message_key(message: InboundMessage) -> str:
    """The key of a received message among all channels."""
    return f"{message.address.channel}:{message.key}"
