"""Opens the environment that the settings name, and builds the tools of the agent."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.agent.settings import AgentSettings
from hermes.core.actions import Policy
from hermes.core.errors import SettingsError
from hermes.core.knowledge import KeepsNotes, ReadsSkillLibrary, SearchesSessions
from hermes.core.messages import Value
from hermes.core.plugins import BUILT_IN, plugin_names
from hermes.core.protocols import Environment, Journal, Tool, ToolContext
from hermes.environments.copies import can_be_copied
from hermes.environments.open import EnvironmentOpening, open_environment, select_variables
from hermes.settings.default_model import LOCAL_MODEL
from hermes.settings.load import LoadedSettings
from hermes.tools.cronjob import CRONJOB_TOOL, JobVerb, make_cronjob
from hermes.tools.memory import make_memory, make_session_search
from hermes.tools.skills import make_skills
from hermes.tools.terminal import make_terminal, make_try_on_copy
from hermes.tools.toolsets import (
    HostCapabilities,
    ToolAvailability,
    ToolCatalog,
    build_catalog,
)

if TYPE_CHECKING:
    from hermes.core.speech import SpeechService
    from hermes.core.web_content import ReadsPages, SearchesWeb
    from hermes.plumbing.addresses import AddressGuard


def configured_environment(
    loaded: LoadedSettings, folder: Path, *, beside: Environment | None = None
) -> Environment:
    """The environment that the settings name, not yet entered.

    It may share a helper process with `beside`, an open one of this process that outlives it.
    """
    return open_environment(replace(environment_options(loaded, folder), beside=beside))


def environment_options(loaded: LoadedSettings, folder: Path) -> EnvironmentOpening:
    """Return what an environment of any kind may know."""
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


WEB_TOOLSET, WEB_TOOLS = "web", ("web_search", "web_extract")
DELEGATE_TOOL, SESSION_SEARCH_TOOL, COPY_TOOL = "delegate", "session_search", "try_on_copy"


MODEL_TOOLS = ("vision_analyze", "image_generate", "mixture_of_agents")
PROVIDER_TOOLS = frozenset((*MODEL_TOOLS, "web_search", "transcribe", "text_to_speech"))
"""Tools whose chosen provider may need a key of its own."""


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
    """Return None where the environment cannot be copied."""

    async def run(commands: Sequence[str], timeout_s: float) -> str:
        from hermes.app.copies.fix_tests import try_commands  # copies are loaded with the first one

        return await try_commands(environment, commands, timeout_s)

    return {COPY_TOOL: make_try_on_copy(run)} if can_be_copied(environment) else {}


def allowed_addresses(loaded: LoadedSettings) -> "AddressGuard":
    """The private addresses that pages may be read from. Raises `SettingsError`."""
    from hermes.plumbing.addresses import guard_for_addresses

    try:
        return guard_for_addresses(loaded.settings.tools.private_addresses)
    except ValueError as error:
        raise SettingsError(f"tools.private_addresses: {error}") from error


def web_tools(loaded: LoadedSettings) -> dict[str, Tool]:
    """The tools of the web, as far as they are configured; what they use is loaded with a call."""
    settings, secrets = loaded.settings.tools.web, loaded.secrets
    urls = {name: each.url for name, each in loaded.settings.systems.items() if each.url}
    keys = {
        name: secrets[variable]
        for name in settings.search or BUILT_IN["search"]
        if secrets.get(variable := f"{name.upper().replace('-', '_')}_API_KEY")
    }
    searches = bool(settings.search or "searxng" in urls or keys)
    if not (searches or settings.extract):
        return {}
    from hermes.tools.web import WebExtractTool, WebSearchTool

    def open_search() -> "SearchesWeb":
        from hermes.integrations.web.search import ProviderAddresses, WebSearch

        return WebSearch(
            ProviderAddresses(chosen=settings.search, urls=urls, keys=keys, home=loaded.home)
        )

    def open_pages() -> "ReadsPages":
        from hermes.integrations.web.pages import FirecrawlRenderer, PageReader

        key = secrets.get("FIRECRAWL_API_KEY", "")
        renderer = FirecrawlRenderer(urls.get("firecrawl", ""), key) if key else None
        return PageReader(allowed_addresses(loaded), renderer)

    found: dict[str, Tool] = {"web_extract": WebExtractTool(open_pages)}
    return found | ({"web_search": WebSearchTool(open_search)} if searches else {})


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
    if WEB_TOOLSET not in settings.toolsets:  # what is not configured is not even loaded
        optional = (*optional, *WEB_TOOLS)
    own = {**web_tools(loaded), **(own or {})}
    if missing := [name for name in optional if name not in own]:
        settings = msgspec.structs.replace(settings, disabled=(*settings.disabled, *missing))
    terminal = loaded.settings.terminal
    extra: dict[str, Tool] = {
        "terminal": make_terminal(timeout=terminal.timeout, max_timeout=terminal.max_timeout),
        **own,
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
        open_speech=lambda: _open_speech(loaded),
        check=lambda name: check_provider(name, loaded, model),
    )
    return AgentTooling(
        catalogue,
        _agent_settings(loaded.settings.agent, catalogue),
        detected,
        (*problems, *catalogue.problems),
    )


def check_provider(tool: str, loaded: LoadedSettings, model: str = "") -> ToolAvailability | None:
    """Return what the configured provider of a tool lacks; None: nothing."""
    if tool not in PROVIDER_TOOLS:
        return None
    from hermes.app.tools.availability import check_configuration

    return check_configuration(tool, loaded, model)


def _open_speech(loaded: LoadedSettings) -> "SpeechService":
    from hermes.app.tools.speech import ApplicationSpeech

    return ApplicationSpeech(loaded)


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
            from hermes.app.tools.model_tools import image_provider, vision_reference

            seeks = vision_reference if key == "model.vision" else image_provider
            return bool(seeks(self._loaded))
        if key in ("speech.command", "speech.speaker"):
            from hermes.app.tools.speech import speaker_name, transcriber_name

            find = transcriber_name if key == "speech.command" else speaker_name
            return bool(find(self._loaded))
        return bool(_setting_value(self._loaded, str(key)))


def host_capabilities(loaded: LoadedSettings) -> HostCapabilities:
    """Return what is there for tools. Programs are only looked for on this host: in any other
    environment a command would have to be started for it."""
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
