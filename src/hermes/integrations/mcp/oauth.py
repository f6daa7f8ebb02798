"""OAuth for MCP servers, by the official library: logins of a person, and tokens for calls.

Only a login talks to a person. A call uses the tokens that are kept and renews them; when that is
no longer possible, it reports at once that a login is needed.
"""

import html
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketStream
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.utils import is_valid_client_metadata_url, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from msgspec.structs import replace

from hermes.core.errors import ToolError
from hermes.core.foreign_text import visible_line
from hermes.integrations.mcp.connection import ConnectionHooks
from hermes.integrations.mcp.http_connection import connect_by_http
from hermes.integrations.mcp.logins import LoginStore, StoredLogin
from hermes.integrations.mcp.servers import NeedsPerson
from hermes.plumbing.http_client import GuardsConnections

CLIENT_NAME = "Hermes"
CALLBACK_PATH = "/callback"
LOGIN_TIMEOUT_S = 600.0
EXPIRY_MARGIN_S = 30.0
"""A token is renewed so long before its end."""
_MAX_REQUEST_BYTES = 16_384
_REQUEST_TIMEOUT_S = 10.0

ShowAddress = Callable[[str], Awaitable[None]]
"""Shows a person the address to open in a browser."""
WaitForRedirect = Callable[[str], Awaitable[str]]
"""The address that the browser was sent back to; its state must be the given one."""


