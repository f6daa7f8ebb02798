"""Appends through one connection; what waits at the same time is committed together.

Every group has a ticket number, and the database keeps the last one of each writer. A group whose
acknowledgement was lost is sent again under its number: the server looks, and answers with where
the events are, or writes them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID, uuid4

import anyio

from hermes.core.errors import StoreError
from hermes.memory.postgres.claims import Claimed
from hermes.memory.postgres.line import Connection, Line
from hermes.memory.postgres.sending import APPEND, arguments
from hermes.memory.rows import Row

GROUP = 512
"""Events that one transaction may hold before others get their turn."""
BYTES = 16 << 20
LONGEST = 256 << 20
"""Characters of one event; PostgreSQL itself ends at a gigabyte."""


class Ticket:
    """One `append` on its way: all of its rows are kept, or none."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.outcome: range | StoreError | None = None

    def result(self) -> range:
        if isinstance(self.outcome, range):
            return self.outcome
        raise self.outcome or StoreError("the journal's writer left an append unanswered")


class Writer:
    def __init__(self, url: str, patience: float, committed: Callable[[int], None]) -> None:
        """`committed` is called with the newest number after each commit."""
        self.claimed = Claimed()
        self._line = Line(url, patience, self.claimed.retake)
        self._id: UUID = uuid4()
        self._group = 0
        self._committed = committed
        self._waiting: deque[Ticket] = deque()
        self._turn = anyio.Lock()
        self._closed = False

    async def append(self, rows: Sequence[Row]) -> range:
        """Takes its place in the order at once; whoever is first writes for all who wait."""
        if self._closed:
            raise StoreError("the journal is closed; nothing more can be written")
        _check(rows)
        ticket = Ticket(rows)
        self._waiting.append(ticket)
        with anyio.CancelScope(shield=True):  # a caller that is cancelled has still written
            async with self._turn:
                while ticket.outcome is None:
                    await self._commit(self._gather())
        return ticket.result()

    async def claim(self, run: str) -> str:
        """Empty when the run is ours now, else who has it."""
        return await self._line.ask(lambda connection: self.claimed.take(connection, run))

    async def close(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with self._turn:  # behind everyone who waits
                await self._line.close()

    def _gather(self) -> list[Ticket]:
        tickets: list[Ticket] = []
        events = size = 0
        while self._waiting and events < GROUP and size < BYTES:
            ticket = self._waiting.popleft()
            tickets.append(ticket)
            events += len(ticket.rows)
            size += sum(len(row.body) for row in ticket.rows)
        return tickets

    async def _commit(self, tickets: Sequence[Ticket]) -> None:
        rows = [row for ticket in tickets for row in ticket.rows]
        self._group += 1
        try:
            first = await self._line.ask(lambda connection: self._send(connection, rows))
        except StoreError as error:
            for ticket in tickets:
                ticket.outcome = type(error)(*error.args)  # one traceback each
                ticket.outcome.__cause__ = error.__cause__
            return
        except BaseException as error:
            for ticket in tickets:  # nobody may wait for ever
                ticket.outcome = StoreError(f"the journal's writer broke down: {error!r}")
            raise
        for ticket in tickets:
            ticket.outcome = range(first, first + len(ticket.rows))
            first += len(ticket.rows)
        self._committed(first - 1)

    async def _send(self, connection: Connection, rows: Sequence[Row]) -> int:
        self.claimed.check(row.run for row in rows)
        values = arguments(self._id, self._group, rows)
        cursor = await connection.execute(APPEND, values, prepare=True)
        (first,) = await cursor.fetchone() or (None,)
        assert isinstance(first, int), "groups of one writer come one after the other"
        return first


def _check(rows: Sequence[Row]) -> None:
    """What the server could not take must not fail the others of its group."""
    for row in rows:
        if "\x00" in row.run:
            raise StoreError("the id of a run holds a NUL character; use another id")
        if len(row.body) > LONGEST:
            raise StoreError(f"an event of {len(row.body):,} characters is too long to be kept")
