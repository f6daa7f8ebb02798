"""Opens connections with limited waits and nothing half-written, and translates errors."""

import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar

import anyio
import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from hermes.core.errors import SettingsError, StoreCorrupt, StoreError, StoreFull, StoreTooNew
from hermes.memory.store import host_and_port, libpq_url, without_password

SERVER_TIMEOUT_S = 10.0
"""Seconds to wait for the server, or for another process's transaction; ours take milliseconds."""
SESSION_SETTINGS_SQL: LiteralString = (
    "SELECT set_config('lock_timeout', %(lock)s, false),"
    " set_config('statement_timeout', %(statement)s, false),"
    " set_config('idle_in_transaction_session_timeout', '60s', false),"
    # Acknowledged means on disk, whatever the server's default is. With 'off' a crash of the server
    # would take back numbers that others have already seen.
    " set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') ="
    " 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)


def connection_parameters(url: str, timeout_s: float = SERVER_TIMEOUT_S) -> dict[str, Any]:
    """The parameters for libpq. A dead host is noticed by keep-alives."""
    try:
        parameters = conninfo_to_dict(libpq_url(url))
    except psycopg.Error:  # its text may repeat the password
        raise SettingsError(
            "store.url (MEMORY_DB_URL) cannot be read: special characters in the password must be "
            "written as %XX"
        ) from None
    return {
        "connect_timeout": max(2, round(timeout_s / 2)),
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **parameters,
        "client_encoding": "utf8",
        "application_name": f"hermes {socket.gethostname()}:{os.getpid()}"[:63],
    }


def timeout_settings(timeout_s: float | None) -> dict[str, str]:
    """The server gives up a little before we do, so that its error arrives."""
    if timeout_s is None:
        return {"lock": "10s", "statement": "0"}
    return {"lock": f"{timeout_s * 800:.0f}ms", "statement": f"{timeout_s * 900:.0f}ms"}


def connect(url: str, *, timeout_s: float | None = None) -> psycopg.Connection[Any]:
    """For maintenance. Without `timeout_s` a statement may take any time."""
    connection = psycopg.connect(
        **connection_parameters(url, timeout_s or SERVER_TIMEOUT_S), autocommit=True
    )
    try:
        connection.execute(SESSION_SETTINGS_SQL, timeout_settings(timeout_s))
    except BaseException:
        connection.close()
        raise
    return connection


async def connect_async(url: str, timeout_s: float) -> psycopg.AsyncConnection[Any]:
    connection = await psycopg.AsyncConnection.connect(
        **connection_parameters(url, timeout_s), autocommit=True
    )
    try:
        await connection.execute(SESSION_SETTINGS_SQL, timeout_settings(timeout_s))
    except BaseException:
        connection.pgconn.finish()
        raise
    return connection


TOO_NEW_SQLSTATE = "HM001"
"""Raised by our own functions in the database."""


@contextmanager
def translate_errors(url: str) -> Iterator[None]:
    """Errors of the block are raised as `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        raise translate_error(error, url) from error


def translate_error(error: BaseException, url: str) -> StoreError:
    location = without_password(url)
    match error:
        case errors.ReadOnlySqlTransaction():
            return read_only_error(url)
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreFull(
                f"no space left on the server of {location}; nothing that was acknowledged is "
                "lost, free some space there and try again"
            )
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreCorrupt(
                f"the server says that {location} is damaged ({_first_line(error)}); restore it "
                "from a backup of the database"
            )
        case errors.LockNotAvailable():
            return StoreError(
                f"another process kept the journal in {location} locked for too long; see "
                "pg_stat_activity for who holds it, and try again"
            )
        case errors.QueryCanceled():
            return StoreError(
                f"the server of {location} was too slow and the question was given up; raise "
                "store.patience, or see what keeps it busy"
            )
        case errors.InsufficientPrivilege():
            return StoreError(
                f"this user may not do that in {location} ({_first_line(error)}); grant it, or let "
                "the owner of the database run `hermes store status` once"
            )
        case errors.UndefinedTable() | errors.InvalidSchemaName() | errors.UndefinedFunction():
            return StoreError(f"the tables of Hermes are gone from {location}; start again")
        case psycopg.Error(sqlstate=sqlstate) if sqlstate == TOO_NEW_SQLSTATE:
            return StoreTooNew(f"a later Hermes has migrated {location}; start this one again")
        case psycopg.OperationalError() | psycopg.InterfaceError() | TimeoutError() | OSError():
            return server_unreachable_error(error, url)
    return StoreError(
        f"the journal in {location} could not be read or written: {_first_line(error)}"
    )


def server_unreachable_error(error: BaseException, url: str) -> StoreError:
    return StoreError(
        f"the PostgreSQL server at {host_and_port(url)} cannot be used: {_first_line(error)}. "
        "Nothing that was acknowledged is lost; see that it runs and that store.url "
        "(MEMORY_DB_URL) names it, then try again"
    )


def read_only_error(url: str) -> StoreError:
    return StoreError(
        f"the PostgreSQL server of {without_password(url)} is read-only, perhaps a standby; let "
        "store.url (MEMORY_DB_URL) name the primary"
    )


def _first_line(error: BaseException) -> str:
    """The first line; later ones are hints for people who write SQL."""
    text = str(error).strip()
    if isinstance(error, TimeoutError) and not text:
        return "it does not answer"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


PgConnection = psycopg.Connection[Any]
AsyncPgConnection = psycopg.AsyncConnection[Any]
Answer = TypeVar("Answer")
OnConnect = Callable[[AsyncPgConnection], Awaitable[None]]
SERVER_REPLY_GRACE_S = 1.5
"""Seconds after our timeout in which the server's own timeout error may still arrive."""
LOST_CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)


