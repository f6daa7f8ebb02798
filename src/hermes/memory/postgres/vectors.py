"""Vectors beside the journal, in pgvector: an exact scan while they are few, HNSW when many.

Kept as half floats: a thousandth of the cosine for half of the memory.
"""

from array import array
from collections.abc import Mapping, Sequence
from functools import partial

import anyio.to_thread
import psycopg
from psycopg import sql

from hermes.core.errors import StoreError
from hermes.memory.postgres.connecting import connect
from hermes.memory.postgres.faults import explained
from hermes.memory.postgres.finding import within
from hermes.memory.postgres.hits import read_lines
from hermes.memory.postgres.indexing import Database
from hermes.memory.postgres.schema import prepare, vector_steps
from hermes.memory.postgres.search import PostgresSearch
from hermes.memory.postgres.wording import Wording
from hermes.memory.recall.store import Found

MANY = 20_000
"""Vectors of one model above which an index is worth its making."""
LINKS, EFFORT = 16, 64
"""Of the HNSW graph: edges a node, and candidates looked at while building."""
SEEN = 1000
"""Characters of a line that its vector stands for."""
_JOB = 1000
"""Vectors kept in one life that make it a job of filling, worth an index at its end."""


class PostgresVectors:
    """Fulfils `search.passages.Vectors` and `embedding.filling.Fillable`."""

    def __init__(self, search: PostgresSearch, url: str) -> None:
        self._search = search
        self._url = url
        self._usable: bool | None = None
        self._kept = 0

    async def usable(self) -> bool:
        """False on a server without pgvector, or when this user may not add it."""
        if self._usable is None:
            self._usable = await anyio.to_thread.run_sync(_prepare, self._url)
        return self._usable

    async def filled(self) -> bool:
        """Somebody has made vectors here before."""
        return await self._search.ask(_filled)

    async def nearest(
        self, vector: bytes, model: str, *, session: str | None, limit: int
    ) -> Sequence[Found]:
        if not await self.usable():
            return ()
        question = _nearest if session is None else partial(_nearest_in, session=session)
        return await self._search.ask(partial(question, model=model, vector=vector, limit=limit))

    async def similarities(
        self, vector: bytes, model: str, seqs: Sequence[int]
    ) -> Mapping[int, float]:
        if not seqs or not await self.usable():
            return {}
        return await self._search.ask(
            partial(_similarities, vector=vector, model=model, seqs=list(seqs))
        )

    async def count_without(self, model: str) -> int:
        if not await self.usable():
            return 0
        return await self._search.ask(partial(_count_without, model=model))

    async def without(self, model: str, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Numbers above `after`, rising, and texts that have no vector of this model yet."""
        if not await self.usable():
            return ()
        found = await self._search.ask(partial(_without, model=model, after=after, limit=limit))
        if not found and self._kept >= _JOB:
            self._kept = 0
            await self.index(model)
        return found

    async def keep(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none; keeping one again replaces it."""
        if not await self.usable():
            raise StoreError(
                "the server has no pgvector, so it keeps no vectors; install the extension there"
            )
        await self._search.ask(partial(_keep, model=model, vectors=vectors))
        self._kept += len(vectors)

    async def index(self, model: str, *, many: int = MANY) -> bool:
        """Make the index of a model that has many vectors; True when it has one now.

        Others go on writing meanwhile. A making that was cut off is begun anew.
        """
        if not await self.usable():
            return False
        return await anyio.to_thread.run_sync(partial(make_index, self._url, model, many))

    def close(self) -> None:
        """The connection belongs to the search."""


def make_index(url: str, model: str, many: int = MANY) -> bool:
    with explained(url), connect(url) as connection:
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
        if rows is None or rows[0] < many:
            return False
        index = sql.Identifier(name[0])
        connection.execute(sql.SQL("DROP INDEX IF EXISTS hermes.{}").format(index))
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {} ON hermes.embedding USING hnsw "
                "((vector::halfvec({})) halfvec_cosine_ops) WITH (m = {}, ef_construction = {}) "
                "WHERE model = {}"
            ).format(index, *map(sql.Literal, (rows[1], LINKS, EFFORT, model)))
        )
        connection.execute("ANALYZE hermes.embedding")
    return True


