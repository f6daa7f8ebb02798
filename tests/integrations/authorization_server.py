"""A strict authorization server with an MCP server behind it, as one application: for tests only.

Every rule of OAuth 2.1 for public clients is checked, and what breaks one is refused: exact
redirect addresses, PKCE with S256, codes that serve once, the resource, tokens that end, and
refresh tokens that are replaced with each use. A refresh token that is used twice ends the
login.
"""

import base64
import hashlib
import itertools
import json
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route


class AuthorizationServer:
    """The state of the server. Tests set its faults and end its tokens."""

    def __init__(self) -> None:
        self.url = ""
        """Its own address, without a path; set once it listens."""
        self.issuer = ""
        """What its metadata says; its own address unless a test lies."""
        self.resource = ""
        self.lifetime_s: int | None = 3600
        self.rotates = True
        self.fault: dict[str, Response] = {}
        """Answers that a path gives once instead of its own."""
        self.clients: dict[str, dict[str, Any]] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        """What a document about a client says, by its address; where it is empty, the server
        does not read any."""
        self.codes: dict[str, dict[str, str]] = {}
        self.access: set[str] = set()
        self.refresh: dict[str, bool] = {}
        """Each refresh token, and whether it was used."""
        self.requests: list[str] = []
        self._numbers = itertools.count(1)

    def application(self) -> Any:
        own = MCPServer("vault")

        @own.tool()
        def whoami(ctx: Context) -> str:  # type: ignore[type-arg]
            """Shows the headers of the request."""
            return json.dumps(dict(ctx.headers or {}))

        inner = own.streamable_http_app()
        well_known = "/.well-known/oauth-"
        app = Starlette(
            routes=[
                Route(f"{well_known}protected-resource/mcp", self.describe_resource),
                Route(f"{well_known}authorization-server", self.describe),
                Route("/register", self.register, methods=["POST"]),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Mount("/", inner),
            ],
            lifespan=inner.router.lifespan_context,
        )

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            self.requests.append(scope["path"])
            answer = self.fault.pop(scope["path"], None) or self._refuse(scope)
            await (answer or app)(scope, receive, send)

        return guarded

    def _refuse(self, scope: Any) -> Response | None:
        if scope["path"] != "/mcp":
            return None
        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        if given.removeprefix("Bearer ") in self.access:
            return None
        where = f'{self.url}/.well-known/oauth-protected-resource/mcp"'
        return Response(
            status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{where}'}
        )

    async def describe_resource(self, request: Request) -> Response:
        return JSONResponse(
            {"resource": self.resource or f"{self.url}/mcp", "authorization_servers": [self.url]}
        )

    async def describe(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer or self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
                "client_id_metadata_document_supported": bool(self.documents),
            }
        )

    async def register(self, request: Request) -> Response:
        data = await request.json()
        for uri in data["redirect_uris"]:
            if urlsplit(uri).hostname != "127.0.0.1":
                return _refusal("invalid_redirect_uri")
        client = {**data, "client_id": f"client-{next(self._numbers)}"}
        client["token_endpoint_auth_method"] = "none"
        self.clients[client["client_id"]] = client
        return JSONResponse(client, 201)

    async def authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        name = given.get("client_id", "")
        if document := self.documents.get(name):
            self.clients[name] = document
        client = self.clients.get(name)
        if client is None or given.get("redirect_uri") not in client["redirect_uris"]:
            return HTMLResponse("unknown client or redirect", 400)
        wrong = (
            given.get("response_type") != "code"
            or given.get("code_challenge_method") != "S256"
            or not given.get("state")
            or given.get("resource") != f"{self.url}/mcp"
        )
        answer = {"state": given.get("state", ""), "iss": self.url}
        if wrong:
            answer["error"] = "invalid_request"
        else:
            answer["code"] = f"code-{next(self._numbers)}-of-sixteen"
            self.codes[answer["code"]] = given
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}", 302)

    async def token(self, request: Request) -> Response:
        given = {name: each[0] for name, each in parse_qs((await request.body()).decode()).items()}
        if given.get("resource") != f"{self.url}/mcp" or given.get("client_id") not in self.clients:
            return _refusal("invalid_request")
        if given.get("grant_type") == "authorization_code":
            return self._answer_code(given)
        return self._answer_refresh(given)

    def _answer_code(self, given: dict[str, str]) -> Response:
        asked = self.codes.pop(given.get("code", ""), None)
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["client_id"] != given["client_id"]
            or asked["redirect_uri"] != given.get("redirect_uri")
        ):
            return _refusal("invalid_grant")
        return self._give_tokens()

    def _answer_refresh(self, given: dict[str, str]) -> Response:
        used = self.refresh.get(given.get("refresh_token", ""))
        if used is None or used:
            self.access.clear()
            self.refresh.clear()
            return _refusal("invalid_grant")
        if self.rotates:
            self.refresh[given["refresh_token"]] = True
        return self._give_tokens(refreshes=self.rotates)

    def _give_tokens(self, *, refreshes: bool = True) -> Response:
        number = next(self._numbers)
        access, refresh = f"access-token-{number}-secret", f"refresh-token-{number}-secret"
        self.access.add(access)
        answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.lifetime_s is not None:
            answer["expires_in"] = self.lifetime_s
        if refreshes:
            self.refresh[refresh] = False
            answer["refresh_token"] = refresh
        return JSONResponse(answer)


def _refusal(error: str) -> Response:
    return JSONResponse({"error": error}, 400)
