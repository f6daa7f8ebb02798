"""Signed requests that start jobs, and deliveries of WhatsApp, over real connections."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2 as httpx
import pytest
from api_server import ApiServer, api_server, says

from hermes.app.jobs import read_jobs
from hermes.app.run_locks import RunLocks
from hermes.app.schedule.runs import JobRunner
from hermes.core.bus import Bus
from hermes.core.channels import ReceivesWebhooks
from hermes.core.events.jobs import JobDue
from hermes.core.events.runs import MessageAdded
from hermes.gateway.channels.inbound.delivery_folder import DeliveryFolder, delivery_folder
from hermes.gateway.channels.whatsapp.runtime import WhatsAppChannel
from hermes.plumbing.signatures import sign_body, sign_timed_body
from hermes.web.webhooks import MAX_HOOK_BODY_BYTES, MAX_STARTS_PER_MINUTE
from standins.whatsapp import APP_SECRET, NUMBER, TOKEN, WhatsAppStandin, sign

pytestmark = pytest.mark.anyio

SECRET = "hook-5ecre7"
CONFIG = """
web:
  hooks:
    deploy: {job: after-deploy, secret_variable: DEPLOY_HOOK_SECRET}
    unset: {job: after-deploy, secret_variable: OTHER_HOOK_SECRET}
