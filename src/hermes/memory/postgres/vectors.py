"""Vectors in pgvector: an exact scan while they are few, an HNSW index when there are many.

Stored as half floats: a thousandth of the cosine for half of the memory.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import anyio.to_thread
import psycopg
from psycopg import sql

from hermes.core.errors import StoreError
from hermes.memory.postgres.connection import PgConnection, connect, translate_errors
from hermes.memory.postgres.schema import migrate_schema, vector_migration_files
from hermes.memory.postgres.search import (
    PostgresLineIndex,
    filter_condition,
)
from hermes.memory.search.line_index import LineFilter, ScoredSeq
from hermes.memory.search.line_search import IndexedSearch

Answer = TypeVar("Answer")
MIN_VECTORS_FOR_INDEX = 20_000
"""Vectors of one model above which an index is worth building."""
HNSW_LINKS_PER_NODE, HNSW_BUILD_CANDIDATES = 16, 64
"""The HNSW graph: edges per node, and candidates considered while building."""
_MIN_NEW_VECTORS_FOR_INDEX = 1000
"""Vectors stored by one object that make it a bulk job, worth an index at its end."""


class PostgresVectors:
    """Fulfils `search.line_index.VectorStore` and `embedding.embedder.VectorTarget`."""

    def __init__(self, search: IndexedSearch, url: str) -> None:
        self._search = search
        self._url = url
        self._usable: bool | None = None
        self._stored_vectors = 0

    async def usable(self) -> bool:
        """False on a server without pgvector, or when this user may not add it."""
        if self._usable is None:
            self._usable = await anyio.to_thread.run_sync(_enable_pgvector, self._url)
        return self._usable

    async def has_vectors(self) -> bool:
        """Return whether vectors were made here before."""
        return await self._ask(_has_vectors)

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[ScoredSeq]:
        if not await self.usable():
            return ()
        question = _nearest if session is None else partial(_nearest_in_session, session=session)
        return await self._ask(partial(question, model=model, vector=vector, limit=limit))

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        if not seqs or not await self.usable():
            return {}
        return await self._ask(partial(_similarities, vector=vector, model=model, seqs=list(seqs)))

    async def count_without_vector(self, model: str) -> int:
        if not await self.usable():
            return 0
        return await self._ask(partial(_count_without_vector, model=model))

    async def texts_without_vector(
        self, model: str, after: int, limit: int
    ) -> Sequence[tuple[int, str]]:
        """Numbers above `after`, ascending, and texts that have no vector of this model yet."""
        if not await self.usable():
            return ()
        found = await self._search.ask(
            partial(_texts_without_vector, model=model, after=after, limit=limit)
        )
        if not found and self._stored_vectors >= _MIN_NEW_VECTORS_FOR_INDEX:
            self._stored_vectors = 0
            await self.create_index(model)
        return found

    async def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none; storing one again replaces it."""
        if not await self.usable():
            raise StoreError(
                "the server has no pgvector, so it keeps no vectors; install the extension there"
            )
        await self._ask(partial(_store_vectors, model=model, vectors=vectors))
        self._stored_vectors += len(vectors)

    async def create_index(self, model: str, *, min_vectors: int = MIN_VECTORS_FOR_INDEX) -> bool:
        """Build the index of a model with many vectors; True when it has one now.

        Others continue to write meanwhile. An interrupted build is started again.
        """
        if not await self.usable():
            return False
        return await anyio.to_thread.run_sync(
            partial(create_vector_index, self._url, model, min_vectors)
        )

    async def _ask(self, question: Callable[[PgConnection], Answer]) -> Answer:
        return await self._search.ask(lambda index: question(index.connection))

    def close(self) -> None:
        """The connection belongs to the search."""


def create_vector_index(url: str, model: str, min_vectors: int = MIN_VECTORS_FOR_INDEX) -> bool:
    with translate_errors(url), connect(url) as connection:
        name = connection.execute("SELECT 'embedding_' || md5(%s)", (model,)).fetchone()
        assert name is not None
        state = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('hermes.' || %s)", name
        ).fetchone()
        if state == (True,):
            return True
        rows = connection.execute(
            "SELECT count(*), min(vector_dims(vector)) FROM hermes.embedding WHERE model = %s",
            (model,),
        ).fetchone()
        if rows is None or rows[0] < min_vectors:
            return False
        index = sql.Identifier(name[0])
        connection.execute(sql.SQL("DROP INDEX IF EXISTS hermes.{}").format(index))
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {} ON hermes.embedding USING hnsw "
                "((vector::halfvec({})) halfvec_cosine_ops) WITH (m = {}, ef_construction = {}) "
                "WHERE model = {}"
            ).format(
                index,
                *map(sql.Literal, (rows[1], HNSW_LINKS_PER_NODE, HNSW_BUILD_CANDIDATES, model)),
            )
        )
        connection.execute("ANALYZE hermes.embedding")
    return True


