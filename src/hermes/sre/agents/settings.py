"""What an operator can decide about the models that work on an incident."""

import msgspec


class Budget(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How far one of them may go."""

    turns: int = 10
    """Answers of the model."""
    tokens: int = 80_000
    """Tokens, sent and received."""
    seconds: float = 150.0
    """Until it is cut off."""


class CrewSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.crew`."""

    layers: tuple[str, ...] = ("processes", "service", "data", "network", "changes")
    """Which layers of a host are looked into, side by side."""
    investigator: str = "cheap"
    """Who looks: a role (default, cheap, strong) or a model."""
    synthesis: str = "strong"
    """Who judges what was found: a role or a model."""
    remediator: str = "strong"
    """Who mends: a role or a model."""
    looking: Budget = Budget()
    """Of each investigator."""
    judging: Budget = Budget(turns=2, tokens=60_000, seconds=120.0)
    """Of the one who judges; its second turn is for putting right what was malformed."""
    mending: Budget = Budget(turns=40, tokens=400_000, seconds=600.0)
    """Of one attempt to mend it."""
    facts_at_once: int = 6
    """Fixed looks that run side by side before a model is asked."""
    facts_seconds: float = 10.0
    """For one of them; one that hangs has no answer."""
    shown: int = 8000
    """Characters of such facts that one model is shown; a small window shows less."""
    shown_each: int = 1500
    """Characters of one of them, from its head and its tail; the whole is kept."""
    window: float = 120.0
    """Minutes before the trouble began in which a change may be its cause."""