async def do_nothing(connection: AsyncPgConnection) -> None:
    """A new connection needs no setup."""


class ReconnectingConnection:
    """Runs one query at a time. Each is shielded: libpq does not survive a cancellation."""

    def __init__(self, url: str, timeout_s: float, on_connect: OnConnect = do_nothing) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._on_connect = on_connect
        self._connection: AsyncPgConnection | None = None
        self._lock = anyio.Lock()
        self._closed = False

    async def ask(self, question: Callable[[AsyncPgConnection], Awaitable[Answer]]) -> Answer:
        """The result. On a lost connection the query is repeated, so running it twice must do no
        harm; after `timeout_s` seconds it fails with `StoreError`."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                answer = await self._ask_with_retry(question)
        return answer

    async def close(self) -> None:
        self._closed = True
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._drop()

    async def _ask_with_retry(
        self, question: Callable[[AsyncPgConnection], Awaitable[Answer]]
    ) -> Answer:
        deadline = anyio.current_time() + self._timeout_s
        pause = 0.02
        while not self._closed:
            try:
                with anyio.fail_after(
                    max(0.0, deadline - anyio.current_time()) + SERVER_REPLY_GRACE_S
                ):
                    return await question(await self._open_connection())
            except (psycopg.Error, OSError) as error:
                if not self._is_lost(error):
                    raise translate_error(error, self._url) from error
                self._drop()
                if anyio.current_time() + pause > deadline:
                    raise translate_error(error, self._url) from error
            await anyio.sleep(pause)
            pause = min(pause * 2, 0.5)
        raise StoreError("the journal is closed; nothing more can be read or written")

    async def _open_connection(self) -> AsyncPgConnection:
        if self._connection is None:
            self._connection = await connect_async(self._url, self._timeout_s)
            await self._on_connect(self._connection)
        return self._connection

    def _is_lost(self, error: Exception) -> bool:
        """The connection, and not the query, failed."""
        if isinstance(error, OSError):  # a timeout too: the state of the connection is unknown
            return True
        return isinstance(error, LOST_CONNECTION_ERRORS) and (
            self._connection is None or self._connection.closed
        )

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
