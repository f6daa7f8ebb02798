"""Who gets into the dashboard, and which requests of a browser count."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import anyio
from api_server import ApiServer, api_server
from dashboard_client import browser, log_in

from hermes.core.events.access import ACCESS_RUN, WebSessionEnded, WebSessionStarted
from hermes.web.browser_checks import CONTENT_POLICY, csrf_token
from hermes.web.sessions import SESSION_VALIDITY, create_login
from hermes.web.templating import FOLDER
from hermes.web.tokens import token_digest


async def start_session(server: ApiServer, started: datetime, secret: str = "s" * 40) -> str:
    await server.journal.append(
        WebSessionStarted(
            run=ACCESS_RUN,
            at=started,
            session="session-old",
            login="login-old",
            digest=token_digest(secret),
            person="alice",
            expires_at=started + SESSION_VALIDITY,
        )
    )
    return secret


def test_a_link_is_shown_by_looking_at_it_and_used_up_by_pressing(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            code, event = create_login("alice")
            await server.journal.append(event)
            async with browser(server) as client:
                for _ in range(2):
                    page = await client.get("/login", params={"code": code})
                    assert page.status_code == 200
                    assert "Log in as alice" in page.text
                first = await client.post("/login", data={"code": code})
                cookie = first.headers["set-cookie"]
                assert first.status_code == 303
                for part in ("__Host-", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Lax"):
                    assert part in cookie
                again = await client.post("/login", data={"code": code})
                assert again.status_code == 403
                assert "set-cookie" not in again.headers

    anyio.run(main)


def test_of_two_presses_at_once_one_opens_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            code, event = create_login("alice")
            await server.journal.append(event)
            statuses = []

            async def press() -> None:
                async with browser(server) as client:
                    statuses.append((await client.post("/login", data={"code": code})).status_code)

            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(press)
            assert sorted(statuses) == [303, 403, 403, 403]

    anyio.run(main)


def test_pages_need_a_session_and_carry_the_policy(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            async with browser(server) as client:
                refused = await client.get("/")
                assert refused.status_code == 401
                assert "hermes web login" in refused.text
            async with browser(server, await log_in(server)) as client:
                page = await client.get("/")
                assert page.status_code == 200
                assert page.headers["content-security-policy"] == CONTENT_POLICY
                assert page.headers["cache-control"] == "no-store"
                assert "alice" in page.text
                for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
                    assert (await client.get(address)).status_code == 200

    anyio.run(main)


def test_an_idle_or_old_session_is_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            for age in (timedelta(hours=13), timedelta(days=8)):
                secret = await start_session(server, datetime.now(UTC) - age, str(age))
                async with browser(server, secret) as client:
                    assert (await client.get("/")).status_code == 401
                    assert (await client.get("/live")).status_code == 401

    anyio.run(main)


def test_a_session_is_valid_until_it_is_revoked(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await start_session(server, datetime.now(UTC) - timedelta(hours=2))
            async with browser(server, secret) as client:
                assert (await client.get("/")).status_code == 200
                ended = WebSessionEnded(run=ACCESS_RUN, session="session-old", by="root")
                await server.journal.append(ended)
                assert (await client.get("/")).status_code == 401

    anyio.run(main)


def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await log_in(server)
        async with api_server(tmp_path) as server, browser(server, secret) as client:
            assert (await client.get("/")).status_code == 200
        assert secret.encode() not in (tmp_path / "home" / "journal.db").read_bytes()

    anyio.run(main)


def test_logging_out_ends_the_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await log_in(server)
            async with browser(server, secret) as client:
                left = await client.post("/logout", data={"csrf": csrf_token(secret)})
                assert left.status_code == 303
                assert (await client.get("/")).status_code == 401

    anyio.run(main)


def test_a_form_of_another_site_is_refused(tmp_path: Path) -> None:
    requests: list[tuple[dict[str, str], int]] = [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 303),
    ]

    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await log_in(server)
            for headers, status in requests:
                async with browser(server, secret, **headers) as client:
                    answer = await client.post("/theme", data={"csrf": csrf_token(secret)})
                    assert answer.status_code == status, headers

    anyio.run(main)


def test_a_form_without_the_token_of_its_session_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret, other = await log_in(server), await log_in(server, "bob")
            async with browser(server, secret) as client:
                for token in ("", "x", csrf_token(other), csrf_token("")):
                    answer = await client.post("/logout", data={"csrf": token})
                    assert answer.status_code == 403
                assert (await client.get("/")).status_code == 200

    anyio.run(main)


def test_a_foreign_host_name_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await log_in(server)
            for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""):
                async with browser(server, secret, host=host) as client:
                    assert (await client.get("/")).status_code == 421
            async with browser(server, secret, host="localhost:1") as client:
                assert (await client.get("/")).status_code == 200

    anyio.run(main)


def test_without_encryption_others_see_no_dashboard(tmp_path: Path) -> None:
    async def main() -> None:
        names = {"web.hosts": '["hermes.example.org"]', "web.proxy": "true"}
        async with api_server(tmp_path, **names) as server:
            secret = await log_in(server)
            name = {"host": "hermes.example.org"}
            async with browser(server, secret, **name) as client:
                assert (await client.get("/")).status_code == 403
            async with browser(server, secret, **name, x_forwarded_proto="https") as client:
                assert (await client.get("/")).status_code == 200

    anyio.run(main)


def test_a_large_body_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server, browser(server) as client:
            assert (await client.post("/login", content=b"x" * 70_000)).status_code == 413

    anyio.run(main)


def test_files_of_others_are_unchanged() -> None:
    listed = tomllib.loads((FOLDER / "static" / "VENDORED.toml").read_text())
    for each in listed.values():
        content = (FOLDER / "static" / each["file"]).read_bytes()
        assert sha256(content).hexdigest() == each["sha256"]
        assert each["version"]
        assert each["licence"]
