"""How much an operator wants to see, and how it is drawn."""

from typing import Literal

import msgspec


class DisplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    color: Literal["auto", "always", "never"] = "auto"
    """`auto` follows the terminal and NO_COLOR."""
    spinner: bool = True
    """Show that something is going on while a model or a tool is busy."""
    tool_progress: bool = True
    """Say which tools are at work, in the terminal and in chats."""
    tool_progress_mode: Literal["new", "all"] = "all"
    """`new` says it when the tool changes, `all` for each call."""
    reasoning: bool = False
    """Show what a model thinks before it answers, where it says so."""
    banner: bool = True
    """Greet with tools and skills when a chat is opened."""
