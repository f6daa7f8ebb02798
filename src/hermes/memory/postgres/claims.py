"""Which runs this process works on, as locks in the database: they end with the connection."""

from collections.abc import Iterable
from hashlib import sha256

from hermes.core.errors import StoreError
from hermes.memory.postgres.line import Connection

_HOLDER = """
    SELECT coalesce(a.application_name, ''), coalesce(host(a.client_addr), '')
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (l.classid::bigint << 32 | l.objid::bigint) = %s
"""


class Claimed:
    """Tied to the connection that writes: who lost it to another may not go on writing."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._lost: set[str] = set()

    async def take(self, connection: Connection, run: str) -> str:
        if run in self._held:
            return ""
        if await _lock(connection, run):
            self._held.add(run)
            self._lost.discard(run)
            return ""
        cursor = await connection.execute(_HOLDER, (key_of(run),))
        name, host = await cursor.fetchone() or ("", "")
        return " ".join(filter(None, (name.removeprefix("hermes "), host))) or "unknown"

    async def retake(self, connection: Connection) -> None:
        """On a fresh connection. What another process took meanwhile is lost."""
        for run in sorted(self._held):
            if not await _lock(connection, run):
                self._held.discard(run)
                self._lost.add(run)

    def check(self, runs: Iterable[str]) -> None:
        for run in set(runs) if self._lost else ():
            if run in self._lost or run.partition("/")[0] in self._lost:
                raise StoreError(
                    f"another process took over {run} while the server was away; end here, and "
                    "resume it when that one has ended"
                )


def key_of(run: str) -> int:
    return int.from_bytes(sha256(b"run " + run.encode(errors="replace")).digest()[:8], signed=True)


async def _lock(connection: Connection, run: str) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s::bigint)", (key_of(run),))
    row = await cursor.fetchone()
    return bool(row and row[0])
