"""What a kind of place must be able to say, so that the rest can be the same for all of them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hermes.core.errors import PlaceFailed


class Client(Protocol):
    """A program on this machine that starts programs in a place elsewhere: `docker exec`, `ssh`."""

    @property
    def variables(self) -> Mapping[str, str]:
        """All that the client program itself sees."""
        ...

    @property
    def place(self) -> str:
        """Names the place, so that a later life of ours can tell whether it is the same."""
        ...

    async def reach(self) -> None:
        """Make sure that there is a place to start programs in; cheap when there is. Raises
        `PlaceFailed`."""
        ...

    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]:
        """The client program, by its path, and its arguments that start `argv` there: connected
        to our pipes or, with `terminal`, with a terminal there and ours here."""
        ...

    async def broken(self, code: int, complaint: str, *, begun: bool) -> PlaceFailed | None:
        """Judge a client program that ended early. Before anything had begun there, None says
        that another attempt may do; afterwards, that the place is well and `code` is the
        command's own."""
        ...

    def elsewhere(self, place: str) -> "Client | None":
        """Reaches the place of that name, where an earlier life of ours was; None if it cannot."""
        ...

    async def close(self, *, spare: bool) -> None:
        """Leave the place. `spare`: background processes are to go on in it."""
        ...
