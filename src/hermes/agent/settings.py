"""Settings of conversations: limits, subagents and prompt."""

import msgspec


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Spending limits. They are checked before each call of a model; without any, nothing is
    limited."""

    run_tokens: int | None = None
    """Tokens of one run and its subagents, sent and received."""
    run_usd: float | None = None
    """US dollars of one run and its subagents."""
    day_tokens: int | None = None
    """Tokens of one day (UTC) over all runs of this home."""
    day_usd: float | None = None
    """US dollars of one day (UTC) over all runs of this home."""
    subagent_tokens: int | None = None
    """Tokens of one subagent and those below it."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loop, its subagents and its prompt."""

    max_iterations: int = 60
    """Answers of the model in one turn before it must sum up and stop."""
    max_subagents: int = 8
    """Subagents of one conversation at work at once; more than these queue up."""
    subagent_timeout: float = 600.0
    """Seconds after which a subagent is cut off, unless the task says otherwise."""
    max_depth: int = 1
    """How deep subagents may delegate: 0: no agent delegates; 1: only the first one does."""
    compress_at: float = 0.8
    """Share of the model's window at which older messages give way to a summary."""
    keep_recent_turns: int = 6
    """Turns at the end that compression keeps word for word, as far as they fit."""
    output_reserve: int = 4096
    """Tokens set aside for an answer when a limit is checked before the call."""
    context_files: bool = True
    """Read AGENTS.md and the like from the working folder into the prompt."""
    personality: str = "default"
    """Tone of the answers: a built-in name or one of `personalities`."""
    personalities: dict[str, str] = {}
    """Own tones: name and text."""
    limits: LimitSettings = LimitSettings()
    """What may be spent."""
