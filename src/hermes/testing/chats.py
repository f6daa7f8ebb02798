"""A chat channel in the process, for tests of what talks through channels.

Messages are put in with `receive`; what was sent is in `sent`. It keeps the promise of `Channel`:
a message counts as acknowledged when the next one is asked for.
"""

from collections.abc import AsyncIterator, Callable
from typing import Self

import anyio
from msgspec.structs import replace

from hermes.core.channels import Address, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError


class MemoryChannel:
    """Implements `Channel` and all abilities but threads."""

    typing_interval_s = 4.0

    def __init__(self, name: str = "telegram") -> None:
        self.name = name
        self.sent: list[OutgoingMessage] = []
        self.shown: dict[str, OutgoingMessage] = {}
        """Messages as the chat shows them now, by reference."""
        self.edits: list[tuple[str, OutgoingMessage]] = []
        self.deleted: list[str] = []
        self.typing: list[Address] = []
        self.press_answers: list[tuple[str, str]] = []
        self.media: dict[str, bytes] = {}
        self.acknowledged: list[str] = []
        self.failure: Exception | None = None
        """Raised by `listen` instead of the next message."""
        self._waiting: list[InboundMessage] = []
        self._changed = anyio.Event()
        self._number = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    def receive(self, message: InboundMessage) -> None:
        """A person sends a message; it is delivered again until it is acknowledged."""
        self._waiting.append(message)
        self._wake()

    def break_connection(self, error: Exception | None = None) -> None:
        self.failure = error or ChannelFailed("the connection ended")
        self._wake()

    async def listen(self) -> AsyncIterator[InboundMessage]:
        while True:
            if self.failure is not None:
                error, self.failure = self.failure, None
                raise error
            if not self._waiting:
                await self._changed.wait()
                continue
            message = self._waiting[0]
            yield message
            self._waiting.remove(message)
            self.acknowledged.append(message.key)
            self._wake()

    async def send(self, message: OutgoingMessage) -> str:
        self._number += 1
        reference = f"m{self._number}"
        self.sent.append(message)
        self.shown[reference] = message
        self._wake()
        return reference

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        if reference not in self.shown:
            raise DeliveryError("the message is gone", permanent=True)
        self.edits.append((reference, message))
        self.shown[reference] = replace(message, key=self.shown[reference].key)
        self._wake()

    async def delete(self, to: Address, reference: str) -> None:
        self.shown.pop(reference, None)
        self.deleted.append(reference)

    async def show_typing(self, to: Address) -> None:
        self.typing.append(to)
        self._wake()

    async def answer_press(self, press: str, text: str) -> None:
        self.press_answers.append((press, text))
        self._wake()

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        data = self.media[media.reference]
        if len(data) > max_bytes:
            raise DeliveryError("the file is too large", permanent=True)
        return data

    @property
    def texts(self) -> list[str]:
        """What was sent and not deleted."""
        return [message.text for message in self.shown.values()]

    async def wait_for(self, text: str, *, count: int = 1, timeout_s: float = 90.0) -> str:
        """The reference of a message with this text, once it was sent `count` times."""
        with anyio.fail_after(timeout_s):
            while True:
                found = [key for key, message in self.shown.items() if text in message.text]
                if len(found) >= count:
                    return found[-1]
                await self._changed.wait()

    async def until(self, done: Callable[[], bool], *, timeout_s: float = 90.0) -> None:
        """Wait until something that this channel saw makes it true."""
        with anyio.fail_after(timeout_s):
            while not done():
                await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
