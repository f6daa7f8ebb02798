"""What holds a box, wherever it is: takes questions to its warden, and programs into its hosts."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hermes.gym.box.plan import BoxPlan


class Carrier(Protocol):
    @property
    def place(self) -> str:
        """Names this box among all others."""
        ...

    async def reach(self) -> None:
        """Raises `PlaceFailed` when no program can be started inside from here."""
        ...

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """See `deeds`. Raises `PlaceFailed` when the box has ended."""
        ...

    async def begin(self, request: dict[str, Any]) -> None:
        """Something that goes on until the box ends, and has no answer."""
        ...

    def words(self, host: int, argv: Sequence[str], *, terminal: bool = False) -> list[str]:
        """A command of this machine that starts `argv` on a host."""
        ...


Opener = Callable[[BoxPlan], AbstractAsyncContextManager[Carrier]]
"""Makes a box of a plan that says nothing yet of the system around it; gone when it is left."""
