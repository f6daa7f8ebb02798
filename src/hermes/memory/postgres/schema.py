"""The shape of the tables, and how an older one is brought up to date by one process at a time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import psycopg

from hermes.core.errors import StoreError, StoreTooNew
from hermes.memory.postgres.address import shown
from hermes.memory.postgres.connecting import PATIENCE, connect
from hermes.memory.postgres.faults import explained, read_only

LOCK = 0x4865726D  # "Herm": the advisory lock that migrations of one database share
LATE = 3.0
"""Seconds that a server which is just starting is given."""

Steps = Mapping[str, Sequence[str]]


def steps() -> Steps:
    """Step n of a part leads from version n to n + 1. A step that was released never changes."""
    return {"journal": ("journal-1.sql",), "search": ("search-1.sql",)}


def vector_steps() -> Steps:
    """Apart from the others: a server without pgvector still keeps journal and text search."""
    return {"vectors": ("vectors-1.sql",)}


def prepare(url: str, *, wanted: Steps | None = None, patience: float = PATIENCE) -> None:
    """Make or migrate the tables, or find that nothing is to be done."""
    plan = wanted or steps()
    with explained(url), _first(url, patience) as connection:
        _check_server(connection, url)
        if _missing(connection, url, plan):
            _bring_up_to_date(connection, url, plan)


def versions(connection: psycopg.Connection[Any], url: str) -> dict[str, int]:
    """Part → version; empty when Hermes has never been here."""
    # Asked of the catalogue: `to_regclass` may answer from a cache older than the lock we wait for.
    sql = "SELECT relname FROM pg_class WHERE relnamespace IN "
    sql += "(SELECT oid FROM pg_namespace WHERE nspname = 'hermes')"
    inside = {name for (name,) in connection.execute(sql.encode())}
    if "component" in inside:
        return dict(connection.execute("SELECT name, version FROM hermes.component").fetchall())
    if inside:
        raise StoreError(
            f"the schema `hermes` in {shown(url)} belongs to another program; use another database"
        )
    return {}


@contextmanager
def opened(url: str) -> Iterator[psycopg.Connection[Any]]:
    """For looking after a store that is there; nothing is made and nothing migrated."""
    with explained(url), connect(url) as connection:
        found = versions(connection, url)
        if not found:
            raise StoreError(f"there is no journal in {shown(url)} yet")
        if _missing(connection, url, steps()):
            raise StoreError(f"{shown(url)} has an old version; start Hermes to update it")
        yield connection


def _first(url: str, patience: float) -> psycopg.Connection[Any]:
    deadline = time.monotonic() + min(LATE, patience)
    while True:
        try:
            return connect(url, patience=patience)
        except psycopg.OperationalError as error:
            if not _passing(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _passing(error: psycopg.OperationalError) -> bool:
    """Refused, or still starting; a wrong password stays wrong."""
    return not isinstance(
        error,
        psycopg.errors.InvalidPassword
        | psycopg.errors.InvalidAuthorizationSpecification
        | psycopg.errors.InvalidCatalogName,
    ) and all(word not in str(error) for word in ("password", "authentication", "does not exist"))


def _check_server(connection: psycopg.Connection[Any], url: str) -> None:
    sql = "SELECT current_setting('server_encoding'), current_setting('transaction_read_only')"
    encoding, locked = connection.execute(sql).fetchone() or ("", "")
    if encoding != "UTF8":
        raise StoreError(
            f"{shown(url)} stores texts as {encoding}; make a database with ENCODING 'UTF8'"
        )
    if locked == "on":
        raise read_only(url)


def _missing(connection: psycopg.Connection[Any], url: str, plan: Steps) -> bool:
    found = versions(connection, url)
    for part, files_ in plan.items():
        if found.get(part, 0) > len(files_):
            raise StoreTooNew(
                f"the {part} in {shown(url)} has version {found[part]}, this Hermes knows "
                f"{len(files_)}; update Hermes, or use another database"
            )
    return any(found.get(part, 0) < len(files_) for part, files_ in plan.items())


def _bring_up_to_date(connection: psycopg.Connection[Any], url: str, plan: Steps) -> None:
    # No bound on a migration: a large one, or the wait for another process's, may take its time.
    connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        found = versions(connection, url)  # again: another process may have been faster
        connection.execute(
            "CREATE SCHEMA IF NOT EXISTS hermes; CREATE TABLE IF NOT EXISTS "
            "hermes.component(name text PRIMARY KEY, version integer NOT NULL)"
        )
        for part, files_ in plan.items():
            for step in files_[found.get(part, 0) :]:
                connection.execute(_sql(step))
            connection.execute(
                "INSERT INTO hermes.component VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET version = excluded.version",
                (part, len(files_)),
            )


def _sql(step: str) -> bytes:
    """A file of ours, or in tests the statements themselves."""
    if step.endswith(".sql"):
        return files("hermes.memory.postgres").joinpath("sql", step).read_bytes()
    return step.encode()
