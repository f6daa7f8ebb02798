"""Requests that are sent again with the same `Idempotency-Key`, over real connections."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2 as httpx
import pytest
from api_server import ApiServer, api_server, runs, says
from test_api_resources import opened, waiting_approval

from hermes.plumbing.http_service import HttpReply, HttpRequest
from hermes.web.stored_answers import AnswerStore

pytestmark = pytest.mark.anyio

ASK = {"messages": [{"role": "user", "content": "2 + 2?"}]}


def key(text: str) -> dict[str, str]:
    return {"idempotency-key": text}


async def count(server: ApiServer, kind: str) -> int:
    return len([each async for each in server.journal.read(kinds=(kind,))])


async def test_the_same_request_gets_the_same_answer_and_is_done_once(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        body = {"text": "mails wait", "service": "mail"}
        first = await client.post("/api/incidents", json=body, headers=key("one"))
        again = await client.post("/api/incidents", json=body, headers=key("one"))
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.content == first.content
        assert again.headers["idempotent-replayed"] == "true"
        assert await count(server, "alert.raised") == 1
        other = await client.post("/api/incidents", json=body, headers=key("two"))
        assert other.json()["alert"] != first.json()["alert"]


async def test_another_body_or_path_with_the_same_key_is_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        await server.journal.append(opened("incident-1"))
        body = {"text": "mails wait"}
        await client.post("/api/incidents", json=body, headers=key("one"))
        changed = await client.post("/api/incidents", json={"text": "x"}, headers=key("one"))
        assert changed.status_code == 422
        elsewhere = await client.post(
            "/api/incidents/incident-1/close", json=body, headers=key("one")
        )
        assert elsewhere.status_code == 422
        assert await count(server, "incident.closed") == 0


async def test_the_key_of_another_token_is_another_key(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        for person in ("alice", "bob"):
            async with server.client(await server.token(person)) as client:
                done = await client.post("/api/incidents", json={"text": "x"}, headers=key("one"))
                assert "idempotent-replayed" not in done.headers
        assert await count(server, "alert.raised") == 2


async def test_a_refused_request_may_be_sent_again(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        path = "/api/incidents/incident-1/ack"
        assert (await client.post(path, headers=key("one"))).status_code == 404
        await server.journal.append(opened("incident-1"))
        assert (await client.post(path, headers=key("one"))).status_code == 200


async def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        for text in ("", "x" * 256, "a\tb"):
            done = await client.post("/api/incidents", json={"text": "x"}, headers=key(text))
            assert done.status_code == 400, text
        assert await count(server, "alert.raised") == 0


async def test_an_answer_is_given_again_after_a_restart(tmp_path: Path) -> None:
    async with api_server(tmp_path, [says("four"), says("five")]) as server:
        token = await server.token()
        async with server.client(token) as client:
            first = await client.post("/v1/chat/completions", json=ASK, headers=key("one"))
    async with api_server(tmp_path, [says("six")]) as server, server.client(token) as client:
        again = await client.post("/v1/chat/completions", json=ASK, headers=key("one"))
        assert again.json() == first.json()
        assert await count(server, "run.started") == 1


async def test_a_stream_is_repeated_as_a_whole(tmp_path: Path) -> None:
    async with (
        api_server(tmp_path, [says("one two"), says("three")]) as server,
        server.client(await server.token()) as client,
    ):
        body = {**ASK, "stream": True}
        first = await client.post("/v1/chat/completions", json=body, headers=key("one"))
        again = await client.post("/v1/chat/completions", json=body, headers=key("one"))
        assert first.text.endswith("data: [DONE]\n\n")
        assert again.text == first.text
        assert again.headers["content-type"] == "text/event-stream"


@pytest.mark.command
async def test_while_the_first_is_worked_on_the_second_is_told_to_wait(tmp_path: Path) -> None:
    replies = [runs("rm -rf /srv/important"), says("it was refused")]
    async with api_server(tmp_path, replies) as server:
        token = await server.token()
        async with server.client(token) as client, anyio.create_task_group() as group:
            answers: list[httpx.Response] = []

            async def ask() -> None:
                answers.append(
                    await client.post("/v1/chat/completions", json=ASK, headers=key("one"))
                )

            group.start_soon(ask)
            approval = await waiting_approval(server, token)
            early = await client.post("/v1/chat/completions", json=ASK, headers=key("one"))
            assert early.status_code == 409
            assert int(early.headers["retry-after"]) > 0
            answer = {"verb": "deny", "hash": approval["hash"]}
            await client.post(f"/api/approvals/{approval['id']}", json=answer)
        assert answers[0].status_code == 200
        assert await count(server, "run.started") == 1


async def test_a_request_that_was_interrupted_is_not_done_twice(tmp_path: Path) -> None:
    request = HttpRequest(method="POST", path="/api/x", headers=key("one"), body=b"{}")

    async def fail(_: HttpRequest) -> HttpReply:
        raise RuntimeError("killed in the middle of it")

    async def succeed(_: HttpRequest) -> HttpReply:
        return HttpReply(body=b"done")

    with pytest.raises(RuntimeError):
        await AnswerStore(tmp_path).answer_once(request, "token-1", fail)
    with pytest.raises(Exception, match="nobody knows how far") as refused:
        await AnswerStore(tmp_path).answer_once(request, "token-1", succeed)
    assert getattr(refused.value, "status", 0) == 409


async def test_a_key_is_free_again_after_a_day(tmp_path: Path) -> None:
    request = HttpRequest(method="POST", path="/api/x", headers=key("one"), body=b"{}")
    bodies = iter([b"first", b"second"])

    async def respond(_: HttpRequest) -> HttpReply:
        return HttpReply(body=next(bodies))

    now = datetime.now(UTC)
    store = AnswerStore(tmp_path, lambda: now)
    assert (await store.answer_once(request, "token-1", respond)).body == b"first"
    now += timedelta(hours=23)
    assert (await store.answer_once(request, "token-1", respond)).body == b"first"
    now += timedelta(hours=2)
    assert (await store.answer_once(request, "token-1", respond)).body == b"second"


def modes_below(folder: Path) -> set[int]:
    return {each.stat().st_mode & 0o777 for each in folder.iterdir()}


async def test_kept_answers_are_private_files(tmp_path: Path) -> None:
    request = HttpRequest(method="POST", path="/api/x", headers=key("one"), body=b"{}")

    async def respond(_: HttpRequest) -> HttpReply:
        return HttpReply(body=b"done")

    await AnswerStore(tmp_path / "new").answer_once(request, "token-1", respond)
    assert modes_below(tmp_path) == {0o700}
    assert modes_below(tmp_path / "new") == {0o600}