def _prepare(url: str) -> bool:
    with explained(url), connect(url) as connection:
        there = "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"
        if connection.execute(there).fetchone() is None:
            return False
    try:
        prepare(url, wanted=vector_steps())
    except StoreError as error:
        if isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege):
            return False
        raise
    return True


def _filled(connection: Database, _: Wording) -> bool:
    there = "SELECT 1 FROM pg_tables WHERE schemaname = 'hermes' AND tablename = 'embedding'"
    if connection.execute(there).fetchone() is None:
        return False
    return connection.execute("SELECT 1 FROM hermes.embedding LIMIT 1").fetchone() is not None


def _keep(
    connection: Database, _: Wording, model: str, vectors: Sequence[tuple[int, bytes]]
) -> None:
    rows = [(model, seq, _literal(vector)) for seq, vector in vectors]
    with connection.transaction(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO hermes.embedding VALUES (%s, %s, %s::halfvec) "
            "ON CONFLICT (model, seq) DO UPDATE SET vector = excluded.vector",
            rows,
        )


_LACKING = (
    "FROM hermes.line l WHERE NOT gone AND seq > %(after)s AND NOT EXISTS "
    "(SELECT 1 FROM hermes.embedding e WHERE e.model = %(model)s AND e.seq = l.seq)"
)


def _count_without(connection: Database, _: Wording, model: str) -> int:
    query = f"SELECT count(*) {_LACKING}".encode()
    row = connection.execute(query, {"model": model, "after": 0}).fetchone()
    return int(row[0]) if row else 0


def _without(
    connection: Database, _: Wording, model: str, after: int, limit: int
) -> list[tuple[int, str]]:
    query = f"SELECT seq {_LACKING} ORDER BY seq LIMIT %(limit)s".encode()
    values = {"model": model, "after": after, "limit": limit}
    seqs = [seq for (seq,) in connection.execute(query, values)]
    lines = read_lines(connection, seqs)
    return [(seq, lines[seq].text[:SEEN] if seq in lines else "") for seq in seqs]


def _nearest(
    connection: Database, _: Wording, model: str, vector: bytes, limit: int
) -> Sequence[Found]:
    """Through the index when there is one: the model must be spelled out for that."""
    distance = sql.SQL("(vector::halfvec({0}) <=> {1}::halfvec({0}))").format(
        sql.Literal(len(vector) // 4), sql.Literal(_literal(vector))
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
        return _found(connection.execute(query).fetchall())


def _nearest_in(
    connection: Database, _: Wording, model: str, vector: bytes, limit: int, session: str
) -> Sequence[Found]:
    """Exact: of one session there are never many."""
    where, values = within(session)
    query = (
        "WITH own AS MATERIALIZED (SELECT seq, vector FROM hermes.line JOIN hermes.embedding "
        f"USING (seq) WHERE model = %(model)s AND {where}) "
        "SELECT seq, 1 - (vector <=> %(vector)s::halfvec) FROM own ORDER BY 2 DESC LIMIT %(limit)s"
    )
    asked = {**values, "model": model, "vector": _literal(vector), "limit": limit}
    return _found(connection.execute(query.encode(), asked).fetchall())


def _similarities(
    connection: Database, _: Wording, vector: bytes, model: str, seqs: list[int]
) -> Mapping[int, float]:
    cursor = connection.execute(
        "SELECT seq, 1 - (vector <=> %s::halfvec) FROM hermes.embedding "
        "WHERE model = %s AND seq = ANY(%s)",
        (_literal(vector), model, seqs),
    )
    return dict(cursor.fetchall())


def _found(rows: Sequence[tuple[int, float]]) -> Sequence[Found]:
    return [Found(seq, float(score)) for seq, score in rows]


def _literal(vector: bytes) -> str:
    numbers = array("f")
    numbers.frombytes(vector)
    return "[" + ",".join(f"{number:.6g}" for number in numbers) + "]"
