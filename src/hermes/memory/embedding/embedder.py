"""The door to whatever turns texts into vectors."""

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    @property
    def model(self) -> str:
        """Its id, part of every vector's key: vectors of two models are never compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """One normalised float32 vector (little endian) a text; takes milliseconds each."""
        ...
