"""Opens connections the way a store wants them: bounded waits, nothing half-written."""

import os
import socket
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from hermes.core.errors import SettingsError
from hermes.memory.postgres.address import clean_url

PATIENCE = 10.0
"""Seconds to wait for the server, or for another process's transaction; ours take milliseconds."""
GREETING: LiteralString = (
    "SELECT set_config('lock_timeout', %(lock)s, false),"
    " set_config('statement_timeout', %(statement)s, false),"
    " set_config('idle_in_transaction_session_timeout', '60s', false),"
    # Acknowledged means on disk, whatever the server does by default. With 'off' a crash of the
    # server would take numbers back that others have already seen.
    " set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') ="
    " 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)


def parameters(url: str, patience: float = PATIENCE) -> dict[str, Any]:
    """What libpq is told. A host that died without a word is noticed by keep-alives."""
    try:
        given = conninfo_to_dict(clean_url(url))
    except psycopg.Error:  # its text may repeat the password
        raise SettingsError(
            "store.url (MEMORY_DB_URL) cannot be read: special characters in the password must be "
            "written as %XX"
        ) from None
    return {
        "connect_timeout": max(2, round(patience / 2)),
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **given,
        "client_encoding": "utf8",
        "application_name": f"hermes {socket.gethostname()}:{os.getpid()}"[:63],
    }


def limits(patience: float | None) -> dict[str, str]:
    """For `GREETING`: the server gives up a little before we do, so that its words arrive."""
    if patience is None:
        return {"lock": "10s", "statement": "0"}
    return {"lock": f"{patience * 800:.0f}ms", "statement": f"{patience * 900:.0f}ms"}


def connect(url: str, *, patience: float | None = None) -> psycopg.Connection[Any]:
    """For looking after the store. Without `patience` a statement may take as long as it takes."""
    connection = psycopg.connect(**parameters(url, patience or PATIENCE), autocommit=True)
    try:
        connection.execute(GREETING, limits(patience))
    except BaseException:
        connection.close()
        raise
    return connection


async def connect_async(url: str, patience: float) -> psycopg.AsyncConnection[Any]:
    connection = await psycopg.AsyncConnection.connect(**parameters(url, patience), autocommit=True)
    try:
        await connection.execute(GREETING, limits(patience))
    except BaseException:
        connection.pgconn.finish()
        raise
    return connection
