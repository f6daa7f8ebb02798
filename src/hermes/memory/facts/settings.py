"""What a person can set about long-term memory."""

import msgspec

from hermes.memory.recall.settings import RecallSettings


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
