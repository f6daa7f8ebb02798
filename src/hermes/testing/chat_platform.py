"""The other side of a chat channel under test, and how the contract suite reads messages."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import anyio
import msgspec

from hermes.core.channels import (
    Address,
    Button,
    CatchesUp,
    Channel,
    InboundMessage,
    OutgoingMessage,
)
from hermes.core.errors import ChannelFailed

ChatFailure = Literal["rate limit", "server error", "lost answer", "refused token"]
"""`lost answer`: the platform acts and the connection ends before its answer is complete."""
MAX_WAIT_S = 20.0
"""Only a broken channel waits so long."""


class ShownMessage(msgspec.Struct, kw_only=True):
    """A message as people see it."""

    reference: str
    chat: str
    thread: str = ""
    text: str = ""
    """Without the platform's markup."""
    styled: dict[str, str] = {}
    """By style: the words that have it."""
    buttons: list[list[tuple[str, str]]] = []
    """Rows of label and data."""
    reply_to: str = ""
    files: list[tuple[str, bytes]] = []
    notifies: bool = False
    """It calls people by a mention."""


class SendingPlatform(Protocol):
    """The other side of a channel that sends: it shows what people see.

    It checks every call of the channel, and notes in `problems` what the platform would refuse.
    """

    secrets: Sequence[str]
    problems: list[str]
    group: Address
    """A chat with several people."""

    def connect(self) -> Channel:
        """A new channel to this platform, not entered."""
        ...

    def shown(self) -> list[ShownMessage]: ...
    def fail_next(self, failure: ChatFailure) -> None:
        """Set how the next call to send a message fails."""
        ...

    def receivers(self) -> int:
        """Return how many connections for receiving were opened."""
        ...


class ChatPlatform(SendingPlatform, Protocol):
    """The other side of a chat: it also does what people do."""

    person: str
    """The immutable id of the person who writes and presses."""
    private_answers: list[str]
    """What only the person who pressed saw."""
    typing: list[str]
    """The chats in which typing was shown."""

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        """The person writes; returns the reference."""
        ...

    async def repeat_last(self) -> None:
        """Delivers the last message or press once more."""
        ...

    async def rewrite(self, reference: str, text: str) -> None:
        """The person edits a message."""
        ...

    async def quote(self, reference: str, text: str) -> None:
        """The person answers a message in the group."""
        ...

    async def upload(self, name: str, data: bytes) -> None: ...
    async def press(self, reference: str, data: str) -> None: ...
    async def drop_connection(self) -> None:
        """Ends the connection by which messages are received."""
        ...

    def remove(self, reference: str) -> None:
        """A person deletes a message of the channel."""
        ...

    async def receiving(self) -> None:
        """Waits until a connection for receiving is open."""
        ...


class NextMessage(Protocol):
    async def __call__(self) -> InboundMessage: ...


@asynccontextmanager
async def listening(platform: ChatPlatform, channel: Channel) -> AsyncIterator[NextMessage]:
    """Reads messages one by one, connected from the start; the last one is not acknowledged."""
    wants, wanted = anyio.create_memory_object_stream[None](1)
    gives, given = anyio.create_memory_object_stream[InboundMessage | ChannelFailed](1)
    asked = True

    async def read() -> None:
        messages = channel.listen()
        try:
            async for _ in wanted:
                try:
                    await gives.send(await anext(messages))
                except ChannelFailed as error:
                    await gives.send(error)
        finally:
            with anyio.CancelScope(shield=True):
                close = getattr(messages, "aclose", None)
                await close() if close is not None else None

    async def next_message() -> InboundMessage:
        nonlocal asked
        if not asked:
            await wants.send(None)
        asked = False
        with anyio.fail_after(MAX_WAIT_S):
            found = await given.receive()
        if isinstance(found, ChannelFailed):
            raise found
        return found

    with wants, wanted, gives, given:
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await wants.send(None)
            with anyio.fail_after(MAX_WAIT_S):
                await platform.receiving()
            yield next_message
            group.cancel_scope.cancel()


@asynccontextmanager
async def restarted(platform: ChatPlatform, last: InboundMessage) -> AsyncIterator[NextMessage]:
    """Listens again, as after a restart that knows `last` from the journal."""
    async with platform.connect() as channel:
        if isinstance(channel, CatchesUp):
            channel.resume({last.address: last.reference})
        async with listening(platform, channel) as next_message:
            yield next_message


async def next_message_but(key: str, next_message: NextMessage) -> InboundMessage:
    """Platforms acknowledge several messages at a time, so an earlier one may come again."""
    found = await next_message()
    return await next_message() if found.key == key else found


def message(
    to: Address,
    text: str,
    *,
    buttons: tuple[tuple[Button, ...], ...] = (),
    reply_to: str = "",
    files: tuple[str, ...] = (),
) -> OutgoingMessage:
    return OutgoingMessage(
        key=f"notice-{text or 'files'}",
        to=to,
        text=text,
        buttons=buttons,
        reply_to=reply_to,
        files=files,
    )


def assert_hidden(platform: SendingPlatform, text: str) -> None:
    assert not [secret for secret in platform.secrets if secret in text]
