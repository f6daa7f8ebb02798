"""Search and recall over the journal of a home, with an index that is kept up to date."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec.structs import replace

from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.runs import RunStarted
from hermes.core.knowledge import RecalledLine, SearchResults, SessionQuery
from hermes.core.people import is_unnamed
from hermes.core.protocols import Journal
from hermes.core.run_ids import current_run
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.memory.embedding.sqlite_vectors import LineVectors
    from hermes.memory.postgres.vectors import PostgresVectors
    from hermes.memory.search.line_index import Embedder
    from hermes.memory.search.line_search import IndexedSearch

ProgressCallback = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""
INDEX_PAUSE_S = 3.0
"""Seconds before new events are indexed: many at once, and not in a session that ends earlier."""
HIDDEN_FACTOR = 5
"""How many more lines are looked for where some of them may not be shown."""
MAX_VECTORS_IN_PASSING = 256
"""Lines that get vectors before a recall; more than these need `hermes sessions embed`."""


class JournalSearch:
    """Fulfils `SearchesSessions` and `RecallsLines`. Opened at the first use."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._search: IndexedSearch | None = None
        self._vectors: LineVectors | PostgresVectors | None = None
        self._vectors_checked = False
        self._embedder: Embedder | None = None
        self._notices: list[str] = []

    @property
    def has_index(self) -> bool:
        """Whether an index exists: without one there is nothing to recall, and nothing is
        opened."""
        store = self._loaded.store
        return not isinstance(store, Path) or index_path(store).exists()

    @property
    def notices(self) -> tuple[str, ...]:
        return () if self._search is None else (*self._search.notices, *self._notices)

    async def search(self, wanted: SessionQuery) -> SearchResults:
        return await self._open().search(wanted)

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[RecalledLine]:
        from hermes.memory.search.recall import recall

        if not self._vectors_checked:
            if await self._has_vectors():
                await self._fill_vectors()
            self._vectors_checked = True
        return await recall(
            self._open(),
            query,
            session=session,
            limit=limit,
            now=datetime.now(UTC),
            embedder=self._embedder,
            vectors=self._vectors,
            settings=self._loaded.settings.memory.scoring,
        )

    async def embed(
        self, progress: ProgressCallback | None = None, *, max_lines: int | None = None
    ) -> int:
        """Create missing vectors, at most `max_lines`; returns how many are left.

        Raises `SettingsError` when the extra is not installed.
        """
        from hermes.memory.embedding.embedder import INSTALL_HINT, embed_missing

        await self._open_vectors()
        if self._vectors is None or self._embedder is None:
            raise SettingsError(f"there is nothing here that makes vectors: {INSTALL_HINT}")
        async for done, total in embed_missing(self._vectors, self._embedder):
            if progress is not None:
                progress(done, total)
            if max_lines is not None and done >= max_lines:
                return total - done
        return 0

    async def catch_up(
        self, *, seconds: float | None = None, progress: ProgressCallback | None = None
    ) -> None:
        await self._open().catch_up(seconds=seconds, progress=progress)

    async def keep_up(self) -> None:
        """Index for a short time only."""
        is_file = isinstance(self._loaded.store, Path)
        await self._open().catch_up(seconds=0.2, close_after=is_file)

    def rebuild(self, progress: ProgressCallback | None = None) -> None:
        self._open().rebuild(progress)

    def close(self) -> None:
        if self._vectors is not None:
            self._vectors.close()
        if self._search is not None:
            self._search.close()
        self._search = self._vectors = None
        self._vectors_checked = False

    def _open(self) -> "IndexedSearch":
        if self._search is None:
            store = self._loaded.store
            if isinstance(store, Path):
                from hermes.memory.search.session_search import SessionSearch

                self._search = SessionSearch(store, index_path(store))
            else:
                from hermes.memory.postgres.search import PostgresSearch

                self._search = PostgresSearch(store, timeout_s=self._loaded.settings.store.patience)
        return self._search

    async def _has_vectors(self) -> bool:
        """Return whether vectors are stored; without any, the embedder is not loaded."""
        store = self._loaded.store
        if isinstance(store, Path):
            return vectors_path(store).exists()
        from hermes.memory.postgres.vectors import PostgresVectors

        return await PostgresVectors(self._open(), store).has_vectors()

    async def _fill_vectors(self) -> None:
        await self._open_vectors()
        if self._vectors is not None and (
            left := await self.embed(max_lines=MAX_VECTORS_IN_PASSING)
        ):
            self._notices.append(
                f"{left:,} lines have no vector yet; `hermes sessions embed` makes them"
            )

    async def _open_vectors(self) -> None:
        if self._vectors is not None:
            return
        from hermes.memory.embedding.embedder import open_embedder

        self._embedder = await anyio.to_thread.run_sync(open_embedder)
        if self._embedder is None:
            return
        if not isinstance(self._loaded.store, Path):
            from hermes.memory.postgres.vectors import PostgresVectors

            self._vectors = PostgresVectors(self._open(), self._loaded.store)
            return
        from hermes.memory.embedding.sqlite_vectors import LineVectors

        self._vectors = LineVectors(self._open(), vectors_path(self._loaded.store))


