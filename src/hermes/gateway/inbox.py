"""Decides who is heard: which messages of a channel are for Hermes, and which are too many.

Nothing here waits, reads or writes: a decision follows from the message, the settings and the time.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Literal, Protocol

from hermes.core.channels import Address, InboundMessage
from hermes.core.messages import Value
from hermes.gateway.settings import ChannelSettings

UNKNOWN_SENDER_INTERVAL_S = 3600.0
"""Seconds between two answers to an unknown person."""
FLOOD_WINDOW_S = 60.0
MAX_REMEMBERED_SENDERS = 5_000

InboxVerdict = Literal["heard", "ignored", "unknown", "flood"]


class InboxDecision(Value, frozen=True):
    verdict: InboxVerdict
    tell: bool = False
    """Whether the sender gets an answer although the message is not heard."""
    reason: str = ""


class KnowsPeople(Protocol):
    """Knows who was let in, with a code or by a name in the settings."""

    def name_of(self, channel: str, id: str) -> str: ...
    def is_paired(self, channel: str, id: str) -> bool: ...


class Inbox:
    """Decides on the messages of one channel. `is_own_thread` tells threads in which Hermes takes
    part."""

    def __init__(
        self,
        settings: ChannelSettings,
        people: KnowsPeople,
        is_own_thread: Callable[[Address], bool],
        *,
        max_messages_per_minute: int = 20,
    ) -> None:
        self._settings = settings
        self.people = people
        self._is_own_thread = is_own_thread
        self._max_per_minute = max_messages_per_minute
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self.unknown_messages = 0
        """How many messages of unknown people were not heard."""

    def decide(self, message: InboundMessage, now: float) -> InboxDecision:
        """`now` is a time of the monotonic clock."""
        if not message.direct and not self._is_for_us(message):
            return InboxDecision("ignored", reason="not for us")
        if not self.knows(message.address.channel, message.sender):
            self.unknown_messages += 1
            if message.pressed:
                tell = not self._is_flood(message.sender, now)
            else:
                tell = message.direct and self._may_tell(
                    "unknown", message.sender, now, UNKNOWN_SENDER_INTERVAL_S
                )
            return InboxDecision("unknown", tell, "neither allowed nor paired")
        if self._is_flood(message.sender, now):
            tell = self._may_tell("flood", message.sender, now, FLOOD_WINDOW_S)
            return InboxDecision("flood", tell, "too many messages")
        return InboxDecision("heard")

    def knows(self, channel: str, sender: str) -> bool:
        """Return whether this person may talk to Hermes. No list: no one."""
        if sender in self._settings.user_ids:
            return True
        return bool(self.people.name_of(channel, sender)) or self.people.is_paired(channel, sender)

    def _is_for_us(self, message: InboundMessage) -> bool:
        if message.address.chat not in self._settings.group_ids:
            return False
        if message.pressed or message.mentioned:
            return True
        match self._settings.mention:
            case "free":
                return True
            case "thread":
                return bool(message.address.thread) and self._is_own_thread(message.address)
            case _:
                return False

    def _is_flood(self, sender: str, now: float) -> bool:
        recent = self._recent.setdefault(sender, deque(maxlen=self._max_per_minute))
        self._recent.move_to_end(sender)
        _limit_size(self._recent)
        if len(recent) == self._max_per_minute and now - recent[0] < FLOOD_WINDOW_S:
            return True
        recent.append(now)
        return False

    def _may_tell(self, what: str, sender: str, now: float, interval_s: float) -> bool:
        last = self._told.get((what, sender))
        if last is not None and now - last < interval_s:
            return False
        self._told[what, sender] = now
        self._told.move_to_end((what, sender))
        _limit_size(self._told)
        return True


def _limit_size(
    remembered: OrderedDict[str, deque[float]] | OrderedDict[tuple[str, str], float],
) -> None:
    while len(remembered) > MAX_REMEMBERED_SENDERS:
        remembered.popitem(last=False)


def session_of(message: InboundMessage, thread: Address | None = None) -> str:
    """Return which session a message belongs to: a direct chat, a thread or a topic has one.

    `thread` was opened for it. In a group without threads, each person has a session.
    """
    address = thread or message.address
    if message.direct or address.thread:
        return str(address)
    return f"{address}#{message.sender}"


def speaker_label(person: str, display_name: str) -> str:
    """Return who speaks, in a session of several people.

    People choose their display names, so only one word of it is shown, and never as a command.
    """
    if ":" not in person:
        return person
    word = "".join(char for char in display_name.split(" ")[0] if char.isalnum())[:24]
    return f"{word} ({person})" if word else person
