"""How age lowers a score: a tie-break by default, counted from the last confirmation."""

import math
from datetime import datetime

from hermes.memory.recall.settings import RecallSettings
from hermes.memory.recall.store import Kind, Passage

FLOOR = 0.9
"""A half-life of 30 days without this floor cuts evidence recall from 63 to 39 of 100."""
_DAY = 86_400.0


def fade(passage: Passage, now: datetime, settings: RecallSettings) -> float:
    """Factor for a passage's score; clocks that jumped never make it more than one."""
    half_life = _half_life(passage.kind, settings)
    if half_life <= 0:
        return 1.0
    age = max(0.0, (now - (passage.confirmed or passage.at)).total_seconds() / _DAY)
    left = math.exp(-math.log(2) * age / half_life)
    return left if settings.decay == "exponential" else FLOOR + (1 - FLOOR) * left


def _half_life(kind: Kind, settings: RecallSettings) -> float:
    match kind:
        case "episodic":
            return settings.half_life_episodic_days
        case "semantic":
            return settings.half_life_semantic_days
        case "declarative":
            return settings.half_life_declarative_days
