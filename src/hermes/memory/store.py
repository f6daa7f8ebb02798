"""Opens the journal store: a SQLite file, or a PostgreSQL database by its URL.

The PostgreSQL modules are loaded only for a URL.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from hermes.core.errors import SettingsError
from hermes.core.protocols import Journal
from hermes.memory.journal.runs import RunSummary

StoreLocation = Path | str
"""A file, or the URL of a database."""


class JournalStore(Journal, Protocol):
    """What the application and the commands use of a journal, in a file or a database."""

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        """Runs, the last started first: without a parent, of one parent, or (None) all."""

    async def close(self) -> None: ...


@runtime_checkable
class ReadOnlyStore(Protocol):
    """A store that can only be read, because its home cannot be written."""

    read_only: bool


@runtime_checkable
class ClaimsRuns(Protocol):
    """A store that several machines share, and that knows who works on a run."""

    async def claim(self, run: str) -> str:
        """Empty when the run is ours now, else who has it."""

    async def release_claim(self, run: str) -> None:
        """Another process may claim the run now."""


def open_journal(
    location: StoreLocation, *, timeout_s: float = 10.0, or_read_only: bool = False
) -> AbstractAsyncContextManager[JournalStore]:
    """Create, migrate or open it. Raises `StoreError` with advice.

    With `or_read_only`, a file that cannot be written is opened for reading.
    """
    opening: AbstractAsyncContextManager[JournalStore]
    if isinstance(location, Path):
        kind = import_module("hermes.memory.journal.sqlite_journal").SqliteJournal
        opening = kind.open(location, timeout_s=timeout_s, or_read_only=or_read_only)
    else:
        opening = _postgres_module("journal").PostgresJournal.open(location, timeout_s=timeout_s)
    return opening


def store_exists(location: StoreLocation) -> bool:
    """A database exists, or reports its own problem; a file is created with the first event."""
    return location.exists() if isinstance(location, Path) else True


def display_location(location: StoreLocation) -> str:
    """As it may be printed: without a password."""
    if isinstance(location, Path):
        return str(location)
    return without_password(location)


def _postgres_module(module: str) -> Any:
    try:
        return import_module(f"hermes.memory.postgres.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise SettingsError(
            "a PostgreSQL store needs its driver: pip install 'hermes-oncall[postgres]'"
        ) from error


_POSTGRES_SCHEMES = ("postgresql", "postgres")


def libpq_url(text: str) -> str:
    """The URL as libpq expects it; other tools write the driver's name into the scheme."""
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.partition("+")[0] not in _POSTGRES_SCHEMES:
        raise SettingsError(
            "store.url (MEMORY_DB_URL) is not a PostgreSQL URL; it looks like "
            "postgresql://user:password@host:5432/database"
        )
    return f"postgresql://{rest}"


def without_password(url: str) -> str:
    """Without password and options."""
    rest = url.partition("://")[2].partition("?")[0]
    login, at, location = rest.rpartition("@")
    return f"postgresql://{login.partition(':')[0]}{at}{location}"


def host_and_port(url: str) -> str:
    return urlsplit(without_password(url)).netloc.rpartition("@")[2] or "the local socket"
