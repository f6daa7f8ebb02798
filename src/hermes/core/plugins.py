"""Finds plug-ins, and loads one only when it is asked for by name.

Those of Hermes itself are in the table below; `core.plugin_sources` finds those of outside authors.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import update_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from hermes.core.errors import PluginError, SettingsError
from hermes.core.messages import Value
from hermes.core.plugin_sources import (
    GROUP_PREFIX,
    PluginSource,
    error_text,
    find_sources,
    read_plugin_files,
)

BUILT_IN: Mapping[str, Mapping[str, str]] = {
    "models": {
        "anthropic": "hermes.models.anthropic:open_anthropic",
        "local": "hermes.models.local:open_local",
        "moa": "hermes.models.mixture:open_mixture",
        "openai": "hermes.models.openai:open_openai",
        "scripted": "hermes.models.scripted:open_scripted",
    },
    "environments": {
        "daytona": "hermes.environments.daytona:open_daytona",
        "docker": "hermes.environments.docker:open_docker",
        "kubernetes": "hermes.environments.kubernetes:open_kubernetes",
        "local": "hermes.environments.local:open_local",
        "modal": "hermes.environments.modal:open_modal",
        "sandbox": "hermes.environments.sandbox:open_sandbox",
        "singularity": "hermes.environments.singularity:open_singularity",
        "ssh": "hermes.environments.ssh:open_ssh",
    },
    "channels": {
        "apprise": "hermes.gateway.channels.apprise.manifest:MANIFEST",
        "discord": "hermes.gateway.channels.discord.manifest:MANIFEST",
        "email": "hermes.gateway.channels.email.manifest:MANIFEST",
        "matrix": "hermes.gateway.channels.matrix.manifest:MANIFEST",
        "mattermost": "hermes.gateway.channels.mattermost.manifest:MANIFEST",
        "signal": "hermes.gateway.channels.signal.manifest:MANIFEST",
        "slack": "hermes.gateway.channels.slack.manifest:MANIFEST",
        "telegram": "hermes.gateway.channels.telegram.manifest:MANIFEST",
        "whatsapp": "hermes.gateway.channels.whatsapp.manifest:MANIFEST",
    },
    "notifications": {
        "log": "hermes.gateway.sinks:open_log",
        "ntfy": "hermes.gateway.sinks:open_ntfy",
        "webhook": "hermes.gateway.sinks:open_webhook",
    },
    "speech": {
        "command": "hermes.integrations.speech.engines:open_command",
        "espeak-ng": "hermes.integrations.speech.engines:open_espeak",
        "flite": "hermes.integrations.speech.engines:open_flite",
        "openai": "hermes.integrations.speech.engines:open_openai",
        "pocketsphinx": "hermes.integrations.speech.sphinx:open_pocketsphinx",
    },
    "probes": {
        "answers": "hermes.sre.probes.kinds.logs:answers_command",
        "certificate": "hermes.sre.probes.kinds.services:certificate_command",
        "command": "hermes.sre.probes.kinds.host:declared_command",
        "config": "hermes.sre.probes.kinds.host:config_command",
        "cpu": "hermes.sre.probes.kinds.host:cpu_command",
        "cron": "hermes.sre.probes.kinds.services:cron_command",
        "disk": "hermes.sre.probes.kinds.host:disk_command",
        "forecast": "hermes.sre.probes.kinds.host:forecast_command",
        "http": "hermes.sre.probes.kinds.services:http_command",
        "inodes": "hermes.sre.probes.kinds.host:inodes_command",
        "load": "hermes.sre.probes.kinds.host:load_command",
        "locks": "hermes.sre.probes.kinds.locks:locks_command",
        "log": "hermes.sre.probes.kinds.logs:log_command",
        "memory": "hermes.sre.probes.kinds.host:memory_command",
        "mysql": "hermes.sre.probes.kinds.services:mysql_command",
        "port": "hermes.sre.probes.kinds.services:port_command",
        "postgres": "hermes.sre.probes.kinds.services:postgres_command",
        "processes": "hermes.sre.probes.kinds.host:processes_command",
        "redis": "hermes.sre.probes.kinds.services:redis_command",
        "sqlite": "hermes.sre.probes.kinds.services:sqlite_command",
        "tls": "hermes.sre.probes.kinds.services:tls_command",
        "unit": "hermes.sre.probes.kinds.services:unit_command",
        "zombies": "hermes.sre.probes.kinds.host:zombies_command",
    },
    "scenarios": {"built_in": "hermes.gym.scenarios:folder"},
    "search": {
        "brave": "hermes.integrations.web.providers:open_brave",
        "duckduckgo": "hermes.integrations.web.providers:open_duckduckgo",
        "exa": "hermes.integrations.web.providers:open_exa",
        "firecrawl": "hermes.integrations.web.providers:open_firecrawl",
        "searxng": "hermes.integrations.web.providers:open_searxng",
        "tavily": "hermes.integrations.web.providers:open_tavily",
    },
    "tools": {
        "clarify": "hermes.tools.conversation:clarify",
        "cronjob": "hermes.tools.cronjob:cronjob",
        "execute_code": "hermes.tools.execute_code:make_execute_code",
        "image_generate": "hermes.tools.pictures:image_generate",
        "memory": "hermes.tools.memory:memory",
        "mixture_of_agents": "hermes.tools.mixture:mixture_of_agents",
        "patch": "hermes.tools.files.patch:make_patch",
        "process": "hermes.tools.terminal:process",
        "read_file": "hermes.tools.files.read_write:make_read_file",
        "search_files": "hermes.tools.files.search:search_files",
        "session_search": "hermes.tools.memory:session_search",
        "skill_call": "hermes.tools.skills:skill_call",
        "skill_create": "hermes.tools.skills:skill_create",
        "skill_view": "hermes.tools.skills:skill_view",
        "skills_categories": "hermes.tools.skills:skills_categories",
        "skills_list": "hermes.tools.skills:skills_list",
        "terminal": "hermes.tools.terminal:terminal",
        "text_to_speech": "hermes.tools.speech:make_text_to_speech",
        "todo": "hermes.tools.conversation:make_todo",
        "transcribe": "hermes.tools.speech:make_transcribe",
        "try_on_copy": "hermes.tools.terminal:try_on_copy",
        "vision_analyze": "hermes.tools.pictures:vision_analyze",
        "web_extract": "hermes.tools.web:web_extract",
        "web_search": "hermes.tools.web:web_search",
        "write_file": "hermes.tools.files.read_write:make_write_file",
    },
}
"""The built-in plug-ins of each group, by name, and where each is defined."""

LATER_GROUPS: Mapping[str, str] = {"notifications": "channels"}
"""A plug-in of the first group may be named in the second one: a sink is a channel that only sends.
"""

P = ParamSpec("P")
R = TypeVar("R")


class PluginWithSettings(Generic[P, R]):
    """A function of a plug-in, and the struct of the section of its settings."""

    def __init__(self, function: Callable[P, R], settings: type[msgspec.Struct]) -> None:
        update_wrapper(self, function)
        self._function, self.settings = function, settings

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)


def with_settings(
    settings: type[msgspec.Struct],
) -> Callable[[Callable[P, R]], PluginWithSettings[P, R]]:
    """Declare the settings of a plug-in: a section with its name, beside the key that names it."""
    return lambda function: PluginWithSettings(function, settings)


def load_plugin(group: str, name: str, home: Path | None = None) -> Any:
    """The object behind `hermes.<group>: name`.

    Raises `SettingsError` naming what exists, or the extra that a built-in needs; and `PluginError`
    for a broken plug-in. Without `home` its files are not searched.
    """
    own = BUILT_IN.get(group, {}).get(name)
    if own is not None:
        return _load_built_in(name, own)
    if source := outside_plugins(group, home).get(name):
        return source.load()
    for file in read_plugin_files(home):
        if name in file.words:
            raise PluginError(f"{file.path}: {file.problem}")
    raise SettingsError(f"no {group} named {name!r}; {suggest_plugin(group, name, home)}")


def suggest_plugin(group: str, name: str, home: Path | None = None) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for errors

    names = plugin_names(group, home)
    near = get_close_matches(name, names, n=1)
    there_are = f"there are: {', '.join(names)}"
    return f"did you mean {near[0]}? {there_are}" if near else there_are


def plugin_names(group: str, home: Path | None = None) -> list[str]:
    return sorted({*BUILT_IN.get(group, {}), *outside_plugins(group, home)})


def outside_plugins(group: str, home: Path | None = None) -> dict[str, PluginSource]:
    """The plug-ins of outside authors by name. A name that is taken is left out and reported; one
    that cannot be loaded takes no name from another."""
    found: dict[str, PluginSource] = {}
    groups = (group, LATER_GROUPS.get(group))
    for source in find_sources(home):
        if source.group in groups and source.name not in BUILT_IN.get(group, {}):
            first = found.setdefault(source.name, source)
            if first is not source and not first.can_load():
                found[source.name] = source
    return found


class PluginCheck(Value, frozen=True):
    """One plug-in of an outside author, or a file of which none is known, and whether it works."""

    group: str
    name: str
    origin: str
    target: str = ""
    problem: str = ""
    """Why it is absent; empty when it can be used."""


def check_plugins(home: Path | None = None) -> Iterator[PluginCheck]:
    """Loads all plug-ins of outside authors; one that cannot be used says why."""
    for file in read_plugin_files(home):
        if file.problem:
            yield PluginCheck("", Path(file.path).stem, file.path, problem=file.problem)
    taken: dict[tuple[str, str], str] = {}
    for source in find_sources(home):
        problem = _source_problem(source, taken)
        yield PluginCheck(source.group, source.name, source.origin, source.target, problem)


def _source_problem(source: PluginSource, taken: dict[tuple[str, str], str]) -> str:
    if source.group not in BUILT_IN:
        known = ", ".join(f"{GROUP_PREFIX}{each}" for each in BUILT_IN)
        return f"no group {GROUP_PREFIX}{source.group}; there are: {known}"
    place = f"the name {source.name} in {GROUP_PREFIX}{source.group}"
    if source.name in BUILT_IN[source.group]:
        return f"{place} is taken by Hermes itself"
    try:
        source.load()
    except PluginError as error:
        return str(error).removeprefix(f"{source.origin}: ")
    first = taken.setdefault((source.group, source.name), source.origin)
    return "" if first == source.origin else f"{place} is taken by {first}"


def plugin_problems(home: Path | None = None) -> Iterator[str]:
    """Everything that is wrong with the plug-ins of outside authors. Loads all of them."""
    for each in check_plugins(home):
        if each.problem:
            yield f"{each.origin}: {each.problem}"


def call_plugin(name: str, plugin: Callable[..., R], *args: object) -> R:
    """Raises `PluginError` for any error in the author's code except `SettingsError`."""
    try:
        return plugin(*args)
    except SettingsError:
        raise
    except Exception as error:  # code of the author: any error is possible
        raise PluginError(f"{name}: {error_text(error)}") from error


def own_settings(plugin: Any, given: object, where: str) -> Any:
    """The settings of a plug-in as its struct; None when it declares none.

    `given` is the value of its section, None without one. Raises `SettingsError`.
    """
    kind = plugin.settings if isinstance(plugin, PluginWithSettings) else None
    if kind is None:
        if given is not None:
            raise SettingsError(f"{where}: this plug-in has no settings")
        return None
    if isinstance(given, kind):
        return given
    try:
        return msgspec.convert({} if given is None else given, kind)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}".replace("`", "")) from error


def _load_built_in(name: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("hermes"):
            raise
        raise SettingsError(
            f"{name} needs the package {error.name}, which is not installed: "
            f"pip install 'hermes-oncall[{name}]'"
        ) from error
