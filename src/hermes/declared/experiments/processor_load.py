"""How busy the processors are: how much longer things take, and how many trials run at a time."""

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

MIN_PARALLEL_TRIALS, MAX_PARALLEL_TRIALS = 2, 4
MAX_OVERLOAD = 4.0
WAITING_MARGIN = 1.5
"""What starts many programs waits longer than this process."""
SHORTEST_SPAN_S, LONGEST_SPAN_S = 0.5, 10.0
_SCHEDULED = Path("/proc/self/schedstat")


class ProcessorWaits:
    """How long this process waited for a processor lately, compared with the time it ran."""

    def __init__(
        self, scheduled: Path = _SCHEDULED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._scheduled, self._clock = scheduled, clock
        self._samples: deque[tuple[float, int, int]] = deque()

    def factor(self) -> float | None:
        """Return how many times longer it took because of that; None while that is not known."""
        now = self._clock()
        try:
            ran, waited = map(int, self._scheduled.read_text().split()[:2])
        except (OSError, ValueError):
            return None
        samples = self._samples
        if not samples or now - samples[-1][0] >= SHORTEST_SPAN_S:
            samples.append((now, ran, waited))
        while len(samples) > 1 and now - samples[1][0] > LONGEST_SPAN_S:
            samples.popleft()
        began, ran_before, waited_before = samples[0]
        if now - began < SHORTEST_SPAN_S or ran <= ran_before:
            return None
        return 1 + (waited - waited_before) / (ran - ran_before)


_waits = ProcessorWaits()


def overload_factor() -> float:
    """Return how much longer things take while more programs want to run than there are
    processors."""
    found = os.getloadavg()[0] / (2 * (os.cpu_count() or 1))
    # Programs of low priority count in the load, but others do not wait for them.
    if (waits := _waits.factor()) is not None:
        found = min(found, WAITING_MARGIN * waits)
    return min(MAX_OVERLOAD, max(1.0, found))


def parallel_trials() -> int:
    """Return how many trials run at a time: they mostly wait, so more than there are processors."""
    free = 2 * (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(MIN_PARALLEL_TRIALS, min(MAX_PARALLEL_TRIALS, int(free)))
