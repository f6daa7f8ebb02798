"""The vectors of a home's lines: finds the nearest, and stores missing ones.

They are in a file of their own, since they cost far more to make than the index.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import anyio.to_thread
import apsw

from hermes.memory.journal.sqlite_file import connect
from hermes.memory.search.line_search import read_lines
from hermes.memory.search.passages import ScoredSeq
from hermes.memory.search.session_search import SessionSearch

if TYPE_CHECKING:
    from hermes.memory.embedding.sqlite_vectors import SqliteVectors

MAX_EMBEDDED_CHARS = 1000
"""Characters of a line that its vector represents."""
_SCAN_ROWS = 2000


class LineVectors:
    """Fulfils `passages.LineVectorStore` and `embedding.embedder.VectorTarget`."""

    def __init__(self, search: SessionSearch, vectors: "SqliteVectors", path: Path) -> None:
        self._search = search
        self._vectors = vectors
        self._connection = connect(path)
        self._lock = Lock()

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        among = (
            None
            if session is None
            else await self._search.ask(partial(_session_seqs, session=session))
        )

        def find() -> list[ScoredSeq]:
            with self._lock:
                return [
                    ScoredSeq(*one) for one in self._vectors.nearest(vector, model, limit, among)
                ]

        return await anyio.to_thread.run_sync(find)

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        def compare() -> dict[int, float]:
            with self._lock:
                return self._vectors.similarities(vector, model, seqs)

        return await anyio.to_thread.run_sync(compare)

    async def count_without_vector(self, model: str) -> int:
        lines = await self._search.ask(_count_lines)
        with self._lock:
            return max(0, lines - self._vectors.count(model))

    async def texts_without_vector(
        self, model: str, after: int, limit: int
    ) -> Sequence[tuple[int, str]]:
        found: list[int] = []
        while len(found) < limit:
            seqs = await self._search.ask(partial(_seqs_after, seq=after))
            if not seqs:
                break
            with self._lock:
                known = _embedded_seqs(self._connection, model, seqs)
            found += [seq for seq in seqs if seq not in known]
            after = seqs[-1]
        return await self._search.ask(partial(_read_texts, seqs=found[:limit]))

    async def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        def write() -> None:
            with self._lock:
                self._vectors.store_vectors(model, vectors)

        await anyio.to_thread.run_sync(write)

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._vectors.close()


def vectors_path(index: Path) -> Path:
    return index.with_name(index.name.removesuffix("search.db") + "vectors.db")


def _embedded_seqs(vectors: apsw.Connection, model: str, seqs: Sequence[int]) -> set[int]:
    sql = (
        "SELECT seq FROM vector JOIN vector_model ON id = model "
        "WHERE name = ? AND seq BETWEEN ? AND ?"
    )
    return {seq for (seq,) in vectors.execute(sql, (model, seqs[0], seqs[-1]))}


def _session_seqs(index: apsw.Connection, journal: apsw.Connection, *, session: str) -> list[int]:
    sql = "SELECT seq FROM line JOIN session ON session.id = line.session WHERE run = ?"
    return [seq for (seq,) in index.execute(sql, (session,))]


def _count_lines(index: apsw.Connection, journal: apsw.Connection) -> int:
    return int(index.execute("SELECT lines FROM state").get)


def _seqs_after(index: apsw.Connection, journal: apsw.Connection, *, seq: int) -> list[int]:
    sql = f"SELECT seq FROM line WHERE seq > ? ORDER BY seq LIMIT {_SCAN_ROWS}"
    return [found for (found,) in index.execute(sql, (seq,))]


def _read_texts(
    index: apsw.Connection, journal: apsw.Connection, *, seqs: Sequence[int]
) -> list[tuple[int, str]]:
    lines = read_lines(journal, seqs)
    return [(seq, lines[seq].text[:MAX_EMBEDDED_CHARS] if seq in lines else "") for seq in seqs]
