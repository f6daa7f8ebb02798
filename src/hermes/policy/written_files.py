"""Files that programs load unasked and that the agent wrote, in whatever session.

`python3 -m json.tool` loads a `json.py` of the folder it runs in, no matter who wrote it and when.
So the record outlives the session: a small database in the home of Hermes, read only for programs
that load files in this way. An entry goes when a command that loads the file was let through:
from then on it was shown.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path
from posixpath import dirname
from re import Pattern, compile

from hermes.policy.implicit_files import IMPLICIT_FILES

FILE_NAME = "written.db"
MAX_ENTRIES = 5_000
SHARE_FOLDED = 5
"""Beyond the limit the oldest entries, one in so many, are kept as their folders only."""
LOCK_TIMEOUT_S = 2.0
_TABLE = "CREATE TABLE IF NOT EXISTS written (path TEXT PRIMARY KEY, number INTEGER)"
_ADD = "INSERT OR REPLACE INTO written SELECT ?, coalesce(max(number), 0) + 1 FROM written"


class WrittenFiles:
    """Paths are those of one machine; `place` tells machines apart. Without a file, in memory."""

    def __init__(
        self, file: Path | None = None, exists: Callable[[str], bool] = lambda path: True
    ) -> None:
        """`exists` tells whether a file of this machine is still there."""
        self._file, self._exists = file, exists
        self._unsaved: set[str] = set()
        """What could not be recorded: at least this process knows it."""

    def add(self, place: str, paths: Iterable[str]) -> None:
        wanted = [place + path for path in paths if _loaded_unasked().fullmatch(path)]
        if wanted and not self._change(_ADD, wanted):
            self._unsaved.update(wanted)

    def remove(self, place: str, paths: Iterable[str]) -> None:
        """They were shown to a person, or a rule lets them run."""
        known = [place + path for path in paths]
        self._unsaved.difference_update(known)
        if known and self._file is not None and self._file.exists():
            self._change("DELETE FROM written WHERE path = ?", known)

    def below(self, place: str, folder: str) -> Iterator[str]:
        """Recorded paths in a folder; one that ends in `/` stands for all that is in it.

        Raises `OSError` when the record cannot be read.
        """
        start = f"{place}{folder.rstrip('/')}/"
        for path in (*self._saved(start), *self._unsaved):
            near = path.startswith(start) or (path.endswith("/") and start.startswith(path))
            if near and (place or self._exists(path)):
                yield path.removeprefix(place)

    def _saved(self, start: str) -> list[str]:
        if self._file is None or not self._file.exists():
            return []
        query = "SELECT path FROM written WHERE path >= ? AND path < ? OR path LIKE '%/'"
        try:
            with _opened(self._file) as database:
                return [path for (path,) in database.execute(query, (start, start[:-1] + "0"))]
        except sqlite3.Error as error:
            raise OSError(f"the record {self._file} cannot be read ({error})") from error

    def _change(self, statement: str, paths: list[str]) -> bool:
        if self._file is None:
            return False
        with suppress(sqlite3.Error, OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with _opened(self._file) as database:
                database.execute(_TABLE)
                database.executemany(statement, [(path,) for path in paths])
                _fold(database)
            return True
        return False


def _fold(database: sqlite3.Connection) -> None:
    (count,) = database.execute("SELECT count(*) FROM written").fetchone()
    if count <= MAX_ENTRIES:
        return
    oldest = "SELECT path FROM written ORDER BY number LIMIT ?"
    paths = database.execute(oldest, (MAX_ENTRIES // SHARE_FOLDED,)).fetchall()
    database.executemany("DELETE FROM written WHERE path = ?", paths)
    folders = {dirname(path.rstrip("/")).rstrip("/") + "/" for (path,) in paths}
    database.executemany(_ADD, [(folder,) for folder in folders])


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(file, timeout=LOCK_TIMEOUT_S)
    try:
        with database:
            yield database
    finally:
        database.close()


@cache
def _loaded_unasked() -> Pattern[str]:
    patterns = {pattern for group in IMPLICIT_FILES.values() for pattern in group}
    return compile("|".join(translate(f"*/{pattern}") for pattern in sorted(patterns)))


def matching(
    paths: Iterable[str], folder: str, patterns: Iterable[str], fits: Callable[[str], bool]
) -> list[str]:
    """Of recorded paths those that a program in this folder would load.

    `fits` takes a path relative to the folder.
    """
    wanted = _compiled(folder.rstrip("/"), tuple(patterns))
    start = len(folder.rstrip("/")) + 1
    return [
        path
        for path in paths
        if path.endswith("/") or (wanted.fullmatch(path) and fits(path[start:]))
    ]


@lru_cache(maxsize=256)
def _compiled(folder: str, patterns: tuple[str, ...]) -> Pattern[str]:
    return compile("|".join(translate(f"{folder}/{pattern}") for pattern in patterns))
