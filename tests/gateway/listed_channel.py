"""A channel that keeps its messages in a list and fails as a test wants it."""

from collections.abc import AsyncIterator, Callable
from typing import Self

import anyio

from hermes.core.channels import Address, InboundMessage, OutgoingMessage
from hermes.core.errors import DeliveryError

Failure = Callable[[OutgoingMessage], DeliveryError | None]


class ListedChannel:
    """Sends and nothing else."""

    def __init__(self, name: str = "chat") -> None:
        self.name = name
        self.sent: list[OutgoingMessage] = []
        self.files: list[str] = []
        """The contents of the files of all messages."""
        self.fails: Failure = lambda message: None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def listen(self) -> AsyncIterator[InboundMessage]:
        for message in ():
            yield message

    async def send(self, message: OutgoingMessage) -> str:
        if (error := self.fails(message)) is not None:
            raise error
        self.sent.append(message)
        self.files += [await anyio.Path(path).read_text("utf-8") for path in message.files]
        return str(len(self.sent))

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.sent]


class ThreadedChannel(ListedChannel):
    """Edits messages and opens threads, too."""

    def __init__(self, name: str = "chat") -> None:
        super().__init__(name)
        self.shown: dict[str, str] = {}
        """The text of each message now, by its reference."""
        self.edits = 0
        self.threads: list[str] = []
        self.refuses_threads = False

    async def send(self, message: OutgoingMessage) -> str:
        reference = await super().send(message)
        self.shown[reference] = message.text
        return reference

    async def edit(self, reference: str, message: OutgoingMessage) -> None:
        if (error := self.fails(message)) is not None:
            raise error
        if reference not in self.shown:
            raise DeliveryError("message to edit not found", permanent=True)
        self.edits += 1
        self.shown[reference] = message.text

    async def delete(self, to: Address, reference: str) -> None:
        self.shown.pop(reference, None)

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        if self.refuses_threads:
            raise DeliveryError("not a forum", permanent=True)
        self.threads.append(title)
        return Address(to.channel, to.chat, f"t{reference}")
