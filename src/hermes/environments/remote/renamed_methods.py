"""The earlier method names of `RemoteClient`, for environments of other authors."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hermes.core.errors import EnvironmentFailed
from hermes.environments.remote.client import RemoteClient
from hermes.plumbing.renamed import report_renamed

NEW_NAMES = {"reach": "connect", "broken": "find_failure", "elsewhere": "reopen"}


@runtime_checkable
class EarlierRemoteClient(Protocol):
    """What `RemoteClient` was in an earlier version."""

    @property
    def variables(self) -> Mapping[str, str]: ...
    @property
    def place(self) -> str: ...
    async def reach(self) -> None: ...
    def words(self, argv: Sequence[str], *, terminal: bool = False) -> Sequence[str]: ...
    async def broken(
        self, code: int, complaint: str, *, begun: bool
    ) -> EnvironmentFailed | None: ...
    def elsewhere(self, place: str) -> "EarlierRemoteClient | None": ...
    async def close(self, *, spare: bool) -> None: ...


def with_current_names(client: RemoteClient | EarlierRemoteClient) -> RemoteClient:
    """The client itself, or an adapter that reports the new names of its methods."""
    if not isinstance(client, EarlierRemoteClient):
        return client
    for old, new in NEW_NAMES.items():
        report_renamed(f"{type(client).__qualname__}.{old}", new)
    return _CurrentNames(client)


class _CurrentNames:
    def __init__(self, earlier: EarlierRemoteClient) -> None:
        self._earlier = earlier
        self.words, self.close = earlier.words, earlier.close
        self.connect, self.find_failure = earlier.reach, earlier.broken

    @property
    def variables(self) -> Mapping[str, str]:
        return self._earlier.variables

    @property
    def place(self) -> str:
        return self._earlier.place

    def reopen(self, place: str) -> RemoteClient | None:
        client = self._earlier.elsewhere(place)
        return None if client is None else with_current_names(client)
