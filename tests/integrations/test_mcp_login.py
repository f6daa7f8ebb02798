"""Logins at an MCP server over OAuth, at a strict authorization server."""

import json
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from authorization_server import AuthorizationServer
from http_application import served
from msgspec.structs import replace
from starlette.responses import HTMLResponse, Response

from hermes.app.mcp.login import (
    PASTE_PORT,
    LoginOptions,
    log_in_at_server,
    log_out_of_server,
)
from hermes.app.mcp.servers import open_servers
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import SettingsError, ToolError
from hermes.integrations.mcp.logins import LoginStore, StoredLogin
from hermes.integrations.mcp.pins import ServerAddress, ServerPin, make_pin
from hermes.integrations.mcp.servers import NeedsPerson, ServerLimits
from hermes.memory.store import open_journal
from hermes.settings.load import load

pytestmark = [pytest.mark.anyio, pytest.mark.command]
ONCE = ServerLimits(restart_delays_s=(), connect_s=60.0)
PASTE = LoginOptions(paste=True)


class LoginHome:
    """A home with one server, and a person who logs in by following the shown address."""

    def __init__(self, folder: Path, server: AuthorizationServer) -> None:
        self.server, self.pin = server, _pin(server.url)
        self.loaded = load(home=folder, variables={"PATH": "/usr/bin:/bin"})
        self.store = LoginStore(folder)
        self.shown: list[str] = []
        self.wrong_pastes: list[str] = []

    async def log_in(self, options: LoginOptions = PASTE) -> StoredLogin:
        return await log_in_at_server(
            self.loaded, self.pin, options, show=self._show(options), ask=self._paste
        )

    def _show(self, options: LoginOptions) -> Any:
        def show(address: str) -> None:
            self.shown.append(address)
            if not options.paste:
                threading.Thread(target=self._follow, args=(address,)).start()

        return show

    def _follow(self, address: str) -> None:
        target = _redirect_of(address)
        base = target.partition("/callback")[0]
        assert httpx2.get(f"{base}/callback?code=x&state=wrong").status_code == 404
        assert "close this page" in httpx2.get(target).text

    def _paste(self) -> str:
        return self.wrong_pastes.pop() if self.wrong_pastes else _redirect_of(self.shown[-1])

    async def call(self) -> str:
        async with open_servers(self.loaded, self.store._folder, None, ONCE) as servers:
            server = servers.server(self.pin)
            _, (tool,) = await server.listing()
            answer = await server.call(make_pin(tool, None, ""), {}, run="r", ask=None)
            return str(answer.text)

    @property
    def login(self) -> StoredLogin:
        found = self.store.load("vault", self.pin.address.url)
        assert found is not None
        return found

    def expire(self) -> None:
        self.store.save("vault", replace(self.login, expires_at=1.0))


def _pin(url: str) -> ServerPin:
    return ServerPin(name="vault", address=ServerAddress(url=f"{url}/mcp", oauth=True))


def _redirect_of(address: str) -> str:
    found: str = httpx2.get(address).headers["location"]
    return found


@asynccontextmanager
async def vault(folder: Path) -> AsyncIterator[LoginHome]:
    server = AuthorizationServer()
    async with served(server.application()) as url:
        server.url = url
        yield LoginHome(folder, server)


