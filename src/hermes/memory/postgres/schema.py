"""Creates and migrates the tables, one process at a time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import psycopg

from hermes.core.errors import StoreError, StoreTooNew
from hermes.memory.postgres.connection import (
    SERVER_TIMEOUT_S,
    connect,
    read_only_error,
    translate_errors,
)
from hermes.memory.store import without_password

MIGRATION_LOCK_ID = 0x4865726D  # "Herm": the advisory lock that migrations of one database share
SERVER_START_WAIT_S = 3.0
"""Seconds to wait for a server that is just starting."""

MigrationFiles = Mapping[str, Sequence[str]]


def migration_files() -> MigrationFiles:
    """Step n of a part migrates from version n to n + 1. A released step never changes."""
    return {"journal": ("journal-1.sql",), "search": ("search-1.sql",)}


def vector_migration_files() -> MigrationFiles:
    """Separate from the others: a server without pgvector still keeps journal and text search."""
    return {"vectors": ("vectors-1.sql",)}


def migrate_schema(
    url: str, *, wanted: MigrationFiles | None = None, timeout_s: float = SERVER_TIMEOUT_S
) -> None:
    """Create or migrate the tables if necessary."""
    plan = wanted or migration_files()
    with translate_errors(url), _connect_with_retry(url, timeout_s) as connection:
        _check_server(connection, url)
        if _needs_migration(connection, url, plan):
            _migrate(connection, url, plan)


def component_versions(connection: psycopg.Connection[Any], url: str) -> dict[str, int]:
    """Part → version; empty when the database has no Hermes tables."""
    # Read from the catalog: `to_regclass` may answer from a cache older than the lock we wait for.
    sql = "SELECT relname FROM pg_class WHERE relnamespace IN "
    sql += "(SELECT oid FROM pg_namespace WHERE nspname = 'hermes')"
    inside = {name for (name,) in connection.execute(sql.encode())}
    if "component" in inside:
        return dict(connection.execute("SELECT name, version FROM hermes.component").fetchall())
    if inside:
        raise StoreError(
            f"the schema `hermes` in {without_password(url)} belongs to another program; use "
            "another database"
        )
    return {}


@contextmanager
def open_existing(url: str, *, timeout_s: float | None = None) -> Iterator[psycopg.Connection[Any]]:
    """For maintenance of an existing store; nothing is created and nothing migrated."""
    with translate_errors(url), connect(url, timeout_s=timeout_s) as connection:
        found = component_versions(connection, url)
        if not found:
            raise StoreError(f"there is no journal in {without_password(url)} yet")
        if _needs_migration(connection, url, migration_files()):
            raise StoreError(
                f"{without_password(url)} has an old version; start Hermes to update it"
            )
        yield connection


def _connect_with_retry(url: str, timeout_s: float) -> psycopg.Connection[Any]:
    deadline = time.monotonic() + min(SERVER_START_WAIT_S, timeout_s)
    while True:
        try:
            return connect(url, timeout_s=timeout_s)
        except psycopg.OperationalError as error:
            if not _is_temporary(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _is_temporary(error: psycopg.OperationalError) -> bool:
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
            f"{without_password(url)} stores texts as {encoding}; make a database with ENCODING "
            "'UTF8'"
        )
    if locked == "on":
        raise read_only_error(url)


def _needs_migration(connection: psycopg.Connection[Any], url: str, plan: MigrationFiles) -> bool:
    found = component_versions(connection, url)
    for part, files_ in plan.items():
        if found.get(part, 0) > len(files_):
            raise StoreTooNew(
                f"the {part} in {without_password(url)} has version {found[part]}, this Hermes "
                f"knows {len(files_)}; update Hermes, or use another database"
            )
    return any(found.get(part, 0) < len(files_) for part, files_ in plan.items())


def _migrate(connection: psycopg.Connection[Any], url: str, plan: MigrationFiles) -> None:
    # No timeout for a migration: a large one, or the wait for another process's, may take long.
    connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK_ID,))
        found = component_versions(connection, url)  # again: another process may have been faster
        connection.execute(
            "CREATE SCHEMA IF NOT EXISTS hermes; CREATE TABLE IF NOT EXISTS "
            "hermes.component(name text PRIMARY KEY, version integer NOT NULL)"
        )
        for part, files_ in plan.items():
            for step in files_[found.get(part, 0) :]:
                connection.execute(_read_migration(step))
            connection.execute(
                "INSERT INTO hermes.component VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET version = excluded.version",
                (part, len(files_)),
            )


def _read_migration(step: str) -> bytes:
    """A file of ours, or in tests the statements themselves."""
    if step.endswith(".sql"):
        return files("hermes.memory.postgres").joinpath("sql", step).read_bytes()
    return step.encode()
