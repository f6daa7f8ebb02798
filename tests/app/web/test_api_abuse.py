"""Requests that must not get in: wrong tokens, other names, other origins, half and huge ones."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import httpx2 as httpx
import pytest
from api_server import ApiServer, api_server, says

from hermes.core.events.access import TokenRevoked
from hermes.web.access import MAX_REQUESTS_PER_MINUTE
from hermes.web.tokens import ALL_RIGHTS, create_token

pytestmark = pytest.mark.anyio


async def statuses(server: ApiServer, token: str) -> set[int]:
    async with server.client(token) as client:
        return {
            (await client.get("/api/incidents")).status_code,
            (await client.post("/api/incidents", json={"text": "x"})).status_code,
            (await client.post("/v1/responses", json={"input": "x"})).status_code,
            (await client.get("/api/events")).status_code,
        }


async def test_foreign_expired_and_revoked_tokens_are_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        now = datetime.now(UTC)
        foreign, _ = create_token("alice", ALL_RIGHTS)
        expired, event = create_token("alice", ALL_RIGHTS, expires_at=now - timedelta(seconds=1))
        revoked, known = create_token("alice", ALL_RIGHTS)
        await server.journal.append(event, known, TokenRevoked(run="access", token=known.token))
        for token in (foreign, expired, revoked, known.token, known.digest, "hermes_", "x" * 8000):
            assert await statuses(server, token) == {401}, token
        found = [each async for each in server.journal.read(kinds=("alert.raised", "run.started"))]
        assert found == []


async def test_a_token_in_the_address_or_a_cookie_is_none(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client("") as client:
        token = await server.token()
        for query, headers in (
            ({"token": token, "access_token": token}, {}),
            ({}, {"cookie": f"__Host-hermes={token}; token={token}"}),
            ({}, {"authorization": f"Basic {token}"}),
            ({}, {"x-api-key": token}),
        ):
            answer = await client.get("/api/incidents", params=query, headers=headers)
            assert answer.status_code == 401


async def test_a_key_of_another_token_shows_nothing_of_its_answer(tmp_path: Path) -> None:
    key = {"idempotency-key": "guessable"}
    async with api_server(tmp_path, [says("a secret plan"), says("nothing")]) as server:
        for person, words in (("alice", "a secret plan"), ("mallory", "nothing")):
            async with server.client(await server.token(person)) as client:
                body = {"messages": [{"role": "user", "content": "what is planned?"}]}
                done = await client.post("/v1/chat/completions", json=body, headers=key)
                assert done.json()["choices"][0]["message"]["content"] == words


async def test_no_other_origin_may_read_or_ask(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        origin = {"origin": "https://evil.example"}
        asked = {**origin, "access-control-request-method": "POST"}
        for path in ("/api/incidents", "/v1/models", "/openapi.json", "/healthz"):
            answers = [
                await client.get(path, headers=origin),
                await client.options(path, headers=asked),
            ]
            for answer in answers:
                allowed = [name for name in answer.headers if name.startswith("access-control")]
                assert allowed == [], path
            assert answers[1].status_code == 405
        assert (await client.post("/alerts", json={}, headers=origin)).status_code == 403


async def test_a_name_that_was_made_to_resolve_to_us_is_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client("") as client:
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example"):
            for path in ("/metrics", "/healthz", "/readyz"):
                assert (await client.get(path, headers={"host": host})).status_code == 421
            posted = await client.post(
                "/alerts/generic", json={"title": "x"}, headers={"host": host}
            )
            assert posted.status_code == 421
            assert (await client.get("/api/incidents", headers={"host": host})).status_code == 401
        for host in (
            "localhost",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.0.0.5",
            "shop.localhost",
            "x",
        ):
            assert (await client.get("/metrics", headers={"host": host})).status_code == 200, host


async def test_a_body_that_is_too_large_is_refused_whether_its_length_is_said_or_not(
    tmp_path: Path,
) -> None:
    more = {"web.largest": "1000"}
    async with (
        api_server(tmp_path, **more) as server,
        server.client(await server.token()) as client,
    ):

        async def parts() -> "object":
            for _ in range(50):
                yield b"x" * 100

        for path in ("/api/incidents", "/v1/chat/completions", "/api/jobs"):
            assert (await client.post(path, content=b"x" * 1001)).status_code == 413
            assert (await client.post(path, content=parts())).status_code == 413  # type: ignore[arg-type]


HALF_REQUESTS = [
    b"POST /api/incidents HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ",
    b"POST /api/incidents HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer TOKEN\r\n"
    b'content-length: 100\r\n\r\n{"text": "x',
]


@pytest.mark.parametrize("half", HALF_REQUESTS, ids=["head", "body"])
async def test_half_a_request_is_cut_and_does_nothing(tmp_path: Path, half: bytes) -> None:
    async with api_server(tmp_path, **{"web.patience": "0.3"}) as server:
        token = await server.token()
        address = urlsplit(server.address)
        received = b""
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", address.port or 0) as stream:
                await stream.send(half.replace(b"TOKEN", token.encode()))
                try:
                    while True:
                        received += await stream.receive()
                except anyio.EndOfStream:
                    pass
        assert received.startswith(b"HTTP/1.1 503 ")
        assert [each async for each in server.journal.read(kinds=("alert.raised",))] == []


async def test_too_many_requests_of_a_token_do_not_hinder_another(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        busy, calm = await server.token("alice"), await server.token("alice")
        async with server.client(busy) as client:
            last: httpx.Response | None = None
            for _ in range(MAX_REQUESTS_PER_MINUTE + 1):
                last = await client.get("/v1/models")
            assert last is not None
            assert last.status_code == 429
            assert 0 < int(last.headers["retry-after"]) <= 60
        async with server.client(calm) as client:
            assert (await client.get("/v1/models")).status_code == 200
