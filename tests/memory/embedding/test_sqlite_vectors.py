"""Vectors in a file: kept, found, replaced, and safe from a killed writer."""

import os
import random
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.core.errors import StoreError
from hermes.memory.embedding.sqlite_vectors import SIGNS_PER_BLOCK, SqliteVectors

DIMENSIONS = 64


def unit(seed: int) -> bytes:
    drawn = random.Random(seed)
    numbers = [drawn.gauss(0, 1) for _ in range(DIMENSIONS)]
    length = sum(x * x for x in numbers) ** 0.5
    return array("f", [x / length for x in numbers]).tobytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.db"


@pytest.fixture
def vectors(path: Path) -> Iterator[SqliteVectors]:
    opened = SqliteVectors(path)
    yield opened
    opened.close()


def test_each_vector_is_nearest_to_itself_across_blocks(vectors: SqliteVectors) -> None:
    many = [(seq, unit(seq)) for seq in range(SIGNS_PER_BLOCK + 200)]
    for start in range(0, len(many), 300):
        vectors.store_vectors("m", many[start : start + 300])
    assert vectors.count("m") == len(many)
    for seq in (0, 299, SIGNS_PER_BLOCK - 1, SIGNS_PER_BLOCK, SIGNS_PER_BLOCK + 199):
        (found, near), *_ = vectors.nearest(unit(seq), "m", 3)
        assert found == seq
        assert near == pytest.approx(1.0, abs=0.01)


def test_the_nearest_come_in_order_and_agree_with_the_exact_cosine(vectors: SqliteVectors) -> None:
    vectors.store_vectors("m", [(seq, unit(seq)) for seq in range(500)])
    asked = unit(9999)
    found = vectors.nearest(asked, "m", 10)
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    exact = {
        seq: sum(a * b for a, b in zip(array("f", asked), array("f", unit(seq)), strict=True))
        for seq in range(500)
    }
    for seq, score in found:
        assert score == pytest.approx(exact[seq], abs=0.01)
    best = sorted(exact, key=lambda seq: -exact[seq])[:10]
    assert len(set(best) & {seq for seq, _ in found}) >= 8


def test_models_do_not_mix(vectors: SqliteVectors) -> None:
    vectors.store_vectors("one", [(1, unit(1))])
    vectors.store_vectors("two", [(2, unit(2))])
    assert [seq for seq, _ in vectors.nearest(unit(2), "one", 5)] == [1]
    assert vectors.nearest(unit(2), "unknown", 5) == []
    assert vectors.similarities(unit(2), "two", [1, 2]).keys() == {2}


def test_a_scope_narrows_the_search(vectors: SqliteVectors) -> None:
    vectors.store_vectors("m", [(seq, unit(seq)) for seq in range(20)])
    assert {seq for seq, _ in vectors.nearest(unit(3), "m", 5, among=[7, 8, 999])} == {7, 8}
    assert vectors.nearest(unit(3), "m", 5, among=[]) == []


def test_keeping_again_replaces(vectors: SqliteVectors) -> None:
    vectors.store_vectors("m", [(1, unit(1)), (2, unit(2))])
    vectors.store_vectors("m", [(1, unit(77))])
    assert vectors.count("m") == 2
    assert vectors.nearest(unit(77), "m", 1)[0][0] == 1


def test_a_batch_that_fails_leaves_nothing_behind(vectors: SqliteVectors) -> None:
    with pytest.raises(ValueError, match="buffer size"):
        vectors.store_vectors("m", [(1, unit(1)), (2, b"abc")])
    assert vectors.count("m") == 0
    assert vectors.nearest(unit(1), "m", 5) == []


def test_a_file_that_is_no_database_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    path.write_bytes(b"not a database at all, but long enough to look at" * 100)
    with pytest.raises(StoreError):
        SqliteVectors(path)


WRITER = """
import sys
from pathlib import Path
from hermes.memory.embedding.sqlite_vectors import SqliteVectors
sys.path.insert(0, sys.argv[2])
from test_sqlite_vectors import unit
vectors = SqliteVectors(Path(sys.argv[1]))
for batch in range(int(sys.argv[3]), 10_000):
    vectors.store_vectors("m", [(batch * 10 + n, unit(batch * 10 + n)) for n in range(10)])
    print(batch, flush=True)
"""


@pytest.mark.torture
def test_a_killed_writer_loses_nothing_it_acknowledged(path: Path) -> None:
    told = -1
    for _ in range(5):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(Path(__file__).parent), str(told + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert writer.stdout is not None
        for _ in range(random.Random(told).randint(2, 8)):
            told = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read().split()
        writer.wait()
        writer.stdout.close()
        told = int(rest[-1]) if rest else told
        vectors = SqliteVectors(path)
        kept = vectors.similarities(unit(0), "m", range((told + 1) * 10))
        assert len(kept) == (told + 1) * 10
        for seq in (0, told * 10 + 9):
            assert vectors.nearest(unit(seq), "m", 1)[0][0] == seq
        vectors.close()
