"""Finds plug-ins, and loads one only when it is asked for by name.

There are three sources: the table of built-ins below, the entry points of installed packages in
the groups `hermes.tools`, `hermes.models` and so on, and the files `<home>/plugins/*.py`, each with
a table `ENTRY_POINTS` of the same shape. `importlib.metadata` is not used: to import it takes
longer than a whole start of `hermes`.
"""

import importlib.util
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache, update_wrapper
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from hermes.core.errors import PluginError, SettingsError
from hermes.core.messages import Value

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
"""By group, the name of each built-in and where it is."""

LATER_GROUPS: Mapping[str, str] = {"notifications": "channels"}
"""A plug-in of the first group may be named in the second one: a sink is a channel that only sends.
"""

PLUGIN_FOLDER_NAME = "plugins"
FILE_TABLE_NAME = "ENTRY_POINTS"
_GROUP_PREFIX = "hermes."
_OWN_DISTRIBUTION = "hermes"
_WORD = re.compile(r"[\w-]+")

P = ParamSpec("P")
R = TypeVar("R")


class PluginWithSettings(Generic[P, R]):
    """A function of a plug-in, and the struct of its own section of the settings."""

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


class PluginSource(Value, frozen=True):
    """Where one plug-in of an outside author comes from."""

    group: str
    name: str
    origin: str
    """A distribution such as `hermes-matrix-1.0`, or the path of a file."""
    target: str = ""
    """`module:attribute` of a distribution."""
    value: Any = None
    """The object of a file."""

    def load(self) -> Any:
        """Raises `PluginError` for any error in the author's code."""
        found = _import_target(self.target, self.origin) if self.target else self.value
        if not callable(found):
            raise PluginError(
                f"{self.origin}: {self.name} in {_GROUP_PREFIX}{self.group} is "
                f"{type(found).__name__}, which cannot be called"
            )
        return found

    def can_load(self) -> bool:
        try:
            self.load()
        except PluginError:
            return False
        return True


class PluginFile(Value, frozen=True):
    path: str
    groups: dict[str, dict[str, Any]] = {}
    problem: str = ""
    words: frozenset[str] = frozenset()
    """Of a broken file: every word in it, among them the names of its plug-ins."""


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
    for file in _plugin_files(home):
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
    for source in _sources(home):
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
    for file in _plugin_files(home):
        if file.problem:
            yield PluginCheck("", Path(file.path).stem, file.path, problem=file.problem)
    taken: dict[tuple[str, str], str] = {}
    for source in _sources(home):
        problem = _source_problem(source, taken)
        yield PluginCheck(source.group, source.name, source.origin, source.target, problem)


def _source_problem(source: PluginSource, taken: dict[tuple[str, str], str]) -> str:
    if source.group not in BUILT_IN:
        known = ", ".join(f"{_GROUP_PREFIX}{each}" for each in BUILT_IN)
        return f"no group {_GROUP_PREFIX}{source.group}; there are: {known}"
    place = f"the name {source.name} in {_GROUP_PREFIX}{source.group}"
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
        raise PluginError(f"{name}: {_error_text(error)}") from error


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


def _import_target(target: str, origin: str) -> Any:
    module, _, attributes = target.partition(":")
    try:
        found: Any = import_module(module)
        for attribute in attributes.split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:  # code of the author: any error is possible
        raise PluginError(f"{origin}: {target}: {_error_text(error)}") from error
    return found


def _sources(home: Path | None) -> Iterator[PluginSource]:
    """Packages in the order of `sys.path`, then files by name."""
    yield from _installed_plugins(tuple(sys.path))
    for file in _plugin_files(home):
        for group, values in file.groups.items():
            for name, value in values.items():
                yield PluginSource(group, name, file.path, value=value)


@lru_cache(maxsize=8)
def _installed_plugins(search_path: tuple[str, ...]) -> tuple[PluginSource, ...]:
    found: list[PluginSource] = []
    seen = {_OWN_DISTRIBUTION}
    for folder in dict.fromkeys(search_path):
        try:
            entries = sorted(os.listdir(folder or "."))  # noqa: PTH208 - at every start
        except OSError:
            continue
        for entry in entries:
            distribution, dot, ending = entry.rpartition(".")
            name = distribution.partition("-")[0].lower()
            if not dot or ending not in ("dist-info", "egg-info") or name in seen:
                continue
            seen.add(name)
            found += _distribution_plugins(Path(folder, entry), distribution)
    return tuple(found)


def _distribution_plugins(folder: Path, distribution: str) -> Iterator[PluginSource]:
    try:
        text = (folder / "entry_points.txt").read_text("utf-8", errors="replace")
    except OSError:
        return
    group = ""
    for line in text.splitlines():
        if line.startswith("["):
            group = line.strip("[] ")
        elif "=" in line and group.startswith(_GROUP_PREFIX):
            name, _, target = line.partition("=")
            target = target.partition("[")[0].strip()  # an extra in brackets says nothing here
            yield PluginSource(
                group.removeprefix(_GROUP_PREFIX), name.strip(), distribution, target
            )


def _plugin_files(home: Path | None) -> list[PluginFile]:
    if home is None:
        return []
    folder = home / PLUGIN_FOLDER_NAME
    try:
        paths = sorted(folder.glob("*.py")) if folder.is_dir() else []
    except OSError:
        return []
    unsafe = next(filter(None, map(_unsafe_reason, (home, folder))), "") if paths else ""
    found = []
    for path in paths:
        why = unsafe or _unsafe_reason(path)
        if why:
            found.append(PluginFile(str(path), problem=f"not loaded: {why}", words=_words(path)))
        else:
            changed = path.stat()
            found.append(_load_file(path, changed.st_mtime_ns, changed.st_size))
    return found


def _unsafe_reason(path: Path) -> str:
    """Why code of this file or folder may not run: another user could have written it."""
    try:
        found = path.stat()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if found.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by other users; chmod go-w {path}"
    return ""


@cache
def _load_file(path: Path, changed_ns: int, size: int) -> PluginFile:
    """Once for each version of a file."""
    try:
        return PluginFile(str(path), _file_table(path))
    except PluginError as error:
        return PluginFile(str(path), problem=str(error), words=_words(path))


def import_file(name: str, path: Path) -> ModuleType:
    """A file of an outside author as a module. Raises `PluginError` for any error in it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # code of the author: any error is possible
        raise PluginError(_error_text(error)) from error
    return module


def _file_table(path: Path) -> dict[str, dict[str, Any]]:
    module = import_file(f"hermes_plugin_{path.stem.replace('-', '_')}", path)
    table = getattr(module, FILE_TABLE_NAME, None)
    try:
        groups = msgspec.convert(table, dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        example = f'{FILE_TABLE_NAME} = {{"hermes.tools": {{"uptime": uptime}}}}'
        raise PluginError(f"it needs a table such as {example}") from error
    if wrong := [group for group in groups if not group.startswith(_GROUP_PREFIX)]:
        raise PluginError(f"{FILE_TABLE_NAME}: the group {wrong[0]!r} must begin with hermes.")
    return {group.removeprefix(_GROUP_PREFIX): dict(values) for group, values in groups.items()}


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(_WORD.findall(path.read_text("utf-8", errors="replace")))
    except OSError:
        return frozenset()