class _NewLogin:
    """Keeps what a login brings in memory, until it is known to work."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class _LoginProvider(OAuthClientProvider):  # type: ignore[misc]
    """Asks for the scopes of the server, and for those that a person wants besides."""

    scopes = ""

    async def _perform_authorization(self) -> Any:
        about = self.context.client_metadata
        about.scope = union_scopes(about.scope, self.scopes or None)
        return await super()._perform_authorization()


async def log_in(
    hooks: ConnectionHooks,
    url: str,
    headers: Mapping[str, str],
    redirect_uri: str,
    show: ShowAddress,
    wait: WaitForRedirect,
    *,
    guard: GuardsConnections,
    client: Mapping[str, str],
) -> StoredLogin:
    """A login that was tried by listing the tools. Raises `ToolError`.

    `client` holds the id, and maybe the secret, of a client that was registered by hand, or the
    https address of a document that describes the client; without one, we register ourselves. Its
    `scope` is asked for besides those that the server names.
    """
    metadata = OAuthClientMetadata(redirect_uris=[redirect_uri], client_name=CLIENT_NAME)
    given = client.get("client_id", "")
    document = given if is_valid_client_metadata_url(given) else None
    known = _registered_client(client, redirect_uri) if given and document is None else None
    storage, states = _NewLogin(known), list[str]()

    async def redirect(address: str) -> None:
        states[:] = parse_qs(urlsplit(address).query).get("state", [])
        await show(address)

    async def receive() -> AuthorizationCodeResult:
        with anyio.move_on_after(LOGIN_TIMEOUT_S):
            return read_redirect(await wait(states[0]))
        raise ToolError(f"nobody logged in at {hooks.server} within {LOGIN_TIMEOUT_S / 60:g} min")

    provider = _LoginProvider(url, metadata, storage, redirect, receive, document)
    provider.scopes = client.get("scope", "")
    async with connect_by_http(hooks.server, url, headers, provider, hooks, guard) as connection:
        await connection.list_tools()
    context, tokens = provider.context, storage.tokens
    if tokens is None:
        raise ToolError(f"the MCP server {hooks.server} answers without a login; none is needed")
    found, client_info = context.oauth_metadata, context.client_info
    return StoredLogin(
        url=url,
        issuer=str(found.issuer) if found is not None else "",
        tokens=_data(tokens),
        expires_at=_expiry(tokens),
        client=_data(client_info) if client_info is not None else {},
        metadata=_data(found) if found is not None else {},
    )


def _registered_client(client: Mapping[str, str], redirect_uri: str) -> OAuthClientInformationFull:
    method = "client_secret_basic" if client.get("client_secret") else "none"
    return OAuthClientInformationFull.model_validate(
        {
            **client,
            "redirect_uris": [redirect_uri],
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
        }
    )


def _data(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = model.model_dump(mode="json", exclude_none=True)
    return found


def _expiry(tokens: OAuthToken) -> float | None:
    return None if tokens.expires_in is None else time.time() + tokens.expires_in


def read_redirect(address: str) -> AuthorizationCodeResult:
    """Raises `ToolError` when the authorization server refused, or gave no code."""
    given = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if error := given.get("error"):
        more = visible_line(given.get("error_description", ""), 300)
        raise ToolError(f"the login was refused: {visible_line(error, 100)} {more}".strip())
    if "code" not in given:
        raise ToolError("the address has no code in it; it looks like http://127.0.0.1:…?code=…")
    return AuthorizationCodeResult(
        code=given["code"], state=given.get("state"), iss=given.get("iss")
    )


def has_state(address: str, state: str) -> bool:
    return state in parse_qs(urlsplit(address).query).get("state", [])


class StoredLoginAuth(OAuthClientProvider):  # type: ignore[misc]
    """Sends the tokens that are kept, and renews them. It never asks a person."""

    def __init__(self, store: LoginStore, server: str, login: StoredLogin) -> None:
        self._store, self._server, self._login = store, server, login
        self.failure: ToolError | None = None
        """Why the tokens can no longer be used."""
        metadata = OAuthClientMetadata(
            redirect_uris=[f"http://127.0.0.1{CALLBACK_PATH}"],
            client_name=CLIENT_NAME,
        )
        super().__init__(login.url, metadata, self)

    def hide(self, text: str) -> str:
        """The text without the tokens."""
        for name, value in self._login.secrets.items():
            text = text.replace(value, f"[{name} of {self._server}]")
        return text

    async def get_tokens(self) -> OAuthToken | None:
        return OAuthToken.model_validate(self._login.tokens) if self._login.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """An answer without a new `refresh_token` leaves the old one valid."""
        if tokens.refresh_token is None:
            tokens.refresh_token = self._login.tokens.get("refresh_token")
        self._login = replace(self._login, tokens=_data(tokens), expires_at=_expiry(tokens))
        self._store.save(self._server, self._login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = self._login.client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise self._give_up("its authorization server is another one now")

    async def _initialize(self) -> None:
        """Called before each request: another process may have renewed the tokens meanwhile."""
        self._login = self._store.load(self._server, self._login.url) or self._login
        self.failure = None
        await super()._initialize()
        self._initialized = False
        if self._login.metadata:
            self.context.oauth_metadata = OAuthMetadata.model_validate(self._login.metadata)
        if self._login.expires_at is not None:
            self.context.token_expiry_time = self._login.expires_at - EXPIRY_MARGIN_S

    async def _handle_refresh_response(self, response: Any) -> bool:
        status = response.status_code
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise ToolError(f"the login at {self._server} could not be renewed: HTTP {status}")
        return bool(await super()._handle_refresh_response(response))

    async def _perform_authorization(self) -> Any:
        """The tokens were refused. What can be renewed is renewed, once."""
        if self.failure is not None:
            raise self.failure
        used, current = self._login, self._store.load(self._server, self._login.url)
        if current is not None and current.tokens != used.tokens:
            raise ToolError(f"another process has renewed the login at {self._server}; try again")
        if self.context.can_refresh_token():
            return await self._refresh_token()
        raise self._give_up("it has expired")

    async def _handle_token_response(self, response: Any) -> None:
        if response.status_code != HTTPStatus.OK:
            raise self._give_up("it is no longer accepted")
        await super()._handle_token_response(response)

    def refuse_scopes(self, scopes: str) -> None:
        """The tokens are valid, but not for this: only a person can ask for more."""
        wanted = f' --scope "{scopes}"' if scopes else ""
        self.failure = NeedsPerson(
            f"the login at the MCP server {self._server} does not have the rights for this"
            f"{f' ({scopes})' if scopes else ''}: a person who wants to give them runs "
            f"`hermes mcp login {self._server}{wanted}`"
        )

    def _give_up(self, why: str) -> NeedsPerson:
        self.failure = NeedsPerson(
            f"the login at the MCP server {self._server} cannot be renewed: {why}; a person must "
            f"log in again with `hermes mcp login {self._server}`"
        )
        return self.failure


@asynccontextmanager
async def open_redirect_listener(port: int = 0) -> AsyncIterator[tuple[str, WaitForRedirect]]:
    """A page on this machine that a browser is sent back to, and a function that waits for it."""
    try:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as error:
        raise ToolError(f"port {port} of this machine cannot be used: {error.strerror}") from error
    taken = listener.extra(anyio.abc.SocketAttribute.local_port)
    uri = f"http://127.0.0.1:{taken}{CALLBACK_PATH}"

    async def wait(state: str) -> str:
        found: list[str] = []
        async with anyio.create_task_group() as group:

            async def answer(stream: SocketStream) -> None:
                async with stream:
                    address = await _answer_request(stream, state)
                if address:
                    found.append(address)
                    group.cancel_scope.cancel()

            await listener.serve(answer, group)
        return found[0]

    async with listener:
        yield uri, wait


async def _answer_request(stream: SocketStream, state: str) -> str:
    """The path with its query, when it carries the state; else empty."""
    data = b""
    try:
        with anyio.fail_after(_REQUEST_TIMEOUT_S):
            while b"\r\n\r\n" not in data and len(data) < _MAX_REQUEST_BYTES:
                data += await stream.receive()
    except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
        return ""
    method, _, rest = data.decode("latin-1").partition(" ")
    path = rest.partition(" ")[0]
    fits = method == "GET" and urlsplit(path).path == CALLBACK_PATH and has_state(path, state)
    status = "200 OK" if fits else "404 Not Found"
    said = "You can close this page." if fits else "There is nothing here."
    page = f"<!doctype html><title>{CLIENT_NAME}</title><p>{html.escape(said)}</p>"
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
    with suppress(anyio.BrokenResourceError):
        await stream.send(f"{head}Connection: close\r\n\r\n{page}".encode())
    return path if fits else ""
