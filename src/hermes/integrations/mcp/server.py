"""Hermes as an MCP server, by the official library: over stdio and over HTTP.

What is offered comes from `app`. Approvals cannot be answered here: the caller is a program.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from hermes.core.errors import HermesError
from hermes.core.messages import Risk, ToolSpec
from hermes.plumbing.http_service import (
    HttpRefusal,
    HttpReply,
    HttpRequest,
    host_name,
    is_loopback_name,
)

INCIDENT_URI = "hermes://incident/"
INSTRUCTIONS = (
    "Hermes works on incidents of a host. Read incidents and memory, report problems with "
    "alert_raise, and give tasks with ask. People answer approvals elsewhere."
)

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Runs one of the offered tools. Raises `HermesError`."""
ReadIncident = Callable[[str], Awaitable[str]]
ListIncidents = Callable[[], Awaitable[Mapping[str, str]]]
"""The latest incidents by their ids, with their titles."""


def build_server(
    specs: Sequence[ToolSpec],
    call: CallTool,
    list_incidents: ListIncidents,
    read_incident: ReadIncident,
    version: str,
) -> Any:
    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_describe(spec) for spec in specs])

    async def call_tool(_context: Any, params: Any) -> types.CallToolResult:
        try:
            text, failed = await call(params.name, params.arguments or {}), False
        except HermesError as error:
            text, failed = str(error), True
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)], is_error=failed
        )

    async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
        found = await list_incidents()
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=f"{INCIDENT_URI}{id}",
                    name=id,
                    description=title,
                    mime_type="text/markdown",
                )
                for id, title in found.items()
            ]
        )

    async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{INCIDENT_URI}{{id}}", name="incident", mime_type="text/markdown"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(_context: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        if not uri.startswith(INCIDENT_URI):
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri[:200]}")
        try:
            text = await read_incident(uri.removeprefix(INCIDENT_URI))
        except HermesError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        contents = types.TextResourceContents(uri=uri, text=text, mime_type="text/markdown")
        return types.ReadResourceResult(contents=[contents])

    return Server(
        "hermes",
        version=version,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _describe(spec: ToolSpec) -> types.Tool:
    reads = spec.risk is Risk.READ
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object", **spec.parameters},
        annotations=types.ToolAnnotations(
            read_only_hint=reads, destructive_hint=spec.risk is Risk.DESTROY, open_world_hint=False
        ),
    )


async def serve_over_stdio(server: Any) -> None:
    """Until the client closes our input."""
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


class HttpEndpoint:
    """Answers requests to `/mcp`, each on its own: there are no sessions and no streams."""

    def __init__(self, server: Any, hosts: Collection[str] = ()) -> None:
        """`hosts`: names under which pages of ours are reached, beside loopback names."""
        self._hosts = frozenset(each.lower() for each in hosts)
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["HttpEndpoint"]:
        async with self._manager.run():
            yield self

    async def respond(self, request: HttpRequest) -> HttpReply:
        """Ends what the client asked for when it hangs up: nobody would get the answer.

        Raises `HttpRefusal` for a page of another site in a browser.
        """
        self._check_site(request)
        sent: list[Mapping[str, Any]] = []
        waiting = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def receive() -> Mapping[str, Any]:
            if waiting:
                return waiting.pop()
            await anyio.sleep_forever()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        async with anyio.create_task_group() as group:

            async def end_without_client() -> None:
                await request.disconnected()
                group.cancel_scope.cancel()

            group.start_soon(end_without_client)
            await self._manager.handle_request(_scope(request), receive, send)
            group.cancel_scope.cancel()
        if not sent:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "the client hung up")
        return _reply(sent)

    def _check_site(self, request: HttpRequest) -> None:
        """Only browsers send an origin. The name of a site that resolves to our address (DNS
        rebinding) is both its origin and its host, so the name must be one of ours."""
        origin = request.headers.get("origin", "")
        if not origin:
            return
        host = host_name(request)
        same = origin.partition("://")[2].lower() == request.headers.get("host", "").lower()
        if not same or not (is_loopback_name(host) or host in self._hosts):
            raise HttpRefusal(
                HTTPStatus.FORBIDDEN,
                "requests of other sites are refused; web.hosts names the hosts of this one",
            )


def _scope(request: HttpRequest) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
            if name != "authorization"
        ],
    }


def _reply(sent: Sequence[Mapping[str, Any]]) -> HttpReply:
    start = next(each for each in sent if each["type"] == "http.response.start")
    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    body = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    kept = {name: headers[name] for name in ("mcp-session-id", "allow") if name in headers}
    return HttpReply(
        status=HTTPStatus(start["status"]),
        body=body,
        content_type=headers.get("content-type", "application/json"),
        headers=kept,
    )
