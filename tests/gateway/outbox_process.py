"""Run as a process of its own by a test, and killed at any moment: sends what is queued."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio
import httpx2
import msgspec

from hermes.core.bus import Bus
from hermes.core.channels import InboundMessage, OutgoingMessage
from hermes.core.errors import DeliveryError
from hermes.gateway.chat_transport import ChatTransport
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.outbox import Outbox
from hermes.gateway.sinks import WebhookSink
from hermes.gateway.transports import SendingPace, SinkTransport
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.plumbing.http_client import HttpError, HttpLimits, send_http_request
from hermes.sre.settings import NoticeSettings

DISCARD_PORT = 9
LIMITS = ChannelLimits(
    max_text=60, pace=SendingPace(interval_s=0.0, per_minute=10_000, per_second_in_all=1e9)
)


class PostingChannel:
    """A chat platform whose only method is a POST."""

    name = "chat"

    def __init__(self, url: str) -> None:
        self._url = url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None: ...

    async def listen(self) -> AsyncIterator[InboundMessage]:
        for message in ():
            yield message

    async def send(self, message: OutgoingMessage) -> str:
        body = msgspec.json.encode(
            {"id": message.key, "title": message.text, "to": str(message.to)}
        )
        limits = HttpLimits(timeout_s=5, total_timeout_s=5)
        try:
            await send_http_request("POST", self._url, limits, headers={}, body=body)
        except HttpError as error:
            raise DeliveryError(str(error), may_have_arrived=error.may_have_arrived) from error
        return message.key


async def deliver(journal: Path, url: str) -> None:
    settings = NoticeSettings(briefing="", log="")
    async with SqliteJournal.open(journal) as opened:
        chat = ChatTransport(PostingChannel(url), LIMITS, home="home", folder=journal.parent)
        outbox = Outbox(Bus(opened), [SinkTransport(WebhookSink(url)), chat], settings)
        async with anyio.create_task_group() as group:
            await group.start(outbox.run)
            await outbox.wait_until_delivered()
            group.cancel_scope.cancel()


def main(journal: str, url: str) -> None:
    anyio.run(deliver, Path(journal), url)


async def load_client() -> None:
    """The event loop and the HTTP client, once for all processes."""
    with suppress(httpx2.ConnectError):
        async with httpx2.AsyncClient() as client:
            await client.get(f"http://127.0.0.1:{DISCARD_PORT}")


anyio.run(load_client)
