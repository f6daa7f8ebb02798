"""What runs have read and been told, handed to the policy only when it can matter.

Most calls only look at this machine, and for those nobody asks whose words they are; so texts are
set aside when they are heard, and taken apart when the first call comes along that does more.
"""

from collections import deque
from typing import TYPE_CHECKING

from hermes.core.messages import ToolCall

if TYPE_CHECKING:
    from hermes.policy.decide import DocumentPolicy

MOST = 4_000_000
"""Characters that may wait."""


class Hearsay:
    def __init__(self) -> None:
        self._aside: deque[tuple[str, str, bool, ToolCall | None]] = deque()
        self._size = 0

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None) -> None:
        self._aside.append((run, text, trusted, call))
        self._size += len(text)

    @property
    def waits(self) -> bool:
        return bool(self._aside)

    @property
    def full(self) -> bool:
        return self._size > MOST

    def tell(self, policy: "DocumentPolicy") -> None:
        while self._aside:
            run, text, trusted, call = self._aside.popleft()
            policy.heard(run, text, trusted, call)
        self._size = 0