async def test_a_login_by_paste_gives_calls_a_token_that_is_kept_privately(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        with pytest.raises(NeedsPerson, match="hermes mcp login vault"):
            await home.call()
        home.wrong_pastes = ["nonsense", "http://127.0.0.1/callback?code=1&state=other"]
        login = await home.log_in()
        assert login.issuer == home.server.url
        text = await home.call()
    assert "[access_token of vault]" in text
    assert login.tokens["access_token"] not in text
    file = tmp_path / "mcp" / "vault" / "credentials.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    said = SecretRedactor(home.loaded)(f"x {login.tokens['refresh_token']} y")
    assert login.tokens["refresh_token"] not in said


async def test_a_login_with_a_browser_comes_back_to_this_machine(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        await home.log_in(LoginOptions(browser=False))
        assert "[access_token of vault]" in await home.call()


@pytest.mark.parametrize("reads_documents", [True, False])
async def test_the_document_of_a_client_stands_in_for_its_registration(
    tmp_path: Path, reads_documents: bool
) -> None:
    document = "https://hermes.example.org/client.json"
    redirects = [f"http://127.0.0.1:{PASTE_PORT}/callback"]
    async with vault(tmp_path) as home:
        if reads_documents:
            home.server.documents = {document: {"redirect_uris": redirects}}
        login = await home.log_in(replace(PASTE, client_id=document))
        home.expire()
        assert "[access_token of vault]" in await home.call()
    registered = "/register" in home.server.requests
    assert (login.client["client_id"] == document) is reads_documents
    assert registered is not reads_documents
    assert home.login.client["client_id"] == login.client["client_id"]


async def test_an_expired_token_is_renewed_and_the_new_one_is_kept(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        first = await home.log_in()
        home.expire()
        await home.call()
        assert home.login.tokens["access_token"] != first.tokens["access_token"]
        assert home.login.tokens["refresh_token"] != first.tokens["refresh_token"]
        home.expire()
        assert "access_token" in await home.call()  # by the second refresh token
    assert len(home.shown) == 1


async def test_a_refresh_that_omits_the_refresh_token_keeps_the_old_one(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        home.server.rotates = False
        first = await home.log_in()
        for _ in range(2):
            home.expire()
            await home.call()
            assert home.login.tokens["refresh_token"] == first.tokens["refresh_token"]


async def test_a_token_that_was_revoked_early_is_renewed_without_a_person(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        home.server.access.clear()
        assert "access_token" in await home.call()
    assert len(home.shown) == 1


async def test_a_refresh_that_fails_once_does_not_end_the_login(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        home.expire()
        home.server.fault["/token"] = Response("busy", 503)
        with pytest.raises(ToolError, match="could not be renewed: HTTP 503") as failed:
            await home.call()
        assert not isinstance(failed.value, NeedsPerson)
        assert "access_token" in await home.call()


async def test_what_cannot_be_renewed_says_at_once_that_a_person_must_log_in(
    tmp_path: Path,
) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        home.expire()
        home.server.refresh.clear()
        with anyio.fail_after(120), pytest.raises(NeedsPerson, match="hermes mcp login vault"):
            await home.call()
        await home.log_in()
        assert "access_token" in await home.call()


async def test_a_right_that_is_missing_names_the_command_that_asks_for_it(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        challenge = 'Bearer error="insufficient_scope", scope="orders:write $(id)"'
        refusal = Response(status_code=403, headers={"WWW-Authenticate": challenge})
        home.server.fault["/mcp"] = refusal
        with pytest.raises(NeedsPerson, match=r'login vault --scope "orders:write"`'):
            await home.call()
        await home.log_in(replace(PASTE, scope="orders:write"))
        assert "scope=orders%3Awrite" in home.shown[-1]
        assert "[access_token of vault]" in await home.call()


async def test_a_right_that_only_one_call_needs_is_named_by_that_call(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        async with open_servers(home.loaded, home.store._folder, None, ONCE) as servers:
            server = servers.server(home.pin)
            _, (tool,) = await server.listing()
            challenge = 'Bearer error="insufficient_scope", scope="orders:write"'
            home.server.fault["/mcp"] = Response(
                status_code=403, headers={"WWW-Authenticate": challenge}
            )
            with pytest.raises(NeedsPerson, match=r'login vault --scope "orders:write"`'):
                await server.call(make_pin(tool, None, ""), {}, run="r", ask=None)


async def test_logins_and_logouts_are_recorded_and_a_logout_forgets_the_tokens(
    tmp_path: Path,
) -> None:
    async with vault(tmp_path) as home:
        await home.log_in()
        await log_out_of_server(home.loaded, home.pin)
        assert home.store.load("vault", home.pin.address.url) is None
        with pytest.raises(NeedsPerson, match="hermes mcp login vault"):
            await home.call()
        with pytest.raises(SettingsError, match="nobody is logged in at vault"):
            await log_out_of_server(home.loaded, home.pin)
    async with open_journal(home.loaded.store) as journal:
        kinds = [each.event.kind async for each in journal.read(run="mcp")]
    assert kinds == ["mcp.logged_in", "mcp.logged_out"]


async def test_tokens_are_sent_to_no_other_address(tmp_path: Path) -> None:
    async with vault(tmp_path) as home, vault(tmp_path) as other:
        await home.log_in()
        with pytest.raises(NeedsPerson):
            await other.call()
        assert other.server.requests == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"/token": HTMLResponse("<p>Welcome</p>")}, "did not answer"),
        ({"/token": Response("no", 400)}, "Token exchange failed"),
        ({"/register": Response("no", 403)}, "Registration failed"),
        (
            {"/authorize": Response("", 302, {"location": "http://x/?error=access_denied&state="})},
            "",
        ),
    ],
)
async def test_a_login_that_fails_is_told_and_keeps_the_earlier_one(
    tmp_path: Path, fault: dict[str, Response], said: str
) -> None:
    async with vault(tmp_path) as home:
        first = await home.log_in()
        if "/authorize" in fault:
            said = "refused: access_denied"
            home._paste = lambda: (  # type: ignore[method-assign]
                f"http://127.0.0.1/?error=access_denied&state={_state(home.shown[-1])}"
            )
        else:
            home.server.fault = fault
        with pytest.raises(ToolError, match=said):
            await home.log_in()
        assert home.login == first


def _state(address: str) -> str:
    return address.partition("state=")[2].partition("&")[0]


async def test_metadata_of_another_issuer_or_resource_is_refused(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        home.server.issuer = "https://other.example"
        with pytest.raises(ToolError, match="issuer mismatch"):
            await home.log_in()
        home.server.issuer, home.server.resource = "", "https://other.example/mcp"
        with pytest.raises(ToolError, match="does not match"):
            await home.log_in()
    assert home.shown == []


async def test_a_server_cannot_send_a_login_to_a_private_address(tmp_path: Path) -> None:
    async with vault(tmp_path) as home, vault(tmp_path) as inside:
        home.server.fault = {
            "/mcp": Response(
                status_code=401,
                headers={"WWW-Authenticate": f'Bearer resource_metadata="{inside.server.url}/x"'},
            )
        }
        with pytest.raises(ToolError, match="not a public address"):
            await home.log_in()
        assert inside.server.requests == []


async def test_a_server_without_a_login_says_that_none_is_needed(tmp_path: Path) -> None:
    async with vault(tmp_path) as home:
        home.server._refuse = lambda scope: None  # type: ignore[method-assign]
        with pytest.raises(ToolError, match="none is needed"):
            await home.log_in()


def test_a_login_is_removed_with_its_server_and_a_broken_file_says_what_to_do(
    tmp_path: Path,
) -> None:
    store = LoginStore(tmp_path)
    store.save("vault", StoredLogin(url="u", tokens={"access_token": "12345678"}))
    assert store.secrets() == {"vault_access_token": "12345678"}
    file = tmp_path / "mcp" / "vault" / "credentials.json"
    assert json.loads(file.read_bytes())["url"] == "u"
    file.write_text("{")
    assert store.secrets() == {}
    with pytest.raises(Exception, match="hermes mcp login vault"):
        store.load("vault", "u")
    store.remove("vault")
    assert store.load("vault", "u") is None
