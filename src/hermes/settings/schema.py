"""How much an operator wants to see, and how it is drawn."""

from typing import Literal

import msgspec

from hermes.agent.settings import AgentSettings
from hermes.environments.settings import TerminalSettings
from hermes.gym.settings import GymSettings
from hermes.memory.settings import MemorySettings, StoreSettings
from hermes.models.settings import ModelSettings
from hermes.policy.settings import PolicySettings
from hermes.skills.settings import SkillSettings
from hermes.sre.settings import SreSettings
from hermes.tools.settings import ToolSettings
from hermes.web.settings import WebSettings


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


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: ModelSettings = ModelSettings()
    """Which models answer."""
    agent: AgentSettings = AgentSettings()
    """The loop, its subagents and its prompt."""
    terminal: TerminalSettings = TerminalSettings()
    """The place where commands run."""
    tools: ToolSettings = ToolSettings()
    """What the agent can do."""
    policy: PolicySettings = PolicySettings()
    """The gate in front of every tool."""
    memory: MemorySettings = MemorySettings()
    """What is remembered from session to session."""
    skills: SkillSettings = SkillSettings()
    """What is learned, and what it has to prove."""
    sre: SreSettings = SreSettings()
    """The on-call engineer: incidents, and when one counts as mended."""
    gym: GymSettings = GymSettings()
    """Drills: where their boxes are made."""
    web: WebSettings = WebSettings()
    """The door for machines: alerts in, health and metrics out."""
    store: StoreSettings = StoreSettings()
    """Where everything that happened is kept."""
    display: DisplaySettings = DisplaySettings()
    """How much is shown, and how."""
