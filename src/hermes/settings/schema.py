"""All settings, collected from the packages that declare them."""

from typing import Literal

import msgspec

from hermes.agent.settings import AgentSettings
from hermes.core.people import PersonSettings
from hermes.declared.settings import DeclaredSettings
from hermes.environments.settings import TerminalSettings
from hermes.gateway.settings import ChannelsSettings, HookSettings
from hermes.gym.settings import GymSettings
from hermes.memory.settings import MemorySettings, StoreSettings
from hermes.models.settings import ModelSettings
from hermes.policy.settings import PolicySettings
from hermes.scheduler.settings import ScheduleSettings
from hermes.skills.settings import SkillSettings
from hermes.sre.settings import SreSettings, WatchSettings
from hermes.tools.settings import OtlpSettings, SpeechSettings, SystemSettings, ToolSettings
from hermes.web.settings import WebSettings


class DisplaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    color: Literal["auto", "always", "never"] = "auto"
    """`auto` follows the terminal and NO_COLOR."""
    spinner: bool = True
    """Show a spinner while a model or a tool is busy."""
    tool_progress: bool = True
    """Show which tools are running, in the terminal and in chats."""
    tool_progress_mode: Literal["new", "all"] = "all"
    """`new` shows it when the tool changes, `all` for each call."""
    reasoning: bool = False
    """Show the reasoning of a model, if it provides one."""
    banner: bool = True
    """Show a banner with tools and skills when a chat is opened."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: ModelSettings = ModelSettings()
    """The models."""
    agent: AgentSettings = AgentSettings()
    """The loop, its subagents and its prompt."""
    terminal: TerminalSettings = TerminalSettings()
    """The environment where commands run."""
    tools: ToolSettings = ToolSettings()
    """The tools of the agent."""
    systems: dict[str, SystemSettings] = {}
    """The systems around the host that tools ask: prometheus, alertmanager, loki, grafana, argocd,
    github, gitlab, and those of your own declared requests."""
    otlp: OtlpSettings = OtlpSettings()
    """Traces of runs and incidents for OpenTelemetry."""
    speech: SpeechSettings = SpeechSettings()
    """Recordings become text, and text becomes speech."""
    policy: PolicySettings = PolicySettings()
    """The policy that decides about every tool call."""
    people: dict[str, PersonSettings] = {}
    """Who is who: a name, its ids on this machine and on chat platforms, and its groups."""
    memory: MemorySettings = MemorySettings()
    """What is remembered from session to session."""
    skills: SkillSettings = SkillSettings()
    """Skills: how they are learned and evaluated."""
    watch: WatchSettings = WatchSettings()
    """The watch as a whole."""
    sre: SreSettings = SreSettings()
    """Incidents: detection, fixes and their verification."""
    declared: DeclaredSettings = DeclaredSettings()
    """States of the host and changes."""
    gym: GymSettings = GymSettings()
    """Drills and their boxes."""
    schedule: ScheduleSettings = ScheduleSettings()
    """Jobs: when they run, and the built-in ones."""
    channels: ChannelsSettings = ChannelsSettings()
    """Chat platforms, and how people are talked to there."""
    hooks: HookSettings = HookSettings()
    """Who is notified of events."""
    web: WebSettings = WebSettings()
    """The HTTP server: receives alerts, serves health and metrics."""
    store: StoreSettings = StoreSettings()
    """Where the journal is stored."""
    display: DisplaySettings = DisplaySettings()
    """How much is shown, and how."""
