"""One connection to an MCP server, by the official library.

The library is imported in this folder only. The task that opens a connection also closes it.
Every failure of the library, of the server and of its wire is a `ToolError`.
"""

import base64
import binascii
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

from hermes.core.errors import HermesError, ToolError, innermost_error
from hermes.core.foreign_text import strip_hidden_characters, visible_line
from hermes.core.messages import Value
from hermes.core.protocols import PipedProcess
from hermes.integrations.mcp.pins import MAX_TOOLS, PROMPTS_TOOL, RESOURCES_TOOL, ForeignTool
from hermes.integrations.mcp.servers import NeedsPerson

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer message ends the connection."""
MAX_NOISE_LINES = 1_000
"""Lines that are no messages, such as banners; more end the connection."""
MAX_PAGES = 100
MAX_RESULT_CHARS = 1_000_000
MAX_CONTENT_PAGES = 20
MAX_LISTED_LINES = 200
_EXIT_CODE_WAIT_S = 0.5
_SECRET_FIELDS = ("password", "secret", "token", "key", "credential", "passphrase", "pin", "otp")

AskPerson = Callable[[str, Sequence[str]], Awaitable[str | None]]


class ForeignMedia(Value, frozen=True):
    """A picture or a sound of a result."""

    media: str
    data: bytes


class ForeignResult(Value, kw_only=True, frozen=True):
    """What a tool answered, as text for the model and media for the artifacts."""

    text: str
    failed: bool = False
    media: tuple[ForeignMedia, ...] = ()


class ConnectionHooks:
    """What a server may ask of us while a call runs. The owner of the connection sets `ask`."""

    def __init__(self, server: str, folder: str) -> None:
        self.server, self.folder = server, folder
        self.ask: AskPerson | None = None
        """Reaches the person whose call is running; None when there is none."""
        self.list_changed = anyio.Event()
        self.closed = anyio.Event()
        """Set when the server has ended, or closed its output."""
        self.hide: Callable[[str], str] = str
        """Takes the tokens of this connection out of a text."""
        self.find_failure: Callable[[], ToolError | None] = lambda: None
        """Why the server refuses, where only a person can change that. The library then closes the
        connection, and a call that waits is told no more than that."""

    async def roots(self, _context: object) -> types.ListRootsResult:
        uri = f"file://{self.folder}"
        return types.ListRootsResult(roots=[types.Root(uri=uri, name="workspace")])

    async def message(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.list_changed.set()

    async def elicit(self, _context: object, params: Any) -> types.ElicitResult:
        """Asks the person field by field. Without a person, and for a secret, it declines."""
        ask, decline = self.ask, types.ElicitResult(action="decline")
        if ask is None:
            return decline
        said = visible_line(str(params.message), 500)
        if isinstance(params, types.ElicitRequestURLParams):
            shown = f"{self.server} asks you to open {visible_line(params.url, 300)}: {said}"
            answer = await ask(shown, ("done", "decline"))
            return types.ElicitResult(action="accept") if answer == "done" else decline
        fields = dict(params.requested_schema.get("properties", {}))
        if any(_is_secret_field(name, field) for name, field in fields.items()):
            return decline
        content: dict[str, Any] = {}
        for name, field in fields.items():
            choices = tuple(map(str, field.get("enum", ()))) if isinstance(field, dict) else ()
            answer = await ask(f"{self.server} asks: {said} ({visible_line(name, 80)})", choices)
            if answer is None:
                return types.ElicitResult(action="cancel")
            usual = field.get("default") if isinstance(field, dict) and not answer else None
            content[name] = _convert_answer(answer, field) if usual is None else usual
        return types.ElicitResult(action="accept", content=content)


class SdkConnection:
    """An open connection; implements `ServerConnection`."""

    def __init__(self, client: Client, hooks: ConnectionHooks, name: str) -> None:
        self._client, self.hooks, self._name = client, hooks, name
        self._content_tools = dict[str, ForeignTool]()

    @property
    def protocol(self) -> str:
        return str(self._client.protocol_version)

    async def list_tools(self) -> list[ForeignTool]:
        self.hooks.list_changed = anyio.Event()
        found: list[ForeignTool] = []
        cursor: str | None = None
        with translate_failures(self._name, "list its tools", find_failure=self.hooks.find_failure):
            for _ in range(MAX_PAGES):
                page = await self._client.list_tools(cursor=cursor, cache_mode="refresh")
                found += [_read_tool(tool) for tool in page.tools]
                cursor = page.next_cursor
                if not cursor:
                    return found + await self._add_content_tools({tool.name for tool in found})
                if len(found) > MAX_TOOLS:
                    break
        raise ToolError(f"{self._name} lists more tools than anybody can review")

    async def _add_content_tools(self, taken: Collection[str]) -> list[ForeignTool]:
        """What the server offers besides tools, as tools, so that a person classes them too.

        Many servers say that they have resources and prompts, and have none.
        """
        able, found = self._client.server_capabilities, list[ForeignTool]()
        if able.resources and RESOURCES_TOOL.name not in taken and await self._resource_lines():
            found.append(RESOURCES_TOOL)
        if able.prompts and PROMPTS_TOOL.name not in taken and await self._prompt_lines():
            found.append(PROMPTS_TOOL)
        self._content_tools = {tool.name: tool for tool in found}
        return found

    async def call_tool(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]
    ) -> ForeignResult:
        async def progress(_done: float, _total: float | None, _message: str | None) -> None:
            on_progress()

        with translate_failures(self._name, f"run {tool}", find_failure=self.hooks.find_failure):
            if tool in self._content_tools:
                read = self._resources if tool == RESOURCES_TOOL.name else self._prompts
                return read_content(await read(arguments), self.hooks.hide)
            result = await self._client.call_tool(tool, dict(arguments), progress_callback=progress)
        return read_result(result, self.hooks.hide)

    async def _resources(self, arguments: Mapping[str, Any]) -> list[Any]:
        if uri := arguments.get("uri"):
            answer = await self._client.read_resource(str(uri))
            return [_embed(each) for each in answer.contents]
        return _listing(await self._resource_lines(), arguments, "resources")

    async def _resource_lines(self) -> list[str]:
        client, lines = self._client, list[str]()
        async for page in _pages(client.list_resources):
            lines += [_content_line(str(each.uri), each) for each in page.resources]
        async for page in _pages(client.list_resource_templates):
            lines += [_content_line(each.uri_template, each) for each in page.resource_templates]
        return lines

    async def _prompts(self, arguments: Mapping[str, Any]) -> list[Any]:
        if name := arguments.get("name"):
            given = {key: str(value) for key, value in (arguments.get("arguments") or {}).items()}
            answer = await self._client.get_prompt(str(name), given)
            return [each.content for each in answer.messages]
        return _listing(await self._prompt_lines(), arguments, "prompts")

    async def _prompt_lines(self) -> list[str]:
        lines = list[str]()
        async for page in _pages(self._client.list_prompts):
            for each in page.prompts:
                names = ", ".join(argument.name for argument in each.arguments or ())
                lines.append(_content_line(f"{each.name}({names})", each))
        return lines


async def _pages(read: Callable[..., Awaitable[Any]]) -> AsyncIterator[Any]:
    """All pages of a list, as many as anybody reads."""
    cursor = None
    for _ in range(MAX_CONTENT_PAGES):
        try:
            page = await read(cursor=cursor)
        except MCPError:  # it has none, whatever it said before
            return
        yield page
        cursor = page.next_cursor
        if not cursor:
            return


def _content_line(name: str, about: Any) -> str:
    more = visible_line(about.description or about.title or "", 200)
    return f"{visible_line(name, 300)}{f': {more}' if more else ''}"


def _listing(lines: Sequence[str], arguments: Mapping[str, Any], kind: str) -> list[Any]:
    words = str(arguments.get("query") or "").lower().split()
    found = [line for line in lines if all(word in line.lower() for word in words)]
    left = len(found) - MAX_LISTED_LINES
    more = [f"[and {left} more; query narrows the list]"] if left > 0 else []
    text = "\n".join([*found[:MAX_LISTED_LINES], *more]) or f"There are no {kind} like that."
    return [types.TextContent(type="text", text=text)]


def _embed(contents: Any) -> Any:
    return types.EmbeddedResource(type="resource", resource=contents)


@asynccontextmanager
async def connect_by_pipe(
    name: str, process: AbstractAsyncContextManager[PipedProcess], hooks: ConnectionHooks
) -> AsyncIterator[SdkConnection]:
    async with process as running:
        with translate_failures(name, "answer", running.last_errors):
            try:
                async with open_client(_pipe_streams(running, hooks), hooks) as client:
                    yield SdkConnection(client, hooks, name)
            except Exception:
                await _raise_unusable(name, running)
                raise


async def _raise_unusable(name: str, process: PipedProcess) -> None:
    """A program that the shell could not start is not tried again."""
    with anyio.move_on_after(_EXIT_CODE_WAIT_S, shield=True):
        if await process.wait() in (126, 127):
            said = visible_line(process.last_errors(), 300)
            raise NeedsPerson(f"the command of the MCP server {name} cannot be started: {said}")


@asynccontextmanager
async def open_client(streams: Any, hooks: ConnectionHooks) -> AsyncIterator[Client]:
    client = Client(
        streams,
        list_roots_callback=hooks.roots,
        elicitation_callback=hooks.elicit,
        message_handler=hooks.message,
        client_info=types.Implementation(name="hermes", version="1"),
        cache=None,
    )
    async with client as opened, anyio.create_task_group() as group:
        group.start_soon(_listen, opened, hooks)
        try:
            yield opened
        finally:
            group.cancel_scope.cancel()


async def _listen(client: Client, hooks: ConnectionHooks) -> None:
    """Servers of the newer protocol report changes only to those who subscribe."""
    try:
        async with client.listen(tools_list_changed=True) as events:
            async for _ in events:
                hooks.list_changed.set()
    except (MCPError, RuntimeError, ValueError, TimeoutError):  # it cannot, or the wire is closed
        return


@asynccontextmanager
async def _pipe_streams(
    process: PipedProcess, hooks: ConnectionHooks
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams that the library expects, over the raw pipes of a process."""
    send_in, receive_in = anyio.create_memory_object_stream[Any](0)
    send_out, receive_out = anyio.create_memory_object_stream[Any](0)

    async def read() -> None:
        async with send_in:
            try:
                await _forward_messages(process, send_in, hooks.server)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # the connection is being closed
            finally:
                hooks.closed.set()

    async def write() -> None:
        async with receive_out:
            async for message in receive_out:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await process.send(text.encode() + b"\n")
                except HermesError:  # it ended: closing the other stream tells the library
                    await send_in.aclose()
                    return

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            async with receive_in, send_out:
                yield receive_in, send_out
        finally:
            group.cancel_scope.cancel()


