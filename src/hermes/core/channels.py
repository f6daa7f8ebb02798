"""Chat channels: messages in both directions, and the protocols that a channel implements.

`Channel` is what every channel can do. What only some platforms can do is a separate Protocol,
checked with `isinstance`.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, Self, get_args, runtime_checkable

from hermes.core.messages import AttachedText as AttachedText
from hermes.core.messages import Value


class Address(Value, frozen=True):
    """The destination of a message: a chat of a channel, and a thread or topic in it."""

    channel: str
    chat: str = ""
    """Empty: the home chat of the channel."""
    thread: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `telegram:-100123:42`; chat and thread may be missing."""
        channel, _, rest = text.partition(":")
        chat, _, thread = rest.partition(":")
        return cls(channel, chat, thread)

    def __str__(self) -> str:
        return ":".join((self.channel, self.chat, self.thread)).rstrip(":")


class Button(Value, frozen=True):
    label: str
    data: str
    """What a press sends back: at most 64 bytes of UTF-8, an id and a verb and nothing else."""


SpanStyle = Literal["bold", "italic", "strike", "code", "pre", "link", "quote"]


class TextSpan(Value, frozen=True):
    """The style of a part of a text, from `start` up to `end`, in code points."""

    start: int
    end: int
    style: SpanStyle
    value: str = ""
    """The address of a link, or the language of a code block (`pre`)."""


MAX_PRESS_BYTES = 64
"""Of `Button.data`: what Telegram allows, the least of all platforms."""

PressVerb = Literal[
    "once", "session", "always", "deny",  # a question of the policy
    "go", "stop",  # an announced action
    "ack", "status", "mute", "report",  # an incident
    "answer",  # a question of the agent
]  # fmt: skip


def press_data(verb: PressVerb, id: str) -> str:
    """`Button.data` for a verb and the id of an approval, an incident or a question.

    Raises `ValueError` for data that a platform would cut.
    """
    data = f"{verb}:{id}"
    if not id or len(data.encode()) > MAX_PRESS_BYTES:
        raise ValueError(f"{data!r} does not fit on a button: at most {MAX_PRESS_BYTES} bytes")
    return data


def parse_press(data: str) -> tuple[PressVerb, str] | None:
    """The verb and the id; None for data that Hermes did not write."""
    verb, colon, id = data.partition(":")
    known = next((each for each in get_args(PressVerb) if each == verb), None)
    if known is None or not colon or not id or len(data.encode()) > MAX_PRESS_BYTES:
        return None
    return known, id


class OutgoingMessage(Value, kw_only=True, frozen=True):
    """A message as a channel sends it: already redacted and short enough for the channel."""

    key: str
    """The same for every attempt. Channels that can, hand it to the platform against repetition."""
    to: Address
    text: str
    """Plain text. On a platform with markup every special character is escaped."""
    spans: tuple[TextSpan, ...] = ()
    """How parts of the text are shown, by their beginning, the longer first. Where the platform
    knows no such style, the words stay."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons."""
    reply_to: str = ""
    """Reference of the message that this one answers."""
    files: tuple[str, ...] = ()
    """Paths of files to send with it."""


class MediaItem(Value, kw_only=True, frozen=True):
    """A file of a message, not downloaded yet."""

    kind: Literal["image", "audio", "file", "sticker"]
    reference: str
    """With what the channel fetches it."""
    name: str = ""
    size: int = 0
    description: str = ""
    """What the platform says of it, such as the emoji and the set of a sticker."""


class InboundMessage(Value, kw_only=True, frozen=True):
    """A message that a person sent: text, files, or the press of a button."""

    key: str
    """Unique in its channel: a message received twice has the same one."""
    address: Address
    sender: str
    """The immutable id of the platform, never a name that people can choose."""
    sender_name: str = ""
    """Only to be shown."""
    text: str = ""
    attached: tuple[AttachedText, ...] = ()
    media: tuple[MediaItem, ...] = ()
    reference: str = ""
    """With what the message can be answered or quoted."""
    quoted: str = ""
    """Reference of the message that this one answers."""
    pressed: str = ""
    """`Button.data` of the pressed button. Then there is no text."""
    press: str = ""
    """With what the press is answered: see `AnswersPresses`."""
    direct: bool = False
    """A chat with one person."""
    mentioned: bool = False
    """In a group: it names us or answers a message of ours."""
    edited: bool = False
    """It replaces an earlier message of the same person."""
    voice: bool = False
    """Spoken: it never answers an approval."""
    forwarded: bool = False
    """Another person wrote or said it."""
    sent_at: datetime | None = None


class Channel(Protocol):
    """A chat platform, used as an async context manager.

    After entry it can send. It receives nothing before `listen()` is iterated: another process may
    be the one that listens, and two connections would share the messages between them.
    """

    name: str

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...

    def listen(self) -> AsyncIterator[InboundMessage]:
        """Begins to receive. Asking for the next message acknowledges the last one.

        The caller has recorded it by then. Raises `ChannelFailed` when the connection ends.
        """
        ...

    async def send(self, message: OutgoingMessage) -> str:
        """Returns the reference of the message. Raises `DeliveryError`."""
        ...


@runtime_checkable
class EditsMessages(Protocol):
    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        """An unchanged message counts as edited. `DeliveryError.permanent`: it is gone."""
        ...

    async def delete(self, to: Address, reference: str) -> None: ...


@runtime_checkable
class ShowsTyping(Protocol):
    typing_interval_s: float
    """How long the platform shows it."""

    async def show_typing(self, to: Address) -> None: ...


@runtime_checkable
class OpensThreads(Protocol):
    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        """A thread for the message `reference`; where there are none, the address itself."""
        ...


@runtime_checkable
class AnswersPresses(Protocol):
    async def answer_press(self, press: str, text: str) -> None:
        """Shows `text` to the person who pressed, and to no one else."""
        ...


@runtime_checkable
class FetchesMedia(Protocol):
    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        """Raises `DeliveryError` when it is larger."""
        ...


@runtime_checkable
class ReceivesWebhooks(Protocol):
    """A channel whose platform delivers to our web server, which keeps the deliveries in a folder
    until `listen` has taken them."""

    def receive_from(self, folder: Path) -> None:
        """Called before `listen`."""
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """A channel whose platform repeats nothing that was sent while Hermes did not listen."""

    def resume(self, last: Mapping[Address, str]) -> None:
        """Called before `listen` with the reference of the last recorded message of each chat:
        what people wrote there since is delivered first."""
        ...
