"""What an operator may set about the store."""

from typing import Literal

import msgspec


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = ""
    """File of the journal; empty means `journal.db` in the home folder."""
    url: str = ""
    """PostgreSQL database in place of the file: postgresql://user:password@host:5432/name."""
    reserve_mib: int = 16
    """MiB that the watch sets aside beside the journal and uses when the disk is full; 0: none."""
    patience: float = 10.0
    """Seconds to wait for the store's server, or for another process that writes."""


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


class MemorySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    notes: bool = True
    """Begin sessions with MEMORY.md and USER.md, and let the agent keep them."""
    memory_chars: int = 2_200
    """Characters that MEMORY.md may have."""
    user_chars: int = 1_375
    """Characters that USER.md may have."""
    core_tokens: int = 1_300
    """Tokens of the prompt that both files together may take."""
    recall: bool = True
    """Show the agent what is known about a request before it begins."""
    recall_tokens: int = 1_000
    """Tokens that recalled text may take in one turn."""
    recall_sessions: bool = True
    """Recall what was said in other sessions too, not only facts."""
    index: bool = True
    """Index new events for search while Hermes works; off: the next search indexes them."""
    scoring: RecallSettings = RecallSettings()
    """How passages are found and ranked, and when nothing is better than something."""
    learn: bool = True
    """Note facts by rule, and sum up, when a session ends."""
    learn_with_model: bool = False
    """Also let the summary model pick at most three facts a session and write the summary."""
    nudge_turns: int = 10
    """Turns after which a long session is learned from without waiting for its end; 0 never."""
    model_seconds: float = 30.0
    """Seconds that a session's end waits for the summary model."""
