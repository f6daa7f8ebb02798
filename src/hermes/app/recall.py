"""The past of a home: search and recall over its journal, kept up to date while it works."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from hermes.core.errors import SettingsError, StoreError
from hermes.core.protocols import Journal
from hermes.core.recall import Hits, Line, Remembered, Search
from hermes.settings.load import Loaded

if TYPE_CHECKING:
    from hermes.memory.embedding.embedder import Embedder
    from hermes.memory.postgres.vectors import PostgresVectors
    from hermes.memory.recall.store import RecallStore
    from hermes.memory.search.shelf import Shelf

Progress = Callable[[int, int], None]
"""Told how far it is, and how far it has to go."""
PAUSE = 3.0
"""Seconds that a working house lets pass before it indexes what was said: many events at once,
and never in a session that is over before."""
FEW = 256
"""Lines that get their vectors in passing, before a recall; more are a job of their own."""


class Past:
    """Fulfils `Searches` and `Recalls`. Opened when first asked."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._search: Any = None  # of SQLite or of PostgreSQL: the same shape, no common parent
        self._store: RecallStore | None = None
        self._shelf: Shelf | PostgresVectors | None = None
        self._embedder: Embedder | None = None
        self._notices: list[str] = []

    @property
    def known(self) -> bool:
        """Something was indexed before: else there is nothing to recall, and nothing is opened."""
        store = self._loaded.store
        return not isinstance(store, Path) or index_of(store).exists()

    @property
    def notices(self) -> tuple[str, ...]:
        return () if self._search is None else (*self._search.notices, *self._notices)

    async def search(self, wanted: Search) -> Hits:
        found: Hits = await self._open().search(wanted)
        return found

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[Remembered]:
        from hermes.memory.recall.recall import recall

        if self._store is None:
            self._store = await self._open_store()
        now = datetime.now(UTC)
        found = await recall(
            self._store,
            query,
            session=session,
            limit=limit,
            now=now,
            embedder=self._embedder,
            settings=self._loaded.settings.memory.scoring,
        )
        return [
            Remembered(
                line=Line(
                    seq=one.seq,
                    run=one.session,
                    kind="message",
                    at=one.at,
                    speaker=one.speaker,
                    source="" if one.source == str(one.seq) else one.source,
                    text=one.text,
                ),
                score=one.score,
                why=one.why,
            )
            for one in found
        ]

    async def embed(self, progress: Progress | None = None, *, most: int | None = None) -> int:
        """Make the vectors that are missing, or as many of them; returns how many are left.

        Raises `SettingsError` when the extra is not installed.
        """
        from hermes.memory.embedding.filling import fill
        from hermes.memory.embedding.opening import INSTALL

        await self._open_shelf()
        if self._shelf is None or self._embedder is None:
            raise SettingsError(f"there is nothing here that makes vectors: {INSTALL}")
        async for done, total in fill(self._shelf, self._embedder):
            if progress is not None:
                progress(done, total)
            if most is not None and done >= most:
                return total - done
        return 0

    async def catch_up(
        self, *, seconds: float | None = None, progress: Progress | None = None
    ) -> None:
        await self._open().catch_up(seconds=seconds, progress=progress)

    async def keep_up(self) -> None:
        """A little, in passing."""
        if isinstance(self._loaded.store, Path):
            await self._open().catch_up(seconds=0.2, let_go=True)
        else:
            await self._open().catch_up(seconds=0.2)

    def rebuild(self, progress: Progress | None = None) -> None:
        self._open().rebuild(progress)

    def close(self) -> None:
        if self._shelf is not None:
            self._shelf.close()
        if self._search is not None:
            self._search.close()
        self._search = self._store = self._shelf = None

    def _open(self) -> Any:
        if self._search is None:
            store = self._loaded.store
            if isinstance(store, Path):
                from hermes.memory.search.sessions import SessionSearch

                self._search = SessionSearch(store, index_of(store))
            else:
                from hermes.memory.postgres.search import PostgresSearch

                self._search = PostgresSearch(store, patience=self._loaded.settings.store.patience)
        return self._search

    async def _open_store(self) -> "RecallStore":
        from hermes.memory.search.passages import Passages

        if not isinstance(self._loaded.store, Path):
            from hermes.memory.postgres import answers as by_database
            from hermes.memory.postgres.vectors import PostgresVectors

            if await PostgresVectors(self._open(), self._loaded.store).filled():
                await self._fill_shelf()
            return Passages(self._open(), by_database, self._shelf)
        from hermes.memory.search import answers as by_index
        from hermes.memory.search.shelf import vectors_of

        # Whoever never made vectors does not wait for what makes them to be loaded.
        if vectors_of(index_of(self._loaded.store)).exists():
            await self._fill_shelf()
        return Passages(self._open(), by_index, self._shelf)

    async def _fill_shelf(self) -> None:
        await self._open_shelf()
        if self._shelf is not None and (left := await self.embed(most=FEW)):
            self._notices.append(
                f"{left:,} lines have no vector yet; `hermes sessions embed` makes them"
            )

    async def _open_shelf(self) -> None:
        if self._shelf is not None:
            return
        from hermes.memory.embedding.opening import open_embedder
        from hermes.memory.search.shelf import Shelf, vectors_of

        self._embedder = await anyio.to_thread.run_sync(open_embedder)
        if self._embedder is None:
            return
        if not isinstance(self._loaded.store, Path):
            from hermes.memory.postgres.vectors import PostgresVectors

            self._shelf = PostgresVectors(self._open(), self._loaded.store)
            return
        from hermes.memory.embedding.sqlite_vectors import SqliteVectors

        path = vectors_of(index_of(self._loaded.store))
        self._shelf = Shelf(self._open(), SqliteVectors(path), path)


def index_of(journal: Path) -> Path:
    """Beside its journal: two journals in one folder have two indexes."""
    own = "search.db" if journal.name == "journal.db" else f"{journal.name}.search.db"
    return journal.with_name(own)


def forget_words(loaded: Loaded) -> None:
    """After texts have left the journal: the index that knows their words goes, vectors too.

    The next search makes a new one from what is left.
    """
    if isinstance(loaded.store, Path):
        from hermes.memory.search.index import discard
        from hermes.memory.search.shelf import vectors_of

        index = index_of(loaded.store)
        discard(index)
        discard(vectors_of(index))


@asynccontextmanager
async def kept_up(past: Past, journal: Journal, *, pause: float = PAUSE) -> AsyncIterator[None]:
    """While it lasts, what is written to the journal is indexed soon after, off the hot path."""
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_follow, past, journal, pause)
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - handed on below, not wrapped in a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _follow(past: Past, journal: Journal, pause: float) -> None:
    seen = 0
    while True:
        await anyio.sleep(pause)
        await journal.changed(seen)
        seen = await journal.last()
        try:
            with anyio.CancelScope(shield=True):  # a thread cannot be stopped; it takes moments
                await past.keep_up()
        except StoreError:
            return  # whoever searches is told; the work itself does not need the index
