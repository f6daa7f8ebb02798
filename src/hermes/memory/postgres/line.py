"""One connection that is opened when it is needed and replaced when it was lost."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import psycopg

from hermes.core.errors import StoreError
from hermes.memory.postgres.connecting import connect_async
from hermes.memory.postgres.faults import explain

Connection = psycopg.AsyncConnection[Any]
Answer = TypeVar("Answer")
Greet = Callable[[Connection], Awaitable[None]]
GRACE = 1.5
"""Seconds past our patience in which the server's own word that it gave up may still arrive."""
LOST = (psycopg.OperationalError, psycopg.InterfaceError)


async def nothing(connection: Connection) -> None:
    """A fresh connection needs no words."""


class Line:
    """Questions take their turn. Each is shielded: libpq does not survive being cut off midway."""

    def __init__(self, url: str, patience: float, greet: Greet = nothing) -> None:
        self._url = url
        self._patience = patience
        self._greet = greet
        self._connection: Connection | None = None
        self._turn = anyio.Lock()
        self._closed = False

    async def ask(self, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        """The answer. On a lost connection the question is put again, so asking twice must do no
        harm; after `patience` seconds it is given up with `StoreError`."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                answer = await self._insist(question)
        return answer

    async def close(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._drop()

    async def _insist(self, question: Callable[[Connection], Awaitable[Answer]]) -> Answer:
        deadline = anyio.current_time() + self._patience
        pause = 0.02
        while not self._closed:
            try:
                with anyio.fail_after(max(0.0, deadline - anyio.current_time()) + GRACE):
                    return await question(await self._connected())
            except (psycopg.Error, OSError) as error:
                if not self._is_lost(error):
                    raise explain(error, self._url) from error
                self._drop()
                if anyio.current_time() + pause > deadline:
                    raise explain(error, self._url) from error
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.5)
        raise StoreError("the journal is closed; nothing more can be read or written")

    async def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = await connect_async(self._url, self._patience)
            await self._greet(self._connection)
        return self._connection

    def _is_lost(self, error: Exception) -> bool:
        """The connection, and not the question, was at fault."""
        if isinstance(error, OSError):  # a time-out too: nobody knows where it stands
            return True
        return isinstance(error, LOST) and (self._connection is None or self._connection.closed)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
