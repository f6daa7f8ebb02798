"""Vectors in pgvector: a real distance, few and many, one model apart from the other."""

import math
from array import array
from collections.abc import AsyncIterator

import psycopg
import pytest
from real_postgres import Server

from hermes.core.errors import StoreError
from hermes.core.events.runs import MessageAdded, RunDeleted
from hermes.core.messages import Message
from hermes.memory.embedding.embedder import embed_missing
from hermes.memory.postgres.search import PostgresSearch
from hermes.memory.postgres.vectors import PostgresVectors
from hermes.memory.store import JournalStore, open_journal

pytestmark = pytest.mark.anyio


def unit(*numbers: float) -> bytes:
    length = math.sqrt(sum(number * number for number in numbers))
    return array("f", [number / length for number in numbers]).tobytes()


def said(text: str, run: str) -> MessageAdded:
    return MessageAdded(run=run, message=Message(role="user", text=text))


@pytest.fixture
async def journal(database: str) -> AsyncIterator[JournalStore]:
    async with open_journal(database) as opened:
        yield opened


@pytest.fixture
async def vectors(database: str, journal: JournalStore) -> AsyncIterator[PostgresVectors]:
    search = PostgresSearch(database)
    yield PostgresVectors(search, database)
    search.close()


class LengthEmbedder:
    """Texts of like length mean the same."""

    model = "length"
    dimensions = 2

    def embed(self, texts: list[str]) -> list[bytes]:
        return [unit(1, len(text)) for text in texts]


async def numbers(vectors: PostgresVectors, wanted: bytes, model: str = "m") -> list[int]:
    return [one.seq for one in await vectors.nearest(wanted, model, session=None, limit=20)]


async def test_the_server_really_computes_a_cosine(vectors: PostgresVectors) -> None:
    assert not await vectors.has_vectors()
    await vectors.store_vectors("m", [(1, unit(1, 0, 0)), (2, unit(1, 1, 0)), (3, unit(0, 0, 1))])
    assert await vectors.has_vectors()
    near = await vectors.nearest(unit(1, 0, 0), "m", session=None, limit=2)
    assert [one.seq for one in near] == [1, 2]
    assert [round(one.score, 2) for one in near] == [1.0, 0.71]
    same = await vectors.similarities(unit(0, 0, 1), "m", [1, 3, 99])
    assert {seq: round(score, 2) for seq, score in same.items()} == {1: 0.0, 3: 1.0}


async def test_models_of_different_sizes_live_side_by_side(vectors: PostgresVectors) -> None:
    await vectors.store_vectors("small", [(1, unit(1, 0))])
    await vectors.store_vectors("large", [(1, unit(0, 0, 1)), (2, unit(1, 0, 0))])
    assert await numbers(vectors, unit(1, 0), "small") == [1]
    assert await numbers(vectors, unit(1, 0), "none") == []
    await vectors.store_vectors("small", [(1, unit(0, 1))])
    (changed,) = await vectors.nearest(unit(0, 1), "small", session=None, limit=9)
    assert round(changed.score, 2) == 1.0


async def test_vectors_are_made_for_lines_that_have_none_and_follow_them(
    journal: JournalStore, vectors: PostgresVectors
) -> None:
    await journal.append(said("a", "a"), said("bb" * 9, "a/1"), said("a", "b"))
    embedder = LengthEmbedder()
    assert [step async for step in embed_missing(vectors, embedder, batch=2)][-1] == (3, 3)  # type: ignore[arg-type]
    assert [step async for step in embed_missing(vectors, embedder)] == [(0, 0)]  # type: ignore[arg-type]
    near = await vectors.nearest(unit(1, 1), "length", session="a", limit=9)
    assert [one.seq for one in near] == [1, 2]
    await journal.append(RunDeleted(run="b"))
    assert sorted(await numbers(vectors, unit(1, 1), "length")) == [1, 2]


async def test_many_vectors_get_an_index_that_finds_the_nearest(
    vectors: PostgresVectors, database: str
) -> None:
    assert not await vectors.create_index("m", min_vectors=800)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO hermes.embedding SELECT 'm', g, ('[' || sin(g) || ',' || cos(g * 1.7) "
            "|| ',' || sin(g * 0.3) || ',' || cos(g * 0.11) || ']')::halfvec "
            "FROM generate_series(1, 3000) AS g"
        )
        assert await vectors.create_index("m", min_vectors=800)
        assert await vectors.create_index("m", min_vectors=800)
        wanted = unit(0.3, -0.2, 0.9, 0.4)
        near = await numbers(vectors, wanted)
        exact = connection.execute(
            "SELECT seq FROM (SELECT seq, vector FROM hermes.embedding OFFSET 0) AS every "
            "ORDER BY vector <=> %s::halfvec LIMIT 20",
            (str(list(array("f", wanted))),),
        ).fetchall()
        plan = connection.execute(
            "EXPLAIN SELECT seq FROM hermes.embedding WHERE model = 'm' "
            "ORDER BY vector::halfvec(4) <=> '[1,0,0,0]'::halfvec(4) LIMIT 20"
        ).fetchall()
    assert len(set(near) & {seq for (seq,) in exact}) >= 18
    assert "embedding_" in str(plan[1])


async def test_without_the_right_to_add_pgvector_everything_else_works(postgres: Server) -> None:
    with postgres.database() as url:
        name = url.rpartition("/")[2]
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'x'")
            connection.execute(f"GRANT CREATE ON DATABASE {name} TO plain".encode())
        own = url.replace("postgres:postgres@", "plain:x@")
        async with open_journal(own) as journal:
            await journal.append(said("still works", "r"))
            search = PostgresSearch(own)
            vectors = PostgresVectors(search, own)
            assert not await vectors.has_vectors()
            if not await vectors.usable():  # some servers trust pgvector to everybody
                assert await vectors.nearest(unit(1, 0), "m", session=None, limit=1) == ()
                with pytest.raises(StoreError, match="no pgvector"):
                    await vectors.store_vectors("m", [(1, unit(1, 0))])
            assert await journal.last() == 1
            search.close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP OWNED BY plain CASCADE; DROP ROLE plain")
