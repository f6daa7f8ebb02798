"""Conversations that programs begin, follow, steer and end over the API."""

from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
import openai
import pytest
from api_server import ApiServer, api_server, runs, says
from test_api_resources import waiting_approval

pytestmark = pytest.mark.anyio


async def wait_for(server: ApiServer, kind: str, count: int = 1) -> None:
    with anyio.fail_after(60):
        while True:
            newest = await server.journal.last()
            if len([each async for each in server.journal.read(kinds=(kind,))]) >= count:
                return
            await server.journal.changed(newest)


async def begin(client: httpx.AsyncClient, text: str) -> str:
    done = await client.post("/api/runs", json={"text": text})
    assert done.status_code == 200, done.text
    run: str = done.json()["run"]
    return run


async def turns_of(client: httpx.AsyncClient, run: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/api/runs/{run}")).json()["turns"]
    return found


async def test_a_run_is_begun_continued_and_read(tmp_path: Path) -> None:
    async with (
        api_server(tmp_path, [says("four"), says("eight")]) as server,
        server.client(await server.token("alice")) as client,
    ):
        run = await begin(client, "2 + 2?")
        await wait_for(server, "turn.ended")
        second = await client.post(f"/api/runs/{run}/say", json={"text": "twice that?"})
        assert second.json()["turn"] == 2
        await wait_for(server, "turn.ended", 2)
        turns = await turns_of(client, run)
        listed = (await client.get("/api/runs")).json()["runs"]
    said = [(each["by"], each["text"], each["answer"], each["outcome"]) for each in turns]
    assert said == [
        ("alice", "2 + 2?", "four", "answered"),
        ("alice", "twice that?", "eight", "answered"),
    ]
    assert [each["id"] for each in listed] == [run]


async def test_the_run_of_another_person_is_not_there(tmp_path: Path) -> None:
    async with api_server(tmp_path, [says("a secret plan")]) as server:
        async with server.client(await server.token("alice")) as client:
            run = await begin(client, "what is planned?")
            await wait_for(server, "turn.ended")
        async with server.client(await server.token("mallory")) as other:
            assert (await other.get("/api/runs")).json()["runs"] == []
            assert (await other.get(f"/api/runs/{run}")).status_code == 404
            for verb in ("say", "steer"):
                asked = await other.post(f"/api/runs/{run}/{verb}", json={"text": "tell me"})
                assert asked.status_code == 404
            assert (await other.post(f"/api/runs/{run}/stop")).status_code == 404
            assert (await other.delete(f"/v1/responses/resp_{run}.1")).status_code == 404


@pytest.mark.command
async def test_a_running_turn_is_steered_and_stopped(tmp_path: Path) -> None:
    async with api_server(tmp_path, [runs("rm -rf /srv/important"), says("done")]) as server:
        token = await server.token("alice")
        async with server.client(token) as client:
            run = await begin(client, "clean up")
            await waiting_approval(server, token)
            steered = await client.post(f"/api/runs/{run}/steer", json={"text": "not that one"})
            assert steered.json() == {"run": run, "state": "steered"}
            assert (await client.post(f"/api/runs/{run}/stop")).json()["state"] == "stopped"
            await wait_for(server, "turn.ended")
            (turn,) = await turns_of(client, run)
            assert turn["outcome"] == "interrupted"
            late = await client.post(f"/api/runs/{run}/steer", json={"text": "hello?"})
            assert late.status_code == 409


@pytest.mark.command  # the client library asks uname for the platform
async def test_a_deleted_response_is_gone(tmp_path: Path) -> None:
    async with api_server(tmp_path, [says("four")]) as server:
        token = await server.token()
        async with (
            openai.AsyncOpenAI(
                base_url=f"{server.address}/v1", api_key=token, max_retries=0
            ) as sdk,
            server.client(token) as client,
        ):
            one = await sdk.responses.create(model="hermes", input="2 + 2?")
            await sdk.responses.delete(one.id)
            with pytest.raises(openai.NotFoundError):
                await sdk.responses.retrieve(one.id)
            run = one.id.removeprefix("resp_").partition(".")[0]
            assert (await client.get(f"/api/runs/{run}")).status_code == 404
            assert (await client.get("/api/runs")).json()["runs"] == []


@pytest.mark.parametrize("body", [b"", b"{}", b'{"text": " "}', b'{"text": "x", "more": 1}'])
async def test_a_run_without_words_is_not_begun(tmp_path: Path, body: bytes) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        assert (await client.post("/api/runs", content=body)).status_code == 400
        assert (await client.get("/api/runs")).json()["runs"] == []
