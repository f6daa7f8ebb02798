"""Run as a process of its own by a test, and killed at any moment: tells what is owed."""

import sys
from pathlib import Path

import anyio

from hermes.core.bus import Bus
from hermes.memory.journal import SqliteJournal
from hermes.sre.notices.herald import Herald
from hermes.sre.notices.settings import NoticeSettings
from hermes.sre.notices.sink import Wanted
from hermes.sre.notices.sinks.web import WebhookSink


async def main(journal: Path, url: str) -> None:
    settings = NoticeSettings(briefing="", log="")
    async with SqliteJournal.open(journal) as opened:
        sinks = [(WebhookSink(url), Wanted(sink="webhook"))]
        herald = Herald(Bus(opened), sinks, settings)
        async with anyio.create_task_group() as group:
            await group.start(herald.run)
            await herald.until_told()
            group.cancel_scope.cancel()


anyio.run(main, Path(sys.argv[1]), sys.argv[2])
