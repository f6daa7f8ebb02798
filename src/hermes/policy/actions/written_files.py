"""Remembers which files a run and earlier sessions wrote, and what a run typed."""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from posixpath import dirname
from typing import TYPE_CHECKING

from hermes.policy.actions.action_effects import root_run
from hermes.policy.actions.implicit_files import implicit_file_pattern

if TYPE_CHECKING:
    import sqlite3

_MAX_ENDED_RUNS = 500
_MAX_PATHS_PER_RUN = 5_000
_MAX_TYPED_CHARS = 20_000
FORGOTTEN_DIGEST = "forgotten"


class _RunActivity:
    def __init__(self) -> None:
        self.written: OrderedDict[str, str] = OrderedDict()
        self.typed: dict[str, str] = {}
        self.overflowed = False


class RunMemory:
    def __init__(self) -> None:
        self.active_runs: Container[str] = frozenset()
        """Runs that are in use: what they did is never forgotten."""
        self._runs: OrderedDict[str, _RunActivity] = OrderedDict()

    def record_write(self, run: str, path: str, digest: str) -> None:
        """A path was changed; `digest` is that of its content, or of the action that changed it."""
        known = self._activity_of(run)
        known.written[path] = digest
        known.written.move_to_end(path)
        if len(known.written) > _MAX_PATHS_PER_RUN:
            known.written.popitem(last=False)
            known.overflowed = True

    def digest(self, run: str, path: str) -> str:
        """The digest of the last change by this run; empty if it never changed the file."""
        known = self._runs.get(root_run(run))
        if known is None:
            return ""
        for each in _path_and_parents(path):
            if found := known.written.get(each):
                return found
        return FORGOTTEN_DIGEST if known.overflowed else ""

    def matching(self, run: str, folder: str, patterns: Iterable[str]) -> list[str]:
        """Files in a folder that this run wrote, by patterns relative to the folder."""
        known = self._runs.get(root_run(run))
        if known is None or not known.written:
            return []
        wanted = [f"{folder.rstrip('/')}/{pattern}" for pattern in patterns]
        return [p for p in known.written if any(fnmatchcase(p, glob) for glob in wanted)]

    def record_typing(self, run: str, session: str, text: str) -> None:
        """Text was typed into a process; the part after its last line end is still pending."""
        open_line = (self.pending_input(run, session) + text).rpartition("\n")[2]
        self._activity_of(run).typed[session] = open_line[-_MAX_TYPED_CHARS:]

    def pending_input(self, run: str, session: str) -> str:
        known = self._runs.get(root_run(run))
        return "" if known is None else known.typed.get(session, "")

    def forget(self, run: str) -> None:
        self._runs.pop(root_run(run), None)

    def _activity_of(self, run: str) -> _RunActivity:
        family = root_run(run)
        known = self._runs.setdefault(family, _RunActivity())
        self._runs.move_to_end(family)
        if len(self._runs) > _MAX_ENDED_RUNS:
            ended = [each for each in self._runs if each != family and each not in self.active_runs]
            for each in ended[:-_MAX_ENDED_RUNS]:
                del self._runs[each]
        return known


def _path_and_parents(path: str) -> Iterator[str]:
    """The path and its parent folders, without the root."""
    yield path
    for parent in PurePosixPath(path).parents:
        if len(parent.parts) > 1:
            yield str(parent)


WRITTEN_FILES_NAME = "written.db"
MAX_WRITTEN_ENTRIES = 5_000
FOLDED_FRACTION_DIVISOR = 5
"""Above the limit, this fraction of the oldest entries is replaced by their folders."""
LOCK_TIMEOUT_S = 2.0
_CREATE_TABLE_SQL = "CREATE TABLE IF NOT EXISTS written (path TEXT PRIMARY KEY, number INTEGER)"
_ADD_PATH_SQL = "INSERT OR REPLACE INTO written SELECT ?, coalesce(max(number), 0) + 1 FROM written"


class WrittenFiles:
    """Records written files; `machine` identifies the host. Without a file, in memory."""

    def __init__(
        self, file: Path | None = None, exists: Callable[[str], bool] = lambda path: True
    ) -> None:
        """`exists` tells whether a file of this machine still exists."""
        self._file, self._exists = file, exists
        self._unsaved: set[str] = set()
        """Paths that could not be saved; known to this process only."""

    def add(self, machine: str, paths: Iterable[str]) -> None:
        """A path that ends in `/` stands for everything in the folder."""
        pattern = implicit_file_pattern()
        wanted = [machine + path for path in paths if path.endswith("/") or pattern.fullmatch(path)]
        if wanted and not self._change(_ADD_PATH_SQL, wanted):
            self._unsaved.update(wanted)

    def remove(self, machine: str, paths: Iterable[str]) -> None:
        """They were shown to a person, or a rule allows to run them."""
        known = [machine + path for path in paths]
        self._unsaved.difference_update(known)
        if known and self._file is not None and self._file.exists():
            self._change("DELETE FROM written WHERE path = ?", known)

    def below(self, machine: str, folder: str) -> Iterator[str]:
        """Recorded paths in a folder; one that ends in `/` stands for everything in it.

        Raises `OSError` when the record cannot be read.
        """
        start = f"{machine}{folder.rstrip('/')}/"
        for path in (*self._saved(start), *self._unsaved):
            near = path.startswith(start) or (path.endswith("/") and start.startswith(path))
            if near and (machine or self._exists(path)):
                yield path.removeprefix(machine)

    def _saved(self, start: str) -> list[str]:
        if self._file is None or not self._file.exists():
            return []
        query = "SELECT path FROM written WHERE path >= ? AND path < ? OR path LIKE '%/'"
        with _open_database(self._file) as database:
            return [path for (path,) in database.execute(query, (start, start[:-1] + "0"))]

    def _change(self, statement: str, paths: list[str]) -> bool:
        if self._file is None:
            return False
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=0o600)
            if self._file.stat().st_mode & 0o077:  # made by an earlier version
                self._file.chmod(0o600)
            with _open_database(self._file) as database:
                database.execute(_CREATE_TABLE_SQL)
                database.executemany(statement, [(path,) for path in paths])
                _fold_oldest(database)
            return True
        return False


def _fold_oldest(database: "sqlite3.Connection") -> None:
    (count,) = database.execute("SELECT count(*) FROM written").fetchone()
    if count <= MAX_WRITTEN_ENTRIES:
        return
    oldest = "SELECT path FROM written ORDER BY number LIMIT ?"
    paths = database.execute(oldest, (MAX_WRITTEN_ENTRIES // FOLDED_FRACTION_DIVISOR,)).fetchall()
    database.executemany("DELETE FROM written WHERE path = ?", paths)
    folders = {dirname(path.rstrip("/")).rstrip("/") + "/" for (path,) in paths}
    database.executemany(_ADD_PATH_SQL, [(folder,) for folder in folders])


@contextmanager
def _open_database(file: Path) -> Iterator["sqlite3.Connection"]:
    """Raises `OSError`."""
    import sqlite3  # noqa: PLC0415 - most processes need no record

    try:
        with closing(sqlite3.connect(file, timeout=LOCK_TIMEOUT_S)) as database, database:
            yield database
    except sqlite3.Error as error:
        raise OSError(f"the record {file} cannot be read ({error})") from error
