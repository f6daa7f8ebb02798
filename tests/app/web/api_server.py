"""A real API server over a home of a test, with a scripted model."""

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2 as httpx
from anyio.abc import TaskStatus

from hermes.app.web.server import open_api
from hermes.core.bus import Bus
from hermes.core.events.access import AccessRight
from hermes.memory.store import JournalStore, open_journal
from hermes.plumbing.http_service import HttpRoute
from hermes.settings.load import LoadedSettings, load
from hermes.web.alert_server import serve_alerts
from hermes.web.tokens import ALL_RIGHTS, create_token


def says(text: str) -> dict[str, object]:
    return {"role": "assistant", "text": text}


def runs(command: str, call: str = "c1") -> dict[str, object]:
    arguments = {"command": command}
    return {
        "role": "assistant",
        "calls": [{"id": call, "name": "terminal", "arguments": arguments}],
    }


def calls(tool: str, arguments: dict[str, str]) -> dict[str, object]:
    return {"role": "assistant", "calls": [{"id": tool, "name": tool, "arguments": arguments}]}


@dataclass
class ApiServer:
    loaded: LoadedSettings
    journal: JournalStore
    address: str
    folder: Path

    async def token(self, person: str = "alice", rights: Sequence[AccessRight] = ALL_RIGHTS) -> str:
        text, event = create_token(person, rights)
        await self.journal.append(event)
        return text

    async def first_event(self, kind: str) -> object:
        while True:
            last = await self.journal.last()
            async for recorded in self.journal.read(kinds=(kind,)):
                return recorded.event
            await self.journal.changed(last)

    @asynccontextmanager
    async def client(self, token: str) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(base_url=self.address, headers=headers, timeout=60) as client:
            yield client


@asynccontextmanager
async def api_server(
    tmp_path: Path, replies: Sequence[dict[str, object]] = (), **more: str
) -> AsyncIterator[ApiServer]:
    script, folder = tmp_path / "script.jsonl", tmp_path / "work"
    folder.mkdir(exist_ok=True)
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    overrides = {"model.default": f"scripted:{script}", "web.port": "0", **more}
    loaded = load(
        home=tmp_path / "home", variables={"PATH": os.environ["PATH"]}, overrides=overrides
    )
    async with (
        open_api(loaded, folder=folder) as routes,
        open_journal(loaded.store) as journal,
        anyio.create_task_group() as group,
    ):
        address = await group.start(_serve, loaded, journal, routes)
        yield ApiServer(loaded, journal, address, folder)
        group.cancel_scope.cancel()


async def _serve(
    loaded: LoadedSettings,
    journal: JournalStore,
    routes: Sequence[HttpRoute],
    *,
    task_status: TaskStatus[str],
) -> None:
    await serve_alerts(Bus(journal), loaded.settings.web, api=routes, task_status=task_status)
