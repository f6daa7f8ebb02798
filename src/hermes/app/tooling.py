"""Opens the environment that the settings name, and builds the tools of the agent."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.agent.settings import AgentSettings
from hermes.core.actions import Policy
from hermes.core.knowledge import KeepsNotes, ReadsSkillLibrary, SearchesSessions
from hermes.core.messages import Value
from hermes.core.plugins import plugin_names
from hermes.core.protocols import Environment, Journal, Tool, ToolContext
from hermes.environments.copies import can_be_copied
from hermes.environments.open import EnvironmentOpening, open_environment, select_variables
from hermes.settings.default_model import LOCAL_MODEL
from hermes.settings.load import LoadedSettings
from hermes.tools.cronjob import CRONJOB_TOOL, JobVerb, make_cronjob
from hermes.tools.memory import make_memory, make_session_search
from hermes.tools.skills import make_skills
from hermes.tools.terminal import make_terminal, make_try_on_copy
from hermes.tools.toolsets import HostCapabilities, ToolCatalog, build_catalog


def configured_environment(loaded: LoadedSettings, folder: Path) -> Environment:
    """The environment that the settings name, not yet entered."""
    return open_environment(environment_options(loaded, folder))


def environment_options(loaded: LoadedSettings, folder: Path) -> EnvironmentOpening:
    """What an environment of any kind may know."""
    terminal = loaded.settings.terminal
    return EnvironmentOpening(
        settings=terminal,
        directory=folder,
        home=loaded.home,
        variables=select_variables(
            loaded.secrets, terminal.pass_variables, withheld=loaded.secrets.kept
        ),
        secrets=loaded.secrets,
    )


DELEGATE_TOOL, SESSION_SEARCH_TOOL, COPY_TOOL = "delegate", "session_search", "try_on_copy"


MODEL_TOOLS = ("vision_analyze", "image_generate", "mixture_of_agents")


class AgentTooling(Value, frozen=True):
    catalogue: ToolCatalog
    agent: AgentSettings
    detected: str = ""
    """Which model answers and why, when none was chosen."""
    problems: tuple[str, ...] = ()
    """Tools of the home and of plug-ins that cannot be used, with file and cause."""


def application_tools(
    loaded: LoadedSettings,
    notes: KeepsNotes,
    search: SearchesSessions | None,
    skills: ReadsSkillLibrary,
) -> dict[str, Tool]:
    """Tools that use data of the home, and not only the environment."""
    own: dict[str, Tool] = make_skills(skills)
    if search is not None:
        own[SESSION_SEARCH_TOOL] = make_session_search(search)
    return {**own, "memory": make_memory(notes)} if loaded.settings.memory.notes else own


def schedule_tools(loaded: LoadedSettings, journal: Journal, policy: Policy) -> dict[str, Tool]:
    """The tool for jobs. The scheduler is loaded with its first call."""

    class Jobs:
        async def change(
            self, context: ToolContext, verb: JobVerb, arguments: Mapping[str, Any]
        ) -> str:
            from hermes.app.chat_jobs import change_jobs

            return await change_jobs(loaded, journal, policy, context, verb, arguments)

    return {CRONJOB_TOOL: make_cronjob(Jobs())}


def copy_tools(environment: Environment) -> dict[str, Tool]:
    """None where the environment cannot be copied."""

    async def run(commands: Sequence[str], timeout_s: float) -> str:
        from hermes.app.fix_tests import try_commands  # copies are loaded with the first one

        return await try_commands(environment, commands, timeout_s)

    return {COPY_TOOL: make_try_on_copy(run)} if can_be_copied(environment) else {}


def build_tooling(
    loaded: LoadedSettings,
    *,
    model: str = "",
    toolsets: Sequence[str] = (),
    own: Mapping[str, Tool] | None = None,
    foreign: Mapping[str, Tool] | None = None,
    problems: tuple[str, ...] = (),
) -> AgentTooling:
    """Arguments override the settings. `foreign` are tools of MCP servers; no other tool loses its
    name to them."""
    settings, detected = loaded.settings.tools, ""
    why = loaded.origin("model.default")
    if toolsets:
        settings = msgspec.structs.replace(settings, toolsets=tuple(toolsets))
    if not model and why.source == "detected":
        detected = _detection_note(loaded.settings.model.default, why.where)
        if loaded.settings.model.default == LOCAL_MODEL and not toolsets:
            # So small a model calls tools without need; it may only talk.
            settings = msgspec.structs.replace(settings, toolsets=())
    # There is no earlier session, or the environment cannot be copied.
    optional = () if own is None else (SESSION_SEARCH_TOOL, COPY_TOOL, *MODEL_TOOLS)
    if missing := [name for name in optional if name not in (own or ())]:
        settings = msgspec.structs.replace(settings, disabled=(*settings.disabled, *missing))
    terminal = loaded.settings.terminal
    extra: dict[str, Tool] = {
        "terminal": make_terminal(timeout=terminal.timeout, max_timeout=terminal.max_timeout),
        **(own or {}),
    }
    members: Mapping[str, Sequence[str]] = {}
    if (loaded.home / "tools").is_dir() or any_system_configured(loaded):
        from hermes.app.systems import load_declared_tools

        taken = {*plugin_names("tools", loaded.home), *extra, DELEGATE_TOOL}
        declared = load_declared_tools(loaded, taken)
        extra |= declared.tools
        members, problems = declared.members, (*problems, *declared.problems)
    if foreign:
        taken = {*plugin_names("tools", loaded.home), *extra, DELEGATE_TOOL}
        extra |= {name: tool for name, tool in foreign.items() if name not in taken}
    catalogue = build_catalog(
        settings,
        present=host_capabilities(loaded),
        extra=extra,
        elsewhere=[DELEGATE_TOOL],
        home=loaded.home,
        members=members,
    )
    return AgentTooling(
        catalogue,
        _agent_settings(loaded.settings.agent, catalogue),
        detected,
        (*problems, *catalogue.problems),
    )


def any_system_configured(loaded: LoadedSettings) -> bool:
    settings = loaded.settings
    return bool(
        settings.systems
        or settings.sre.prometheus.url
        or settings.sre.kubernetes.configured
        or settings.tools.docker
        or settings.tools.databases
    )


class _ProgramsOnHost:
    """Looks a program up when a tool needs it."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def __contains__(self, name: object) -> bool:
        return shutil.which(str(name), path=self._path) is not None


