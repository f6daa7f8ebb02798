"""When a disk will be full: a straight line through what was measured, with its uncertainty."""

import math
from collections.abc import Sequence
from itertools import pairwise

from hermes.core.messages import Value

Samples = tuple[tuple[float, float], ...]
"""Time in seconds, and kB that were free then."""
SAMPLES_KEPT = 120
SAMPLE_GAP_S = 55.0
SAMPLES_NEEDED = 12
SPAN_NEEDED_S = 900.0
"""Growth that is younger than this may be a download that ends."""
HORIZON_H = 8.0
"""Hours ahead that are reported, unless the probe says otherwise."""
FREED = 1.02
"""More free space than this many times the last figure: somebody tidied up, so begin anew."""


class Forecast(Value, kw_only=True, frozen=True):
    hours: float
    soonest: float
    latest: float
    kb_per_s: float
    span_s: float

    def words(self, path: str, free_kb: float) -> str:
        return (
            f"{path} will be full in about {_hours(self.hours)} (between {_hours(self.soonest)} "
            f"and {_hours(self.latest)}) if it goes on as in the last "
            f"{self.span_s / 60:.0f} minutes: {_size(self.kb_per_s * 3600)} an hour, "
            f"{_size(free_kb)} are free"
        )


def sampled(samples: Samples, at: float, free_kb: float) -> Samples:
    """With one more figure, unless the last one is too young."""
    if samples and free_kb > FREED * samples[-1][1]:
        return ((at, free_kb),)
    if samples and 0 <= at - samples[-1][0] < SAMPLE_GAP_S:
        return samples
    if samples and at < samples[-1][0]:  # the clock was set back
        return ((at, free_kb),)
    return (*samples, (at, free_kb))[-SAMPLES_KEPT:]


def forecast(samples: Samples) -> Forecast | None:
    """None while too little is known, or the space does not shrink steadily."""
    if len(samples) < SAMPLES_NEEDED or samples[-1][0] - samples[0][0] < SPAN_NEEDED_S:
        return None
    if not _shrinks_throughout(samples):
        return None
    slope, error = _line(samples)
    if slope + 2 * error >= 0:
        return None
    free = samples[-1][1]
    return Forecast(
        hours=free / -slope / 3600,
        soonest=free / -(slope - 2 * error) / 3600,
        latest=free / -(slope + 2 * error) / 3600,
        kb_per_s=-slope,
        span_s=samples[-1][0] - samples[0][0],
    )


def _shrinks_throughout(samples: Samples) -> bool:
    """In each third of the time, not only over all of it."""
    third = len(samples) // 3
    edges = (samples[0], samples[third], samples[2 * third], samples[-1])
    return all(before[1] > after[1] for before, after in pairwise(edges))


def _line(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Slope of the line of least squares, and its standard error."""
    count = len(samples)
    mean_x = sum(at for at, _ in samples) / count
    mean_y = sum(free for _, free in samples) / count
    spread = sum((at - mean_x) ** 2 for at, _ in samples)
    slope = sum((at - mean_x) * (free - mean_y) for at, free in samples) / spread
    rest = sum((free - mean_y - slope * (at - mean_x)) ** 2 for at, free in samples)
    return slope, math.sqrt(rest / (count - 2) / spread)


def _hours(hours: float) -> str:
    return f"{hours * 60:.0f} minutes" if hours < 1.5 else f"{hours:.1f} hours"


def _size(kb: float) -> str:
    for unit in ("kB", "MB", "GB"):
        if kb < 1024:
            return f"{kb:.0f} {unit}"
        kb /= 1024
    return f"{kb:.1f} TB"