def _enable_pgvector(url: str) -> bool:
    with translate_errors(url), connect(url) as connection:
        available = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
        if connection.execute(available).fetchone() is None:
            return False
    try:
        migrate_schema(url, wanted=vector_migration_files())
    except StoreError as error:
        if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            return False
        raise
    return True


def _has_vectors(connection: PgConnection) -> bool:
    exists = "SELECT 1 FROM pg_tables WHERE schemaname = 'hermes' AND tablename = 'embedding'"
    if connection.execute(exists).fetchone() is None:
        return False
    return connection.execute("SELECT 1 FROM hermes.embedding LIMIT 1").fetchone() is not None


def _store_vectors(
    connection: PgConnection, model: str, vectors: Sequence[tuple[int, bytes]]
) -> None:
    rows = [(model, seq, _vector_literal(vector)) for seq, vector in vectors]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO hermes.embedding VALUES (%s, %s, %s::halfvec) "
            "ON CONFLICT (model, seq) DO UPDATE SET vector = excluded.vector",
            rows,
        )


_LINES_WITHOUT_VECTOR_SQL = (
    "FROM hermes.line l WHERE NOT gone AND seq > %(after)s AND NOT EXISTS "
    "(SELECT 1 FROM hermes.embedding e WHERE e.model = %(model)s AND e.seq = l.seq)"
)


def _count_without_vector(connection: PgConnection, model: str) -> int:
    query = f"SELECT count(*) {_LINES_WITHOUT_VECTOR_SQL}".encode()
    row = connection.execute(query, {"model": model, "after": 0}).fetchone()
    return int(row[0]) if row else 0


def _texts_without_vector(
    index: PostgresLineIndex, model: str, after: int, limit: int
) -> list[tuple[int, str]]:
    query = f"SELECT seq {_LINES_WITHOUT_VECTOR_SQL} ORDER BY seq LIMIT %(limit)s".encode()
    values = {"model": model, "after": after, "limit": limit}
    return index.read_texts([seq for (seq,) in index.connection.execute(query, values)])


def _nearest(
    connection: PgConnection, model: str, vector: bytes, limit: int
) -> Sequence[ScoredSeq]:
    """Through the index when there is one: the query must contain the model as a literal for
    that."""
    distance = sql.SQL("(vector::halfvec({0}) <=> {1}::halfvec({0}))").format(
        sql.Literal(len(vector) // 4), sql.Literal(_vector_literal(vector))
    )
    query = sql.SQL(
        "SELECT seq, 1 - distance FROM (SELECT seq, {0} AS distance FROM hermes.embedding "
        "WHERE model = {1} ORDER BY {0} LIMIT {2}) AS near "
        "WHERE NOT EXISTS (SELECT 1 FROM hermes.line l WHERE l.seq = near.seq AND l.gone) "
        "ORDER BY distance"
    ).format(distance, sql.Literal(model), sql.Literal(limit))
    with connection.transaction():
        effort = max(100, min(1000, 2 * limit))
        connection.execute(f"SET LOCAL hnsw.ef_search = {effort:d}".encode())
        return _scored_seqs(connection.execute(query).fetchall())


def _nearest_in_session(
    connection: PgConnection,
    model: str,
    vector: bytes,
    limit: int,
    session: str,
) -> Sequence[ScoredSeq]:
    """Exact: one session never has many."""
    where, values = filter_condition(LineFilter(session))
    query = (
        "WITH own AS MATERIALIZED (SELECT seq, vector FROM hermes.line JOIN hermes.embedding "
        f"USING (seq) WHERE model = %(model)s AND {where}) "
        "SELECT seq, 1 - (vector <=> %(vector)s::halfvec) FROM own ORDER BY 2 DESC LIMIT %(limit)s"
    )
    asked = {**values, "model": model, "vector": _vector_literal(vector), "limit": limit}
    return _scored_seqs(connection.execute(query.encode(), asked).fetchall())


def _similarities(
    connection: PgConnection, vector: bytes, model: str, seqs: list[int]
) -> Mapping[int, float]:
    cursor = connection.execute(
        "SELECT seq, 1 - (vector <=> %s::halfvec) FROM hermes.embedding "
        "WHERE model = %s AND seq = ANY(%s)",
        (_vector_literal(vector), model, seqs),
    )
    return dict(cursor.fetchall())


def _scored_seqs(rows: Sequence[tuple[int, float]]) -> Sequence[ScoredSeq]:
    return [ScoredSeq(seq, float(score)) for seq, score in rows]


def _vector_literal(vector: bytes) -> str:
    numbers = array("f")
    numbers.frombytes(vector)
    return "[" + ",".join(f"{number:.6g}" for number in numbers) + "]"
