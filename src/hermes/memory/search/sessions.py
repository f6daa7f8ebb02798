"""The search of one home: its index and its journal side by side, opened when first asked."""

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
from hermes.core.recall import Hits, Search
from hermes.memory.connection import check_log, connect
from hermes.memory.faults import explained
from hermes.memory.packing import plain
from hermes.memory.search.catching_up import Progress, catch_up
from hermes.memory.search.index import (
    Index,
    UnusableIndex,
    discard,
    identity,
    in_memory,
    open_index,
    read_only,
)
from hermes.memory.search.searching import search

Answer = TypeVar("Answer")
Question = Callable[[apsw.Connection, apsw.Connection], Answer]
"""Asked with the index and the journal."""
QUICKLY = 2.0
"""Seconds that a question may wait for what is not indexed yet."""
_AGAIN = 60.0
"""Seconds after which a file that could not be written is tried again."""
_BROKEN = (apsw.CorruptError, apsw.NotADBError, UnusableIndex)
_NO_ROOM = (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.CantOpenError)


class SessionSearch:
    """Fulfils `core.recall.Searches`. What is in the journal when it is asked can be found."""

    def __init__(self, journal: Path, index: Path) -> None:
        self.path = index
        self._journal_path = journal
        self._lock = Lock()
        self._index: Index | None = None
        self._journal: apsw.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._notices: list[str] = []
        self._again: float | None = None

    async def search(self, wanted: Search) -> Hits:
        found = await self.ask(partial(search, wanted=wanted))
        return replace(found, notices=self.notices)

    async def ask(self, question: Question[Answer], *, seconds: float | None = QUICKLY) -> Answer:
        """Bring the index up to date, then answer from it."""
        return await anyio.to_thread.run_sync(partial(self.answer, question, seconds=seconds))

    async def catch_up(
        self,
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
        let_go: bool = False,
    ) -> None:
        """`let_go` closes the files after it: who only indexes now and then holds no memory."""

        def work() -> None:
            self.answer(_nothing, seconds=seconds, progress=progress)
            if let_go:
                self.close()

        await anyio.to_thread.run_sync(work)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the person should know about the index, each said once."""
        return tuple(dict.fromkeys(self._notices))

    def answer(
        self,
        question: Question[Answer],
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """The same without an event loop."""
        with self._lock, explained(self.path):
            for _ in range(3):
                try:
                    index, journal = self._opened()
                    missing = catch_up(index, journal, seconds=seconds, progress=progress)
                    self._behind(missing)
                    return question(index, journal)
                except _BROKEN as error:
                    self._throw_away(str(error))
                except _NO_ROOM as error:
                    self._go_on_in_memory(error)
            raise StoreError(f"the search index {self.path} cannot be made; is the disk in order?")

    def rebuild(self, progress: Progress | None = None) -> None:
        """Throw the index away and make it anew."""
        with self._lock:
            self._close_index()
            discard(self.path)
        self.answer(_nothing, progress=progress)

    def close(self) -> None:
        with self._lock:
            self._close()

    def _opened(self) -> tuple[apsw.Connection, apsw.Connection]:
        if self._index is not None and self._identity not in (None, identity(self.path)):
            self._close_index()  # another process has made it anew
        if self._again is not None and time.monotonic() > self._again:
            self._close()
            self._notices.clear()
        if self._journal is None:
            self._journal = self._open_journal()
        if self._index is None:
            self._use(open_index(self.path))
            assert self._index is not None
        return self._index.connection, self._journal

    def _open_journal(self) -> apsw.Connection:
        path = self._journal_path
        check_log(path)
        if not path.exists():
            raise StoreError(f"there is no journal at {path} yet; nothing can be found")
        try:
            connection = connect(path)
            connection.execute("PRAGMA query_only=1; SELECT max(seq) FROM event").fetchall()
        except _NO_ROOM:
            self._notices.append(
                f"{path.parent} cannot be written: what another process wrote last may be missing"
            )
            self._again = time.monotonic() + _AGAIN
            connection = read_only(path)
            connection.create_scalar_function("plain", plain, 1, deterministic=True)
        return connection

    def _behind(self, missing: int) -> None:
        if missing:
            self._notices.append(
                f"{missing:,} newer events are not indexed yet; `hermes sessions reindex` "
                "shows how far it is"
            )

    def _throw_away(self, why: str) -> None:
        self._close_index()
        discard(self.path)
        self._notices.append(f"the search index was made anew: {why}")

    def _go_on_in_memory(self, error: apsw.Error) -> None:
        self._close_index()
        self._use(in_memory(self.path, str(error)))

    def _use(self, index: Index) -> None:
        self._index = index
        self._notices += index.notices
        self._identity = None if index.in_memory else identity(self.path)
        if index.in_memory:
            self._again = time.monotonic() + _AGAIN

    def _close(self) -> None:
        self._close_index()
        self._again = None
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.connection.close()
            self._index = None


def _nothing(index: apsw.Connection, journal: apsw.Connection) -> None:
    """For those who only want the index to be up to date."""
