"""All rows in order for those who look after the store; no transaction outlasts a page."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg

from hermes.memory.rows import Row

ROWS = 500
BYTES = 8 << 20
_PAGE = (
    "SELECT seq, at, run, kind, digest, body, hash FROM ("
    " SELECT *, sum(size) OVER (ORDER BY seq) - size AS before FROM ("
    "  SELECT *, octet_length(coalesce(body, '')) AS size FROM hermes.event"
    "  WHERE seq > %(after)s AND (%(run)s::text IS NULL OR run = %(run)s)"
    "  ORDER BY seq LIMIT %(rows)s) AS page"
    ") AS sized WHERE before < %(bytes)s ORDER BY seq"
)


class Stored(NamedTuple):
    """An event as a store holds it, with its place in the chain."""

    seq: int
    digest: bytes
    row: Row

    @property
    def purged(self) -> bool:
        return isinstance(self.row.body, bytes)


def pages(
    connection: psycopg.Connection[Any], *, after: int = 0, run: str | None = None
) -> Iterator[list[Stored]]:
    while True:
        values = {"after": after, "run": run, "rows": ROWS, "bytes": BYTES}
        found = connection.execute(_PAGE, values, binary=True).fetchall()
        if not found:
            return
        yield [
            Stored(seq, bytes(digest), Row(at, of, kind, body if hash_ is None else bytes(hash_)))
            for seq, at, of, kind, digest, body, hash_ in found
        ]
        after = found[-1][0]


def head(connection: psycopg.Connection[Any]) -> tuple[int, bytes]:
    """The newest number and its digest."""
    last, digest = connection.execute("SELECT last, digest FROM hermes.head").fetchone() or (0, b"")
    return last, bytes(digest)


def gaps(connection: psycopg.Connection[Any]) -> tuple[tuple[int, int], ...]:
    return tuple(connection.execute("SELECT first, last FROM hermes.gap ORDER BY first").fetchall())
