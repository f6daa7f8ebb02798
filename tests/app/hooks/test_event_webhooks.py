"""Webhooks get the events that hooks get: signed, retried, and each event once in the queue."""

import hashlib
import hmac
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hermes.app.hooks.runner import HookRunner
from hermes.app.hooks.webhooks import open_event_webhooks
from hermes.app.run_locks import RunLocks
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.incidents import IncidentOpened
from hermes.core.events.operations import HealthChecked
from hermes.gateway.outbox import Outbox
from hermes.gateway.settings import EventWebhookSettings, HookSettings
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings, load
from notice_server import NoticeServer, door

pytestmark = pytest.mark.anyio
KEY = "a-long-shared-secret"
OPENED = IncidentOpened(run="incident-1", incident="1", title="shop is down", severity="P1")


def settings(folder: Path, **options: Any) -> LoadedSettings:
    variables = {"PATH": os.environ["PATH"], "HOOK_KEY": KEY}
    loaded = load(home=folder, variables=variables, overrides={"sre.notices.pause": "0.01"})
    webhook = EventWebhookSettings(
        **{"url": "http://x", "events": ("incident:*",), "secret_variable": "HOOK_KEY"} | options
    )
    hooks = HookSettings(webhooks=(webhook,))
    changed = msgspec.structs.replace(loaded.settings, hooks=hooks)
    return msgspec.structs.replace(loaded, settings=changed)


@asynccontextmanager
async def running(loaded: LoadedSettings) -> AsyncIterator[JournalStore]:
    async with open_journal(loaded.store) as journal, anyio.create_task_group() as group:
        bus, locks = Bus(journal), RunLocks(loaded.home / "locks")
        outbox = Outbox(bus, open_event_webhooks(loaded), loaded.settings.sre.notices)
        await group.start(outbox.run)
        try:
            group.start_soon(HookRunner(loaded, bus, locks).run)
            await wait_for(journal, "hook.cursor", 1)  # it begins here
            yield journal
        finally:
            group.cancel_scope.cancel()
            locks.close()


async def wait_for(journal: JournalStore, kind: str, count: int) -> None:
    with anyio.fail_after(60):
        while True:
            last = await journal.last()
            if len([0 async for _ in journal.read(kinds=(kind,))]) >= count:
                return
            await journal.changed(last)


def check_signature(server: NoticeServer, number: int) -> None:
    headers, body = server.headers[number], server.bodies[number]
    signed = headers["X-Hermes-Timestamp"].encode() + b"." + body
    wanted = hmac.new(KEY.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["X-Hermes-Signature"] == f"sha256={wanted}"


async def test_an_event_is_posted_signed_and_retried(tmp_path: Path) -> None:
    with door(lambda number: 503 if number == 1 else 200) as server:
        loaded = settings(tmp_path, url=server.url)
        async with running(loaded) as journal:
            await journal.append(HealthChecked(run="watch", ok=False))
            [number] = await journal.append(OPENED)
            await wait_for(journal, "notice.sent", 1)
        async with running(loaded) as journal:
            await journal.append(OPENED)
            await wait_for(journal, "notice.sent", 2)
    assert len(server.bodies) == 3
    assert [each["event"] for each in server.said] == ["incident:opened"] * 3
    assert server.said[0]["number"] == server.said[1]["number"] == number
    assert server.said[2]["number"] > number
    assert server.said[1]["context"]["title"] == "shop is down"
    assert server.headers[1]["X-Hermes-Event"] == "incident:opened"
    assert server.headers[0]["Idempotency-Key"] == server.headers[1]["Idempotency-Key"]
    check_signature(server, 0)
    check_signature(server, 1)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"url": "ftp://x"}, "http://"),
        ({"secret_variable": "NO_SUCH_KEY"}, "NO_SUCH_KEY is missing"),
        ({"events": ("incident:open",)}, "did you mean incident:opened?"),
        ({"events": ()}, "names no events"),
    ],
)
def test_a_webhook_that_can_never_work_is_refused(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(SettingsError, match=r"hooks\.webhooks: events-webhook-1") as found:
        open_event_webhooks(settings(tmp_path, **options))
    assert why in str(found.value)
