"""Which store it is: a file, or a database by its URL. PostgreSQL is loaded only when named."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hermes.core.errors import SettingsError
from hermes.core.protocols import Journal
from hermes.memory.runs import RunSummary

if TYPE_CHECKING:
    from hermes.memory.exported import Clean
    from hermes.memory.upkeep import Compaction
    from hermes.memory.verification import Report, See

Place = Path | str
"""A file, or the URL of a database."""


class Store(Journal, Protocol):
    """What the house and the commands use of a journal, wherever it is kept."""

    async def runs(
        self, *, limit: int = 50, parent: str | None = "", deleted: bool = False
    ) -> Sequence[RunSummary]:
        """Runs, the last started first: without a parent, of one parent, or (None) all."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class ReadOnlyStore(Protocol):
    """A store that can only be asked, because its home cannot be written."""

    read_only: bool


@runtime_checkable
class ClaimsRuns(Protocol):
    """A store that several machines share, and that knows who works on a run."""

    async def claim(self, run: str) -> str:
        """Empty when the run is ours now, else who has it."""
        ...


def open_journal(
    place: Place, *, patience: float = 10.0, or_read_only: bool = False
) -> AbstractAsyncContextManager[Store]:
    """Make, migrate or just open it. Raises `StoreError` with what to do next.

    With `or_read_only`, a file that cannot be written can still be asked.
    """
    opening: AbstractAsyncContextManager[Store]
    if isinstance(place, Path):
        kind = import_module("hermes.memory.journal").SqliteJournal
        opening = kind.open(place, patience=patience, or_read_only=or_read_only)
    else:
        opening = _postgres("journal").PostgresJournal.open(place, patience=patience)
    return opening


def exists(place: Place) -> bool:
    """A database is there, or says itself what is wrong; a file appears with the first words."""
    return place.exists() if isinstance(place, Path) else True


def shown(place: Place) -> str:
    """As it may be printed: without a password."""
    if isinstance(place, Path):
        return str(place)
    return str(import_module("hermes.memory.postgres.address").shown(place))


def verify(place: Place, *, see: "See | None" = None) -> "Report":
    report: Report = _of(place, "verification").verify(place, see=see)
    return report


def export_proven(
    place: Place, kinds: Collection[str] | None = None, clean: "Clean | None" = None
) -> Iterator[bytes]:
    """Lines of JSON that prove themselves; see `exported`."""
    lines: Iterator[bytes] = _of(place, "exported").export_lines(place, kinds, clean)
    return lines


def export(place: Place, *, run: str | None = None) -> Iterator[bytes]:
    """Lines of JSON; see `upkeep.export`."""
    lines: Iterator[bytes] = _of(place, "upkeep").export(place, run=run)
    return lines


def compact(place: Place) -> "Compaction":
    done: Compaction = _of(place, "upkeep").compact(place)
    return done


def _of(place: Place, module: str) -> Any:
    if isinstance(place, Path):
        return import_module(f"hermes.memory.{module}")
    return _postgres(module)


def _postgres(module: str) -> Any:
    try:
        return import_module(f"hermes.memory.postgres.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise SettingsError(
            "a PostgreSQL store needs its driver: pip install 'hermes[postgres]'"
        ) from error
