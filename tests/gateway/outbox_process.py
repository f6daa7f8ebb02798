"""Run as a process of its own by a test, and killed at any moment: sends what is queued."""

from contextlib import suppress
from pathlib import Path

import anyio
import httpx2

from hermes.core.bus import Bus
from hermes.gateway.outbox import Outbox
from hermes.gateway.sinks import WebhookSink
from hermes.gateway.transports import SinkTransport
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.settings import NoticeSettings

DISCARD_PORT = 9


async def deliver(journal: Path, url: str) -> None:
    settings = NoticeSettings(briefing="", log="")
    async with SqliteJournal.open(journal) as opened:
        outbox = Outbox(Bus(opened), [SinkTransport(WebhookSink(url))], settings)
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