"""
JOB = {"schedule": "every day at 9", "task": "look at it", "name": "after-deploy"}
BODY = b'{"deployed": "shop 1.4"}'


@asynccontextmanager
async def hook_server(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, httpx.AsyncClient]]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG)
    (home / ".env").write_text(f"DEPLOY_HOOK_SECRET={SECRET}\n")
    async with api_server(tmp_path, [says("all is well")]) as server:
        async with server.client(await server.token("alice")) as client:
            added = await client.post("/api/jobs", json=JOB)
            assert added.status_code == 200, added.text
        async with server.client("") as client:
            yield server, client


def signed(body: bytes, *, at: float | None = None, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    signature = sign_timed_body(secret, stamp, body)
    return {"x-hermes-timestamp": stamp, "x-hermes-signature": signature}


async def due_jobs(server: ApiServer) -> list[JobDue]:
    found = [each.event async for each in server.journal.read(kinds=("job.due",))]
    return [event for event in found if isinstance(event, JobDue)]


async def test_a_signed_request_starts_its_job_with_the_body_as_words_of_others(
    tmp_path: Path,
) -> None:
    async with hook_server(tmp_path) as (server, client):
        done = await client.post("/hooks/deploy", content=BODY, headers=signed(BODY))
        assert done.status_code == 200, done.text
        assert done.json()["job"] == "after-deploy"
        table = await read_jobs(server.loaded, server.journal)
        job = table.jobs["after-deploy"]
        (row,) = job.open
        locks = RunLocks(server.loaded.home / "locks")
        await JobRunner(server.loaded, Bus(server.journal), locks, table, {}).run(job, row)
        locks.close()
        added = [each.event async for each in server.journal.read(kinds=("message.added",))]
    (asked,) = [
        event.message
        for event in added
        if isinstance(event, MessageAdded) and event.message.role == "user"
    ]
    assert asked.text == "look at it"
    (attached,) = asked.attached
    assert (attached.source, attached.text, attached.author) == ("webhook", BODY.decode(), "deploy")


async def test_a_signature_of_github_counts_and_a_delivery_is_refused_the_second_time(
    tmp_path: Path,
) -> None:
    async with hook_server(tmp_path) as (server, client):
        headers = {"x-hub-signature-256": sign_body(SECRET, BODY), "x-github-delivery": "d-1"}
        assert (
            await client.post("/hooks/deploy", content=BODY, headers=headers)
        ).status_code == 200
        again = await client.post("/hooks/deploy", content=BODY, headers=headers)
        assert again.status_code == 409
        renamed = {**headers, "x-github-delivery": "d-2"}  # the id is not signed
        assert (
            await client.post("/hooks/deploy", content=BODY, headers=renamed)
        ).status_code == 409
        other = b"another body"
        same_id = {**headers, "x-hub-signature-256": sign_body(SECRET, other)}
        assert (
            await client.post("/hooks/deploy", content=other, headers=same_id)
        ).status_code == 409
        assert len(await due_jobs(server)) == 1


@pytest.mark.parametrize("shift_s", [-301, 600])
async def test_an_old_or_future_request_is_refused(tmp_path: Path, shift_s: int) -> None:
    async with hook_server(tmp_path) as (server, client):
        headers = signed(BODY, at=time.time() + shift_s)
        done = await client.post("/hooks/deploy", content=BODY, headers=headers)
        assert done.status_code == 401
        assert await due_jobs(server) == []


async def test_wrong_and_missing_signatures_start_nothing(tmp_path: Path) -> None:
    async with hook_server(tmp_path) as (server, client):
        good = signed(BODY)
        wrong: list[tuple[bytes, dict[str, str]]] = [
            (BODY, {}),
            (BODY, signed(BODY, secret="another")),
            (BODY + b" ", good),
            (BODY, {**good, "x-hermes-timestamp": str(int(good["x-hermes-timestamp"]) + 1)}),
            (BODY, {"x-hermes-signature": good["x-hermes-signature"]}),
            (BODY, {"x-hub-signature-256": "sha256="}),
            (BODY, {"x-hub-signature-256": ""}),
        ]
        for body, headers in wrong:
            done = await client.post("/hooks/deploy", content=body, headers=headers)
            assert done.status_code == 401, headers
        # Without a secret nobody can sign, also not with an empty one.
        unset = await client.post("/hooks/unset", content=BODY, headers=signed(BODY, secret=""))
        assert unset.status_code == 401
        assert (await client.post("/hooks/nonsense", content=BODY, headers=good)).status_code == 404
        large = b"x" * (MAX_HOOK_BODY_BYTES + 1)
        done = await client.post("/hooks/deploy", content=large, headers=signed(large))
        assert done.status_code == 413
        assert await due_jobs(server) == []


async def test_one_hook_starts_a_limited_number_of_jobs(tmp_path: Path) -> None:
    async with hook_server(tmp_path) as (server, client):
        statuses = []
        for number in range(MAX_STARTS_PER_MINUTE + 1):
            body = f"delivery {number}".encode()
            done = await client.post("/hooks/deploy", content=body, headers=signed(body))
            statuses.append(done.status_code)
        assert statuses == [200] * MAX_STARTS_PER_MINUTE + [429]
        assert len({each.occurrence for each in await due_jobs(server)}) == MAX_STARTS_PER_MINUTE


@asynccontextmanager
async def whatsapp_server(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, httpx.AsyncClient]]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(f"channels: {{whatsapp: {{phone_number_id: '{NUMBER}'}}}}\n")
    secrets = {
        "WHATSAPP_TOKEN": TOKEN,
        "WHATSAPP_APP_SECRET": APP_SECRET,
        "WHATSAPP_VERIFY_TOKEN": "verify-5ecre7",
    }
    (home / ".env").write_text("".join(f"{name}={text}\n" for name, text in secrets.items()))
    async with api_server(tmp_path) as server, server.client("") as client:
        yield server, client


async def test_the_challenge_of_meta_is_answered_only_with_our_verify_token(
    tmp_path: Path,
) -> None:
    async with whatsapp_server(tmp_path) as (_, client):
        query = {"hub.mode": "subscribe", "hub.verify_token": "verify-5ecre7"}
        query["hub.challenge"] = "1158201444"
        answer = await client.get("/channels/whatsapp", params=query)
        assert (answer.status_code, answer.text) == (200, "1158201444")
        query["hub.verify_token"] = "guess"
        assert (await client.get("/channels/whatsapp", params=query)).status_code == 403


async def test_a_delivery_waits_for_the_channel_until_it_is_taken(tmp_path: Path) -> None:
    standin = WhatsAppStandin()
    for text in ("first", "second"):
        standin.deliver(type="text", text={"body": text})
    async with whatsapp_server(tmp_path) as (server, client):
        body = standin.waiting[0]
        forged = {"x-hub-signature-256": sign(body + b" ")}
        refused = await client.post("/channels/whatsapp", content=body, headers=forged)
        assert refused.status_code == 401
        for body in standin.waiting:
            headers = {"x-hub-signature-256": sign(body)}
            done = await client.post("/channels/whatsapp", content=body, headers=headers)
            assert done.status_code == 200
        folder = delivery_folder(server.loaded.home, "whatsapp")
    channel = WhatsAppChannel(standin.settings(), TOKEN, app_secret=APP_SECRET)
    assert isinstance(channel, ReceivesWebhooks)
    channel.receive_from(folder)
    messages = channel.listen()
    with anyio.fail_after(60):
        assert (await anext(messages)).text == "first"
        # Not taken before the next one is asked for: a crash in between loses nothing.
        assert len(DeliveryFolder(folder).waiting()) == 2
        assert (await anext(messages)).text == "second"
        assert len(DeliveryFolder(folder).waiting()) == 1


async def test_without_whatsapp_there_is_no_such_channel(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client("") as client:
        assert (await client.get("/channels/whatsapp")).status_code == 404
        done = await client.post("/channels/whatsapp", content=b"{}")
        assert done.status_code == 404
