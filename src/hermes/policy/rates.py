"""How often something was done lately: the memory behind `rate_limit`."""

import time
from collections import deque
from collections.abc import Callable

_MOST_KEYS = 10_000


class Rates:
    """Counted on a monotonic clock, so that setting the time back or forth changes nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: dict[tuple[str, str], deque[float]] = {}

    def count(self, rule: str, key: str, per: float) -> int:
        """How often within the last `per` seconds."""
        since = self._clock() - per
        return sum(1 for at in self._done.get((rule, key), ()) if at > since)

    def note(self, rule: str, key: str, *, most: int, ago: float = 0.0) -> None:
        """It was started; `most` is how many of the latest are worth remembering."""
        if len(self._done) >= _MOST_KEYS and (rule, key) not in self._done:
            self._done.pop(min(self._done, key=lambda known: self._done[known][-1]))
        done = self._done.setdefault((rule, key), deque(maxlen=most))
        done.append(self._clock() - ago)
