"""A receiver in a process of its own, so that it can be killed. Arguments: journal, port, token."""

import sys
from functools import partial
from pathlib import Path

import anyio

from hermes.core.bus import Bus
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.web.alert_server import serve_alerts
from hermes.web.settings import WebSettings


async def main(path: str, port: str, token: str) -> None:
    async with SqliteJournal.open(Path(path)) as journal, anyio.create_task_group() as group:
        settings = WebSettings(port=int(port))
        await group.start(partial(serve_alerts, Bus(journal), settings, token=token))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
