"""How sure a figure is: intervals for shares and for middles, with nothing but arithmetic."""

import math
import random
import statistics
from collections.abc import Sequence

Z = 1.959964
"""For 95 of 100."""
DRAWS = 1_000

Interval = tuple[float, float]


def wilson(hits: int, total: int) -> Interval:
    """In which the true share lies; honest also for none, all, and few."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, Z * Z
    middle = share + square / (2 * total)
    spread = Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    scale = 1 + square / total
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def bootstrap(values: Sequence[float], *, seed: int = 0) -> Interval:
    """In which the true median lies, by drawing again from what was seen."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    chance = random.Random(seed)
    middles = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    return middles[int(DRAWS * 0.025)], middles[int(DRAWS * 0.975) - 1]
