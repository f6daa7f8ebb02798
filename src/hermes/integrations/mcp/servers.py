"""The lives of MCP servers: started by the first call, kept while used, restarted, given up.

One task owns one connection. The library is loaded with the first connection.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from anyio.abc import TaskGroup

from hermes.core.errors import HermesError, ToolError
from hermes.core.events.mcp import McpToolWithheld
from hermes.core.messages import Risk, Value
from hermes.core.protocols import PublishEvents
from hermes.integrations.mcp.pins import (
    ForeignTool,
    ServerPin,
    ToolPin,
    describe_change,
    tool_objection,
)


class ServerLimits(Value, frozen=True, kw_only=True):
    """How long a server may take, and how often it is started again."""

    connect_s: float = 30.0
    list_s: float = 30.0
    call_s: float = 120.0
    progress_call_s: float = 600.0
    """A call that reports progress may take so long."""
    restart_delays_s: tuple[float, ...] = (1.0, 4.0, 16.0)
    down_s: float = 60.0
    """Seconds after which a server that was given up is tried once more."""


DEFAULT_LIMITS = ServerLimits()

AskCaller = Callable[..., Awaitable[str | None]]


class ServerConnection(Protocol):
    """An open connection to a server. Raises `ToolError`."""

    hooks: Any

    @property
    def protocol(self) -> str: ...
    async def list_tools(self) -> list[ForeignTool]: ...
    async def call_tool(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]
    ) -> Any: ...


Connect = Callable[[ServerPin], AbstractAsyncContextManager[ServerConnection]]


class NeedsPerson(ToolError):
    """Only a person can make the server usable: it is not installed, or wants a login."""


class McpServer:
    """One server and its connection, which one task of `group` owns."""

    def __init__(
        self,
        pin: ServerPin,
        connect: Connect,
        group: TaskGroup,
        publish: PublishEvents | None,
        limits: ServerLimits = DEFAULT_LIMITS,
    ) -> None:
        self.pin = pin
        self._connect, self._group, self._publish = connect, group, publish
        self._limits = limits
        self._opening = anyio.Lock()
        self._connection: ServerConnection | None = None
        self._offered: dict[str, ForeignTool] = {}
        self._failure: ToolError | None = None
        self._starts = 0
        """Starts since the last successful call."""
        self._down_until = -math.inf
        self._calls, self._last_used = 0, -math.inf
        self._stop, self._ended = anyio.Event(), anyio.Event()
        self._ended.set()

    async def call(
        self, tool: ToolPin, arguments: Mapping[str, Any], *, run: str, ask: AskCaller | None
    ) -> Any:
        """Return what the tool answered. Raises `ToolError`.

        A read that met the end of a connection is repeated once; anything else may have happened.
        """
        connection = await self._connected()
        try:
            return await self._call_on(connection, tool, arguments, run, ask)
        except ToolError:
            if tool.effective_risk is not Risk.READ or not connection.hooks.closed.is_set():
                raise
        return await self._call_on(await self._connected(), tool, arguments, run, ask)

    async def _call_on(
        self,
        connection: ServerConnection,
        tool: ToolPin,
        arguments: Mapping[str, Any],
        run: str,
        ask: AskCaller | None,
    ) -> Any:
        self._calls += 1
        try:
            if connection.hooks.list_changed.is_set():
                await self._read_list(connection)
            await self._check_unchanged(tool, run)
            connection.hooks.ask = ask
            result = await self._limited_call(connection, tool.tool.name, arguments)
        finally:
            self._calls -= 1
            connection.hooks.ask = None
            self._last_used = anyio.current_time()
        self._starts = 0
        return result

    async def listing(self) -> tuple[str, list[ForeignTool]]:
        """The revision of the protocol, and every tool as the server describes it now."""
        connection = await self._connected()
        if connection.hooks.list_changed.is_set():
            await self._read_list(connection)
        return connection.protocol, list(self._offered.values())

    def close(self) -> None:
        self._stop.set()

    async def _limited_call(
        self, connection: ServerConnection, tool: str, arguments: Mapping[str, Any]
    ) -> Any:
        latest = anyio.current_time() + self._limits.progress_call_s
        with anyio.CancelScope(deadline=anyio.current_time() + self._limits.call_s) as scope:

            def extend() -> None:
                scope.deadline = min(latest, anyio.current_time() + self._limits.call_s)

            return await connection.call_tool(tool, arguments, extend)
        raise ToolError(
            f"{tool} of the MCP server {self.pin.name} did not end in time; it may still be at work"
        )

    async def _check_unchanged(self, tool: ToolPin, run: str) -> None:
        name, server = tool.tool.name, self.pin.name
        offered = self._offered.get(name)
        usable = offered is not None and not tool_objection(offered)
        if offered is not None and usable and offered.digest == tool.digest:
            return
        if self._publish is not None:
            now = offered.digest if offered is not None and usable else ""
            await self._publish(
                McpToolWithheld(run=run, server=server, tool=name, pinned=tool.digest, offered=now)
            )
        if offered is None:
            raise ToolError(f"the MCP server {server} no longer has the tool {name}")
        changes = "\n".join(describe_change(tool.tool, offered))
        raise ToolError(
            f"not called: the MCP server {server} describes {name} otherwise than it was reviewed. "
            f"A person must look at it with `hermes mcp review {server}`. What changed:\n{changes}"
        )

    async def _connected(self) -> ServerConnection:
        async with self._opening:
            connection = self._connection
            if connection is not None and not connection.hooks.closed.is_set():
                return connection
            await self._ended.wait()
            while True:
                await self._wait_before_start()
                if (connection := await self._start_owner()) is not None:
                    return connection

    async def _wait_before_start(self) -> None:
        """Raises `ToolError` for a server that was given up."""
        if (wait := self._down_until - anyio.current_time()) > 0:
            raise ToolError(
                f"the MCP server {self.pin.name} is down: {self._failure}. It is tried again in "
                f"{wait:.0f} s"
            )
        if self._starts > len(self._limits.restart_delays_s):
            self._down_until = anyio.current_time() + self._limits.down_s
            self._starts = len(self._limits.restart_delays_s)  # then once more
            raise self._failure or ToolError(f"the MCP server {self.pin.name} ends at each call")
        if self._starts and self._down_until == -math.inf:
            await anyio.sleep(self._limits.restart_delays_s[self._starts - 1])

    async def _start_owner(self) -> ServerConnection | None:
        """Return None when it could not be reached. Raises `NeedsPerson`."""
        self._failure, self._ended = None, anyio.Event()
        self._starts += 1
        opened = anyio.Event()
        self._group.start_soon(self._own, opened)
        await opened.wait()
        if isinstance(self._failure, NeedsPerson):
            self._starts = 0
            raise self._failure
        return self._connection

    async def _own(self, opened: anyio.Event) -> None:
        """Holds the connection, from its opening to its end, in one task."""
        ended = self._ended
        with anyio.CancelScope(deadline=anyio.current_time() + self._limits.connect_s) as scope:
            try:
                async with self._connect(self.pin) as connection:
                    scope.deadline = anyio.current_time() + self._limits.list_s
                    await self._read_list(connection)
                    scope.deadline = math.inf
                    self._connection, self._last_used = connection, anyio.current_time()
                    opened.set()
                    await self._wait_until_unused(connection)
                    self._connection = None
            except ToolError as error:
                self._failure = error
            except HermesError as error:
                self._failure = ToolError(str(error))
        if scope.cancelled_caught:
            self._failure = ToolError(
                f"the MCP server {self.pin.name} did not answer in {self._limits.connect_s:.0f} s"
            )
        self._connection = None
        ended.set()
        opened.set()

    async def _wait_until_unused(self, connection: ServerConnection) -> None:
        async with anyio.create_task_group() as group:

            async def end_at(event: anyio.Event) -> None:
                await event.wait()
                group.cancel_scope.cancel()

            group.start_soon(end_at, self._stop)
            group.start_soon(end_at, connection.hooks.closed)
            idle = self.pin.address.idle_s
            while self._calls or anyio.current_time() < self._last_used + idle:
                earliest = anyio.current_time() if self._calls else self._last_used
                await anyio.sleep_until(earliest + idle)
            group.cancel_scope.cancel()

    async def _read_list(self, connection: ServerConnection) -> None:
        with anyio.move_on_after(self._limits.list_s):
            self._offered = {tool.name: tool for tool in await connection.list_tools()}
            return
        raise ToolError(f"the MCP server {self.pin.name} did not list its tools in time")


class McpServers:
    """All servers of a home. Connections are opened by the first call, and end with the block."""

    def __init__(
        self,
        connect: Connect,
        publish: PublishEvents | None = None,
        limits: ServerLimits = DEFAULT_LIMITS,
    ) -> None:
        self._connect, self._publish, self._limits = connect, publish, limits
        self._group: TaskGroup | None = None
        self._servers: dict[str, McpServer] = {}

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        group, self._group = self._group, None
        if group is None:
            return None
        group.cancel_scope.cancel()
        if error is None or isinstance(error, anyio.get_cancelled_exc_class()):
            return await group.__aexit__(kind, error, trace)
        await group.__aexit__(None, None, None)  # the group would wrap an error of the block
        return None

    def server(self, pin: ServerPin) -> McpServer:
        """The same object for the same pin."""
        if self._group is None:
            raise ToolError("no MCP server can be started now: Hermes is ending")
        known = self._servers.get(pin.name)
        if known is None or known.pin != pin:
            if known is not None:
                known.close()
            known = McpServer(pin, self._connect, self._group, self._publish, self._limits)
            self._servers[pin.name] = known
        return known
