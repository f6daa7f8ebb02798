"""`GET /api/events` over a real connection: resumed, filtered, and counted."""

from pathlib import Path

import anyio
import httpx2 as httpx
import pytest
from api_server import api_server

from hermes.core.events.access import ACCESS_RUN, TokenRevoked
from hermes.core.events.base import RunOrigin
from hermes.core.events.incidents import IncidentAcknowledged
from hermes.core.events.runs import MessageAdded, RunStarted
from hermes.core.messages import Message
from hermes.web.access import MAX_REQUESTS_PER_MINUTE, MAX_STREAMS
from hermes.web.tokens import TokenRegistry

pytestmark = pytest.mark.anyio


def acknowledged(by: str) -> IncidentAcknowledged:
    return IncidentAcknowledged(run="incident-1", incident="incident-1", by=by)


async def test_events_arrive_live_and_a_lost_stream_is_resumed(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        query = {"kinds": "incident.acknowledged", "after": "0"}
        seen = ""
        with anyio.fail_after(60):
            async with client.stream("GET", "/api/events", params=query) as stream:
                assert stream.headers["content-type"] == "text/event-stream"
                parts = stream.aiter_text()
                (first,) = await server.journal.append(acknowledged("alice"))
                while "alice" not in seen:
                    seen += await anext(parts)
            assert f"id: {first}\nevent: incident.acknowledged\n" in seen
            await server.journal.append(acknowledged("bob"))
            seen, headers = "", {"last-event-id": str(first)}
            async with client.stream("GET", "/api/events", params=query, headers=headers) as again:
                parts = again.aiter_text()
                while "bob" not in seen:
                    seen += await anext(parts)
            assert "alice" not in seen


async def test_a_wrong_number_or_kind_is_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        for query in ({"after": "-1"}, {"after": "٣"}, {"kinds": "nonsense"}):
            answer = await client.get("/api/events", params=query)
            assert answer.status_code == 400
            assert answer.headers["content-type"] == "application/problem+json"


async def test_a_token_has_few_streams_and_requests(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        async with anyio.create_task_group() as group:
            for _ in range(MAX_STREAMS):
                opened = anyio.Event()

                async def hold(opened: anyio.Event = opened) -> None:
                    async with client.stream("GET", "/api/events") as stream:
                        parts = stream.aiter_text()  # kept: the stream closes with it
                        await anext(parts)
                        opened.set()
                        await anyio.sleep_forever()

                group.start_soon(hold)
                await opened.wait()
            with anyio.fail_after(60):
                answer = await client.get("/api/events")
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
            group.cancel_scope.cancel()
        statuses = [
            (await client.get("/v1/models")).status_code for _ in range(MAX_REQUESTS_PER_MINUTE)
        ]
        assert statuses[0] == 200
        assert statuses[-1] == 429


async def test_a_revoked_token_is_refused_at_once(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        assert (await client.get("/v1/models")).status_code == 200
        (token,) = await TokenRegistry(server.journal).list_tokens()
        await server.journal.append(TokenRevoked(run=ACCESS_RUN, token=token.id))
        assert (await client.get("/v1/models")).status_code == 401


@pytest.mark.parametrize(("origin", "audience"), [("chat", "telegram:1"), ("cli", ""), ("acp", "")])
async def test_a_private_chat_and_a_terminal_are_shown_to_nobody_else(
    tmp_path: Path, origin: RunOrigin, audience: str
) -> None:
    said = Message(role="user", text="my password is a secret of mine")
    async with api_server(tmp_path) as server:
        await server.journal.append(
            RunStarted(run="run-1", origin=origin, by="alice", audience=audience, task="mine"),
            MessageAdded(run="run-1", message=said),
            acknowledged("end"),
        )
        for person, visible in (("alice", True), ("bob", False)):
            async with server.client(await server.token(person)) as client:
                listed = (await client.get("/api/runs")).json()["runs"]
                assert [run["id"] for run in listed] == (["run-1"] if visible else [])
                seen = ""
                with anyio.fail_after(60):
                    async with client.stream("GET", "/api/events", params={"after": "0"}) as stream:
                        parts = stream.aiter_text()
                        while '"by":"end"' not in seen:
                            seen += await anext(parts)
                assert ("a secret of mine" in seen) is visible


async def test_metrics_count_open_streams(tmp_path: Path) -> None:
    async def open_streams(client: httpx.AsyncClient) -> int:
        text = (await client.get("/metrics")).text
        (line,) = [each for each in text.splitlines() if each.startswith("hermes_streams_open ")]
        return int(line.split()[1])

    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        assert await open_streams(client) == 0
        async with client.stream("GET", "/api/events") as stream:
            parts = stream.aiter_bytes()
            await anext(parts)
            assert await open_streams(client) == 1
        with anyio.fail_after(60):
            while await open_streams(client):
                continue
