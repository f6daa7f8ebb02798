"""Hears that somebody has appended, on a connection of its own, without asking all the time."""

import asyncio
from collections.abc import Callable

import psycopg

from hermes.memory.postgres.connecting import connect_async
from hermes.memory.postgres.line import Connection

CHANNEL = "hermes_journal"
PAUSE = 5.0
"""Seconds after which a look is due although nothing rang: a dead network says nothing."""
DEAF = 0.5
"""The same while there is no connection."""


class Ear:
    """Once open, `ring` is called in the event loop whenever any process commits."""

    def __init__(self, url: str, patience: float, ring: Callable[[], None]) -> None:
        self._url = url
        self._patience = patience
        self._ring = ring
        self._connection: Connection | None = None
        self._socket = -1
        self._opening = False

    @property
    def pause(self) -> float:
        return DEAF if self._connection is None else PAUSE

    async def open(self) -> None:
        """Listen from now on. A server that cannot be reached is told by whoever asks it."""
        if self._connection is not None or self._opening:
            return
        self._opening = True
        try:
            connection = await connect_async(self._url, self._patience)
            try:
                await connection.execute(f"LISTEN {CHANNEL}")
            except BaseException:
                connection.pgconn.finish()
                raise
        except (psycopg.Error, OSError):
            return
        finally:
            self._opening = False
        self._connection = connection
        # psycopg would want a task that waits; the loop can watch the socket for nothing.
        self._socket = connection.pgconn.socket
        asyncio.get_running_loop().add_reader(self._socket, self._heard)
        self._ring()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            connection.pgconn.finish()

    def _heard(self) -> None:
        assert self._connection is not None
        try:
            self._connection.pgconn.consume_input()
            while self._connection.pgconn.notifies() is not None:
                pass
        except psycopg.Error:
            self.close()
        self._ring()
