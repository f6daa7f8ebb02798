"""The search of one home: its index and its journal, opened at the first use."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio
import anyio.to_thread
import apsw
from msgspec.structs import replace

from hermes.core.errors import StoreError
from hermes.core.knowledge import SearchResults, SessionQuery
from hermes.memory.journal.rows import decompress_body
from hermes.memory.journal.sqlite_errors import translate_errors
from hermes.memory.journal.sqlite_file import check_wal, connect
from hermes.memory.search.index_file import (
    IndexConnection,
    IndexUnusable,
    connect_read_only,
    delete_index,
    file_identity,
    open_index,
    open_index_in_memory,
)
from hermes.memory.search.indexing import IndexProgress, catch_up
from hermes.memory.search.line_search import search_lines

Answer = TypeVar("Answer")
IndexQuery = Callable[[apsw.Connection, apsw.Connection], Answer]
"""Called with the index and the journal."""
INDEX_TIMEOUT_S = 2.0
"""Seconds that a query may wait for events that are not indexed yet."""
_RETRY_PAUSE_S = 60.0
"""Seconds after which a file that could not be written is tried again."""
_DAMAGE_ERRORS = (apsw.CorruptError, apsw.NotADBError, IndexUnusable)
_NOT_WRITABLE_ERRORS = (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.CantOpenError)


class SessionSearch:
    """Fulfils `core.knowledge.SearchesSessions`. Finds everything that is in the journal at that
    time."""

    def __init__(self, journal: Path, index: Path) -> None:
        self.path = index
        self._journal_path = journal
        self._lock = Lock()
        self._index: IndexConnection | None = None
        self._journal: apsw.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._notices: list[str] = []
        self._retry_at: float | None = None

    async def search(self, wanted: SessionQuery) -> SearchResults:
        found = await self.ask(partial(search_lines, wanted=wanted))
        return replace(found, notices=self.notices)

    async def ask(
        self, question: IndexQuery[Answer], *, seconds: float | None = INDEX_TIMEOUT_S
    ) -> Answer:
        """Bring the index up to date, then answer from it."""
        return await anyio.to_thread.run_sync(partial(self.ask_blocking, question, seconds=seconds))

    async def catch_up(
        self,
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
        close_after: bool = False,
    ) -> None:
        """`close_after` closes the files afterwards: occasional indexing then holds no memory."""

        def work() -> None:
            self.ask_blocking(_no_query, seconds=seconds, progress=progress)
            if close_after:
                self.close()

        await anyio.to_thread.run_sync(work)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the person should know about the index, each once."""
        return tuple(dict.fromkeys(self._notices))

    def ask_blocking(
        self,
        question: IndexQuery[Answer],
        *,
        seconds: float | None = None,
        progress: IndexProgress | None = None,
    ) -> Answer:
        """The same without an event loop."""
        with self._lock, translate_errors(self.path):
            for _ in range(3):
                try:
                    index, journal = self._connections()
                    missing = catch_up(index, journal, seconds=seconds, progress=progress)
                    self._report_unindexed(missing)
                    return question(index, journal)
                except _DAMAGE_ERRORS as error:
                    self._discard_index(str(error))
                except _NOT_WRITABLE_ERRORS as error:
                    self._use_memory_index(error)
            raise StoreError(f"the search index {self.path} cannot be made; is the disk in order?")

    def rebuild(self, progress: IndexProgress | None = None) -> None:
        """Delete the index and build it again."""
        with self._lock:
            self._close_index()
            delete_index(self.path)
        self.ask_blocking(_no_query, progress=progress)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _connections(self) -> tuple[apsw.Connection, apsw.Connection]:
        if self._index is not None and self._identity not in (None, file_identity(self.path)):
            self._close_index()  # another process has rebuilt it
        if self._retry_at is not None and time.monotonic() > self._retry_at:
            self._close()
            self._notices.clear()
        if self._journal is None:
            self._journal = self._open_journal()
        if self._index is None:
            self._use_index(open_index(self.path))
            assert self._index is not None
        return self._index.connection, self._journal

    def _open_journal(self) -> apsw.Connection:
        path = self._journal_path
        check_wal(path)
        if not path.exists():
            raise StoreError(f"there is no journal at {path} yet; nothing can be found")
        try:
            connection = connect(path)
            connection.execute("PRAGMA query_only=1; SELECT max(seq) FROM event").fetchall()
        except _NOT_WRITABLE_ERRORS:
            self._notices.append(
                f"{path.parent} cannot be written: what another process wrote last may be missing"
            )
            self._retry_at = time.monotonic() + _RETRY_PAUSE_S
            connection = connect_read_only(path)
            connection.create_scalar_function("plain", decompress_body, 1, deterministic=True)
        return connection

    def _report_unindexed(self, missing: int) -> None:
        if missing:
            self._notices.append(
                f"{missing:,} newer events are not indexed yet; `hermes sessions reindex` "
                "shows how far it is"
            )

    def _discard_index(self, why: str) -> None:
        self._close_index()
        delete_index(self.path)
        self._notices.append(f"the search index was rebuilt: {why}")

    def _use_memory_index(self, error: apsw.Error) -> None:
        self._close_index()
        self._use_index(open_index_in_memory(self.path, str(error)))

    def _use_index(self, index: IndexConnection) -> None:
        self._index = index
        self._notices += index.notices
        self._identity = None if index.in_memory else file_identity(self.path)
        if index.in_memory:
            self._retry_at = time.monotonic() + _RETRY_PAUSE_S

    def _close(self) -> None:
        self._close_index()
        self._retry_at = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.connection.close()
            self._index = None


def _no_query(index: apsw.Connection, journal: apsw.Connection) -> None:
    """For callers that only need the index to be up to date."""
