"""What an operator may set about recall."""

from typing import Literal

import msgspec


class RecallSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    candidates: int = 60
    """Passages that full text may propose before scoring."""
    nearest: int = 40
    """Passages that the vectors may propose before scoring."""
    floor: float = 0.15
    """When the best score is below this there is no answer: better nothing than noise.

    Calibrated: of questions with an answer 1 in 100 falls below it, of foreign ones half or more.
    """
    decay: Literal["bounded", "exponential"] = "bounded"
    """`bounded` lets age break ties only; `exponential` is the pure e^(-λt)."""
    half_life_episodic_days: float = 30.0
    """Half-life of what happened; 0 means that it never fades."""
    half_life_semantic_days: float = 180.0
    """Half-life of facts; 0 means that they never fade."""
    half_life_declarative_days: float = 0.0
    """Half-life of manuals; 0 means that they never fade."""
