"""The work on one incident as the watch sees it: how it is cancelled, and until when it may be."""

import anyio


class WorkWithdrawal:
    """Decides which comes first: a change (or the end of the work), or its withdrawal."""

    def __init__(self) -> None:
        self._committed = self._withdrawn = False

    @property
    def withdrawn(self) -> bool:
        return self._withdrawn

    def withdraw(self) -> bool:
        """False when a change has begun or the end is being written. On True the caller cancels the
        work."""
        self._withdrawn = self._withdrawn or not self._committed
        return self._withdrawn

    async def commit(self) -> None:
        """From here on the work cannot be withdrawn. Never returns if it has been."""
        if self._withdrawn:
            await anyio.sleep_forever()
        self._committed = True


class WorkInProgress:
    """What the watch keeps of an incident that is being worked on."""

    def __init__(self) -> None:
        self.scope, self.withdrawal = anyio.CancelScope(), WorkWithdrawal()
        self.ended = anyio.Event()