class AudienceSearch:
    """Fulfils `SearchesSessions` and `RecallsLines` for a run: without what private chats said.

    What a direct chat or a private thread said is found only there, and in private chats of the
    same person. The run that asks is the one that the current code works for.
    """

    def __init__(self, search: JournalSearch, journal: Journal) -> None:
        self._search = search
        self._journal = journal
        self._private: dict[str, RunStarted] = {}
        self._last = 0

    async def search(self, wanted: SessionQuery) -> SearchResults:
        hidden = await self._hidden_runs()
        if not hidden:
            return await self._search.search(wanted)
        found = await self._search.search(replace(wanted, limit=wanted.limit * HIDDEN_FACTOR))
        hits = [hit for hit in found.hits if root_run(hit.line.run) not in hidden]
        return replace(found, hits=tuple(hits[: wanted.limit]))

    async def recall(
        self, query: str, *, session: str | None = None, limit: int = 10
    ) -> Sequence[RecalledLine]:
        hidden = await self._hidden_runs()
        wanted = limit * HIDDEN_FACTOR if hidden else limit
        found = await self._search.recall(query, session=session, limit=wanted)
        return [each for each in found if root_run(each.line.run) not in hidden][:limit]

    async def _hidden_runs(self) -> frozenset[str]:
        async for recorded in self._journal.read(after=self._last, kinds=("run.started",)):
            self._last = recorded.seq
            if isinstance(recorded.event, RunStarted) and recorded.event.audience:
                self._private[recorded.event.run] = recorded.event
        asking = self._private.get(root_run(current_run()))
        return frozenset(
            run
            for run, begun in self._private.items()
            if asking is None
            or not (
                begun.audience == asking.audience
                or (begun.by == asking.by and not is_unnamed(begun.by) and begun.by)
            )
        )


def root_run(run: str) -> str:
    """The run that began a subagent."""
    return run.partition("/")[0]


def index_path(journal: Path) -> Path:
    """Beside its journal: two journals in one folder have two indexes."""
    own = "search.db" if journal.name == "journal.db" else f"{journal.name}.search.db"
    return journal.with_name(own)


def vectors_path(journal: Path) -> Path:
    index = index_path(journal)
    return index.with_name(index.name.removesuffix("search.db") + "vectors.db")


def discard_index(loaded: LoadedSettings) -> None:
    """After texts have left the journal: delete the index that contains their words, and the
    vectors.

    The next search builds a new one from what is left.
    """
    if isinstance(loaded.store, Path):
        from hermes.memory.search.session_search import delete_index

        delete_index(index_path(loaded.store))
        delete_index(vectors_path(loaded.store))


@asynccontextmanager
async def index_in_background(
    search: JournalSearch, journal: Journal, *, pause: float = INDEX_PAUSE_S
) -> AsyncIterator[None]:
    """Index new events soon after they are written, while the block lasts."""
    failed: BaseException | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_follow_journal, search, journal, pause)
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - handed on below, not wrapped in a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _follow_journal(search: JournalSearch, journal: Journal, pause: float) -> None:
    last_seq = 0
    while True:
        await anyio.sleep(pause)
        await journal.changed(last_seq)
        last_seq = await journal.last()
        try:
            with anyio.CancelScope(shield=True):  # a thread cannot be stopped; this takes moments
                await search.keep_up()
        except StoreError:
            return  # a search reports it; the work itself does not need the index
