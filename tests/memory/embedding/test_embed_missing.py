"""Re-embedding goes on where it stopped, and counts truthfully."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.memory.embedding.embedder import embed_missing
from hermes.memory.embedding.sqlite_vectors import SqliteVectors

pytestmark = pytest.mark.anyio


class Lengths:
    """Embeds a text by its length, and counts what it was asked."""

    model = "lengths"
    dimensions = 8

    def __init__(self) -> None:
        self.asked = 0

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        self.asked += len(texts)
        return [_unit(len(text)) for text in texts]


def _unit(length: int) -> bytes:
    one, zero = b"\x00\x00\x80\x3f", b"\x00" * 4
    return b"".join(one if n == length % 8 else zero for n in range(8))


class Texts:
    def __init__(self, path: Path, count: int) -> None:
        self.texts = {seq: "x" * seq for seq in range(1, count + 1)}
        self.vectors = SqliteVectors(path)

    def _known(self, model: str) -> set[int]:
        return set(self.vectors.similarities(_unit(0), model, list(self.texts)))

    async def count_without_vector(self, model: str) -> int:
        return len(self.texts) - len(self._known(model))

    async def texts_without_vector(
        self, model: str, after: int, limit: int
    ) -> Sequence[tuple[int, str]]:
        known = self._known(model)
        left = [(s, t) for s, t in self.texts.items() if s > after and s not in known]
        return left[:limit]

    async def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        self.vectors.store_vectors(model, vectors)


async def test_it_embeds_all_and_shows_how_far_it_is(tmp_path: Path) -> None:
    texts, embedder = Texts(tmp_path / "v.db", 25), Lengths()
    seen = [progress async for progress in embed_missing(texts, embedder, batch=10)]
    assert seen == [(0, 25), (10, 25), (20, 25), (25, 25)]
    assert texts.vectors.count("lengths") == 25


async def test_stopped_half_way_it_does_only_the_rest(tmp_path: Path) -> None:
    texts, first = Texts(tmp_path / "v.db", 25), Lengths()
    async for progress in embed_missing(texts, first, batch=10):
        if progress.done == 10:
            break
    second = Lengths()
    assert [one async for one in embed_missing(texts, second, batch=10)][-1] == (15, 15)
    assert first.asked + second.asked == 25


async def test_another_model_starts_anew_beside_the_old_one(tmp_path: Path) -> None:
    class Newer(Lengths):
        model = "newer"

    texts = Texts(tmp_path / "v.db", 5)
    for embedder in (Lengths(), Newer()):
        assert [one async for one in embed_missing(texts, embedder)][-1] == (5, 5)
    assert texts.vectors.count("lengths") == texts.vectors.count("newer") == 5


async def test_nothing_to_do_is_done_at_once(tmp_path: Path) -> None:
    texts, embedder = Texts(tmp_path / "v.db", 0), Lengths()
    assert [one async for one in embed_missing(texts, embedder)] == [(0, 0)]
    assert embedder.asked == 0