class _ValuesInSettings:
    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded

    def __contains__(self, key: object) -> bool:
        sre = self._loaded.settings.sre
        if key == "systems.prometheus.url" and sre.prometheus.url:
            return True
        if key == "sre.kubernetes.kubeconfig" and sre.kubernetes.configured:
            return True
        if key in ("model.vision", "tools.images.provider"):
            from hermes.app.model_tools import image_provider, vision_reference

            find = vision_reference if key == "model.vision" else image_provider
            return bool(find(self._loaded))
        return bool(_setting_value(self._loaded, str(key)))


def host_capabilities(loaded: LoadedSettings) -> HostCapabilities:
    """What is there for tools. Programs are only looked for on this host: in any other environment
    a command would have to be started for it."""
    on_host = loaded.settings.terminal.backend == "local"
    return HostCapabilities(
        programs=_ProgramsOnHost(loaded.secrets.get("PATH")) if on_host else None,
        variables=frozenset(name for name, value in loaded.secrets.items() if value),
        settings=_ValuesInSettings(loaded),
    )


def _setting_value(loaded: LoadedSettings, key: str) -> object:
    value: Any = loaded.settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return value


def _agent_settings(settings: AgentSettings, catalogue: ToolCatalog) -> AgentSettings:
    """The agent adds `delegate` itself, unless the chosen toolsets leave it out."""
    if DELEGATE_TOOL in catalogue.elsewhere:
        return settings
    return msgspec.structs.replace(settings, max_depth=0)


def _detection_note(model: str, why: str) -> str:
    if model != LOCAL_MODEL:
        return f"{model} answers, because {why}"
    return (
        f"{why}: answers come from checks and the journal only; `hermes setup` adds a model that "
        "can investigate"
    )
