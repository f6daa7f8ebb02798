"""Turns what the server and the network say into our own errors, with what to do next."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull, StoreTooNew
from hermes.memory.postgres.address import host_of, shown

TOO_NEW = "HM001"
"""Raised by our own functions in the database."""


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Errors of the block leave it as `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        raise explain(error, url) from error


def explain(error: BaseException, url: str) -> StoreError:
    place = shown(url)
    match error:
        case errors.ReadOnlySqlTransaction():
            return read_only(url)
        case errors.DiskFull() | errors.OutOfMemory():
            return StoreFull(
                f"no space left on the server of {place}; nothing that was acknowledged is lost, "
                "free some space there and try again"
            )
        case errors.DataCorrupted() | errors.IndexCorrupted():
            return StoreCorrupt(
                f"the server says that {place} is damaged ({_said(error)}); restore it from a "
                "backup of the database"
            )
        case errors.LockNotAvailable():
            return StoreError(
                f"another process kept the journal in {place} locked for too long; see "
                "pg_stat_activity for who holds it, and try again"
            )
        case errors.QueryCanceled():
            return StoreError(
                f"the server of {place} was too slow and the question was given up; raise "
                "store.patience, or see what keeps it busy"
            )
        case errors.InsufficientPrivilege():
            return StoreError(
                f"this user may not do that in {place} ({_said(error)}); grant it, or let the "
                "owner of the database run `hermes store status` once"
            )
        case errors.UndefinedTable() | errors.InvalidSchemaName() | errors.UndefinedFunction():
            return StoreError(f"the tables of Hermes are gone from {place}; start again")
        case psycopg.Error(sqlstate=sqlstate) if sqlstate == TOO_NEW:
            return StoreTooNew(f"a later Hermes has migrated {place}; start this one again")
        case psycopg.OperationalError() | psycopg.InterfaceError() | TimeoutError() | OSError():
            return gone(error, url)
    return StoreError(f"the journal in {place} could not be read or written: {_said(error)}")


def gone(error: BaseException, url: str) -> StoreError:
    return StoreError(
        f"the PostgreSQL server at {host_of(url)} cannot be used: {_said(error)}. Nothing that was "
        "acknowledged is lost; see that it runs and that store.url (MEMORY_DB_URL) names it, then "
        "try again"
    )


def read_only(url: str) -> StoreError:
    return StoreError(
        f"the PostgreSQL server of {shown(url)} is read-only, perhaps a standby; let store.url "
        "(MEMORY_DB_URL) name the primary"
    )


def _said(error: BaseException) -> str:
    """The first line; later ones are hints for people who write SQL."""
    text = str(error).strip()
    if isinstance(error, TimeoutError) and not text:
        return "it does not answer"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
