"""Run as a process of its own by a test, and killed at any moment: tells what is owed."""

import sys
from pathlib import Path

import anyio

from hermes.core.bus import Bus
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.notifications.notifier import Notifier
from hermes.sre.notifications.sink_protocol import SinkFilter
from hermes.sre.notifications.sinks import WebhookSink
from hermes.sre.settings import NoticeSettings


async def main(journal: Path, url: str) -> None:
    settings = NoticeSettings(briefing="", log="")
    async with SqliteJournal.open(journal) as opened:
        sinks = [(WebhookSink(url), SinkFilter(sink="webhook"))]
        herald = Notifier(Bus(opened), sinks, settings)
        async with anyio.create_task_group() as group:
            await group.start(herald.run)
            await herald.wait_until_delivered()
            group.cancel_scope.cancel()


anyio.run(main, Path(sys.argv[1]), sys.argv[2])
