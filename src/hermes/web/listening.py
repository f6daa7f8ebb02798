"""Takes connections, each in a task of its own; whatever one of them does, the others go on."""

from collections.abc import Callable
from http import HTTPStatus

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream, TaskGroup

from hermes.core.errors import SettingsError
from hermes.web.http import Door, Limits, Peer, refusal

BACKLOG = 1024
LARGE = 2
"""Large bodies in memory at once."""
FULL = "too many connections; try again"


async def listen(
    host: str, port: int, door: Door, limits: Limits, *, ready: Callable[[int], None]
) -> None:
    """Serve until cancelled. Raises `SettingsError` when it cannot listen."""
    try:
        listener = await anyio.create_tcp_listener(
            local_host=host, local_port=port, backlog=BACKLOG
        )
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"cannot listen on {host} port {port}: {why}. "
            "Another watcher may be running; else choose other web.listen and web.port"
        ) from error
    floor = _Floor(door, limits)
    async with listener, anyio.create_task_group() as group:
        for each in listener.listeners:
            assert isinstance(each, SocketListener)
            group.start_soon(floor.accept, each, group)
        ready(listener.extra(SocketAttribute.local_port))


class _Floor:
    def __init__(self, door: Door, limits: Limits) -> None:
        self._door = door
        self._limits = limits
        self._large = anyio.Semaphore(LARGE)
        self._here = 0

    async def accept(self, listener: SocketListener, group: TaskGroup) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError:
                # Out of file descriptors, or a peer gone already: others must finish first.
                await anyio.sleep(0.05)
                continue
            group.start_soon(self._host, stream)

    async def _host(self, stream: SocketStream) -> None:
        peer = Peer(stream, self._limits, self._large)
        self._here += 1
        try:
            if self._here > self._limits.connections:
                full = refusal(HTTPStatus.SERVICE_UNAVAILABLE, FULL, ("retry-after", "1"))
                self._door.note(None, full)
                await peer.turn_away(full)
            else:
                await peer.converse(self._door)
        finally:
            self._here -= 1
