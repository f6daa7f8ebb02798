"""How rows are handed to the append function of the database."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import msgspec
import psycopg

from hermes.memory.postgres.schema import steps
from hermes.memory.rows import Row

APPEND = (
    "SELECT hermes.append(%s, %s, %s, %s::bigint[], %s::text[], %s::text[], %s::bytea[], "
    "%s::text[])"
)


def arguments(writer: UUID, ticket: int, rows: Sequence[Row]) -> Sequence[Any]:
    """For `APPEND`. What the chain hashes beside the body is made here, as in `chain.link`."""
    return (
        len(steps()["journal"]),
        writer,
        ticket,
        [row.at for row in rows],
        [row.run for row in rows],
        [row.kind for row in rows],
        [msgspec.json.encode((row.kind, row.run, row.at)) for row in rows],
        [row.body for row in rows],
    )


def send(connection: psycopg.Connection[Any], rows: Sequence[Row]) -> None:
    """Inside the caller's transaction, which is not repeated."""
    connection.execute(APPEND, arguments(uuid4(), 1, rows))