async def _forward_messages(process: PipedProcess, receiver: Any, name: str) -> None:
    noise = 0
    async for line in _lines(process):
        message = _parse_line(line)
        if message is not None:
            await receiver.send(SessionMessage(message))
        elif (noise := noise + 1) > MAX_NOISE_LINES:
            raise ToolError(f"{name} prints text that is not the protocol")


async def _lines(process: PipedProcess) -> AsyncIterator[bytes]:
    rest = bytearray()
    while data := await process.receive():
        first, *more = data.split(b"\n")
        rest += first
        for next_line in more:
            if rest.strip():
                yield bytes(rest)
            rest = bytearray(next_line)
        if len(rest) > MAX_LINE_BYTES:
            raise ToolError(
                f"the server sent a message of more than {MAX_LINE_BYTES:,} bytes; it was ended"
            )


def _parse_line(line: bytes) -> Any:
    """Return None for a line that is no message, such as a banner."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


class translate_failures:  # noqa: N801 - used like a function
    """Turns every failure in the block into a `ToolError` that names the server."""

    def __init__(
        self,
        name: str,
        verb: str,
        last_errors: Callable[[], str] | None = None,
        wants_login: Sequence[int] = (),
        auth: Any = None,
        find_failure: Callable[[], ToolError | None] = lambda: None,
    ) -> None:
        self._name, self._verb, self._last_errors = name, verb, last_errors
        self._wants_login, self._auth, self._find_failure = wants_login, auth, find_failure

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or not isinstance(error, Exception):
            return
        cause = innermost_error(error)
        if isinstance(cause, ToolError):
            raise cause from error
        if failure := self._find_failure():
            raise failure from error
        if self._wants_login and self._auth is None:
            raise NeedsPerson(
                f"the MCP server {self._name} wants a login: a person logs in with "
                f"`hermes mcp login {self._name}`, or adds it with --login; for a token of your "
                "own, add it with --header Authorization=VARIABLE"
            ) from error
        hide = getattr(self._auth, "hide", str)
        said = visible_line(hide(str(cause)) or type(cause).__name__, 500)
        words = self._last_errors() if self._last_errors is not None else ""
        last = visible_line(" / ".join(words.strip().splitlines()[-3:]), 500)
        raise ToolError(
            f"the MCP server {self._name} did not {self._verb}: {said}"
            + (f"; its last words: {last}" if last else "")
        ) from error


def _read_tool(tool: Any) -> ForeignTool:
    data = tool.model_dump(by_alias=True, exclude_none=True)
    return ForeignTool(
        name=data["name"],
        title=data.get("title", ""),
        description=data.get("description", ""),
        input_schema=data.get("inputSchema", {}),
        output_schema=data.get("outputSchema"),
        annotations=data.get("annotations", {}),
    )


def read_result(result: Any, hide: Callable[[str], str] = str) -> ForeignResult:
    blocks = list(result.content)
    has_text = any(isinstance(each, types.TextContent) for each in blocks)
    if not has_text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
        blocks.append(types.TextContent(type="text", text=text))
    return read_content(blocks, hide, failed=bool(result.is_error))


def read_content(
    blocks: Iterable[Any], hide: Callable[[str], str], *, failed: bool = False
) -> ForeignResult:
    texts, media, left = list[str](), list[ForeignMedia](), MAX_RESULT_CHARS
    for block in blocks:
        text, found = _read_block(block)
        media += found
        if text and left > 0:
            texts.append(text[:left])
            left -= len(text)
    if left < 0:
        texts.append(f"[the rest was left out: more than {MAX_RESULT_CHARS:,} characters]")
    text = hide(strip_hidden_characters("\n".join(texts)))
    return ForeignResult(text=text, failed=failed, media=tuple(media))


def _read_block(block: Any) -> tuple[str, list[ForeignMedia]]:
    match block:
        case types.TextContent():
            return block.text, []
        case types.ImageContent() | types.AudioContent():
            data = _decode_base64(block.data)
            if data is None:
                return f"[{visible_line(block.mime_type, 60)} that is not base64]", []
            return "", [ForeignMedia(visible_line(block.mime_type, 60), data)]
        case types.ResourceLink():
            return f"[link, not fetched: {visible_line(str(block.uri), 500)}]", []
        case types.EmbeddedResource():
            inner = block.resource
            if isinstance(inner, types.TextResourceContents):
                return inner.text, []
            data = _decode_base64(inner.blob)
            kind = visible_line(inner.mime_type or "application/octet-stream", 60)
            return ("", [ForeignMedia(kind, data)]) if data is not None else ("[not base64]", [])
    return "[content of an unknown kind]", []


def _decode_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _is_secret_field(name: str, field: object) -> bool:
    about = field if isinstance(field, dict) else {}
    said = " ".join([name, str(about.get("title", "")), str(about.get("description", ""))]).lower()
    return any(word in said for word in _SECRET_FIELDS) or about.get("format") == "password"


def _convert_answer(answer: str, field: object) -> str | int | float | bool:
    kind = field.get("type") if isinstance(field, dict) else "string"
    try:
        if kind == "integer":
            return int(answer)
        if kind == "number":
            return float(answer)
    except ValueError:
        return answer
    return answer.strip().lower() in ("yes", "true", "y", "1") if kind == "boolean" else answer
