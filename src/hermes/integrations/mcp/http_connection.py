"""Connections to MCP servers over HTTP, and what they refuse: logins and scopes.

Apart from `connection.py`: a server that is started by a command does not need these imports.
"""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from mcp.client.streamable_http import streamable_http_client

from hermes.core.errors import ToolError
from hermes.integrations.mcp.connection import (
    MAX_LINE_BYTES,
    ConnectionHooks,
    SdkConnection,
    open_client,
    translate_failures,
)
from hermes.integrations.mcp.servers import NeedsPerson
from hermes.plumbing.http_client import GuardsConnections, build_http_client

HTTP_READ_TIMEOUT_S = 600.0
_SCOPE = re.compile(r"[A-Za-z0-9._:/*+-]{1,100}")
"""A scope becomes a word of a command that a person is shown."""
_PARAMETER = re.compile(r'\b(error|scope)="?([^",]*)"?')


def missing_scopes(response: Any) -> str | None:
    """The scopes that a refused request needed, maybe none; None when it was not about scopes."""
    if response.status_code != HTTPStatus.FORBIDDEN:
        return None
    said = dict(_PARAMETER.findall(response.headers.get("www-authenticate", "")))
    if said.get("error") != "insufficient_scope":
        return None
    words = said.get("scope", "").split()
    return " ".join(word for word in words if _SCOPE.fullmatch(word))


@asynccontextmanager
async def connect_by_http(
    name: str,
    url: str,
    headers: Mapping[str, str],
    auth: Any,
    hooks: ConnectionHooks,
    guard: GuardsConnections | None = None,
) -> AsyncIterator[SdkConnection]:
    """The library follows no redirect to another host. With `auth`, addresses of a login come from
    the server: `guard` keeps them out of private networks."""
    refused: list[int] = []
    denied: list[ToolError] = []

    async def note_refusal(response: Any) -> None:
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            refused.append(response.status_code)
        scopes = missing_scopes(response)
        if scopes is not None and hasattr(auth, "refuse_scopes"):
            auth.refuse_scopes(scopes)
        elif scopes is not None and auth is None:
            denied.append(
                NeedsPerson(
                    f"the token for the MCP server {name} does not have the rights for this"
                    f"{f' ({scopes})' if scopes else ''}: a person gives it another one"
                )
            )
            raise denied[-1]

    def find_failure() -> ToolError | None:
        return getattr(auth, "failure", None) or next(iter(denied), None)

    hooks.find_failure = find_failure
    hooks.hide = getattr(auth, "hide", str)
    logging.getLogger("mcp").addHandler(logging.NullHandler())  # it would print to the terminal
    with translate_failures(
        name, "answer", wants_login=refused, auth=auth, find_failure=find_failure
    ):
        async with build_http_client(url, timeout=HTTP_READ_TIMEOUT_S, guard=guard) as http:
            http.headers.update(headers)
            http.auth = auth
            http.event_hooks = {"response": [note_refusal]}
            streams = streamable_http_client(
                url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
            )
            async with open_client(streams, hooks) as client:
                yield SdkConnection(client, hooks, name)
