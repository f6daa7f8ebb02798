"""A table with a limited number of entries, for processes that run for weeks."""

from itertools import islice
from typing import Generic, TypeVar

Key = TypeVar("Key")
Item = TypeVar("Item")


class LimitedTable(Generic[Key, Item]):
    """A table that forgets its oldest entries.

    A plain dictionary, which takes half the memory of one that can be reordered. Its oldest entries
    are removed many at a time, because each search for the first one passes all removed ones.
    """

    def __init__(self, max_entries: int) -> None:
        self._entries: dict[Key, Item] = {}
        self._min_entries, self._max_entries = max_entries - max_entries // 10, max_entries

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __setitem__(self, key: Key, item: Item) -> None:
        self._entries[key] = item
        if len(self._entries) > self._max_entries:
            for oldest in list(islice(self._entries, len(self._entries) - self._min_entries)):
                del self._entries[oldest]

    def get(self, key: Key) -> Item | None:
        return self._entries.get(key)
