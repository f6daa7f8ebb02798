"""What models keep open between calls: one thing per key, shared, and closed with the house."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast


class Closes(Protocol):
    async def aclose(self) -> None: ...


T = TypeVar("T", bound=Closes)


class Connections:
    """Opened lazily: a house that never asks a model over the wire never loads the wire."""

    def __init__(self) -> None:
        self._open: dict[str, Closes] = {}

    def share(self, key: str, make: Callable[[], T]) -> T:
        """The thing kept under `key`, made at the first request for it."""
        if key not in self._open:
            self._open[key] = make()
        return cast(T, self._open[key])

    async def aclose(self) -> None:
        while self._open:
            _, thing = self._open.popitem()
            await thing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
