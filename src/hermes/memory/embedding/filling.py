"""Embeds what has no vector yet, in batches: stop it at any time and start it again."""

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

import anyio

from hermes.memory.embedding.embedder import Embedder

BATCH = 64
"""Texts a transaction: about a second of work is all that a crash can cost."""


class Fillable(Protocol):
    """A store of texts that keeps vectors beside them. Raises `StoreError`."""

    async def count_without(self, model: str) -> int: ...

    async def without(self, model: str, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Numbers above `after`, rising, and texts that have no vector of this model yet."""
        ...

    async def keep(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> None:
        """All of them or none; keeping one again replaces it."""
        ...


class Progress(NamedTuple):
    done: int
    total: int


async def fill(
    store: Fillable, embedder: Embedder, *, batch: int = BATCH
) -> AsyncIterator[Progress]:
    """Works until nothing is left; what a batch kept stays kept whatever happens after."""
    total = await store.count_without(embedder.model)
    done = after = 0
    yield Progress(done, total)
    while texts := await store.without(embedder.model, after, batch):
        words = [text for _, text in texts]
        vectors = await anyio.to_thread.run_sync(embedder.embed, words)
        seqs = [seq for seq, _ in texts]
        await store.keep(embedder.model, list(zip(seqs, vectors, strict=True)))
        done, after = done + len(texts), seqs[-1]
        yield Progress(done, max(total, done))
