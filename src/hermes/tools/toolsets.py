"""Toolsets as data, which tools are available and why not, and the catalog built from them.

A toolset names tools and other toolsets. What a tool needs (a key, a program) is declared with the
tool; what a whole toolset needs, here.
"""

import random
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.core.errors import PluginError, SettingsError
from hermes.core.messages import Risk, ToolSpec, Value
from hermes.core.plugin_sources import PluginSource
from hermes.core.plugins import (
    BUILT_IN,
    call_plugin,
    load_plugin,
    outside_plugins,
)
from hermes.core.protocols import Tool, ToolContext
from hermes.plumbing.problems import suggest_name
from hermes.tools.declare import ChecksArguments, ToolRequirements
from hermes.tools.dependencies import ToolDependencies
from hermes.tools.settings import OwnToolset, ToolSettings

if TYPE_CHECKING:
    from hermes.core.speech import SpeechService

FOREIGN_PREFIX = "mcp_"
"""How the names of all tools of MCP servers begin."""
SEARCH_TOOLS = ("tool_search", "tool_call")
"""They belong to the same toolset, and are there when these tools are too many to be shown."""
CHAT_TOOLSETS = ("default", "schedule", "speech")
"""What sessions of chats have."""


class Toolset(Value, kw_only=True, frozen=True):
    about: str
    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    needs: ToolRequirements = ToolRequirements()


TOOLSETS: Mapping[str, Toolset] = {
    "terminal": Toolset(about="commands and background processes", tools=("terminal", "process")),
    "file": Toolset(
        about="read, search and change files",
        tools=("read_file", "write_file", "patch", "search_files"),
    ),
    "code": Toolset(about="Python that calls the other tools", tools=("execute_code",)),
    "copies": Toolset(about="tests on copies of the host", tools=("try_on_copy",)),
    "planning": Toolset(about="a list of steps, questions", tools=("todo", "clarify")),
    "memory": Toolset(
        about="notes for later sessions, search in earlier ones", tools=("memory", "session_search")
    ),
    "skills": Toolset(
        about="proven ways to do things, to be read",
        tools=("skills_categories", "skills_list", "skill_view"),
    ),
    "schedule": Toolset(about="jobs for later, at fixed times", tools=("cronjob",)),
    "vision": Toolset(about="questions about pictures", tools=("vision_analyze",)),
    "creative": Toolset(about="pictures from descriptions", tools=("image_generate",)),
    "moa": Toolset(about="several models at once", tools=("mixture_of_agents",)),
    "delegation": Toolset(about="agents that work side by side", tools=("delegate",)),
    "speech": Toolset(
        about="recordings as text, text as speech", tools=("transcribe", "text_to_speech")
    ),
    **{
        name: Toolset(about=about)  # filled by the catalog, from the files in bundled/
        for name, about in (
            ("prometheus", "metrics, alerts and silences: Prometheus, Alertmanager"),
            ("loki", "logs in Loki"),
            ("grafana", "dashboards and annotations"),
            ("argocd", "applications of Argo CD"),
            ("github", "commits, workflows and issues on GitHub"),
            ("gitlab", "commits, pipelines and issues on GitLab"),
            ("kubernetes", "a cluster by kubectl"),
            ("helm", "releases of a cluster by helm"),
            ("docker", "containers by docker"),
            ("databases", "PostgreSQL, MariaDB and Redis, only to read"),
        )
    },
    "systems": Toolset(
        about="the systems around the host, as far as they are configured",
        includes=(
            *("prometheus", "loki", "grafana", "argocd", "github", "gitlab"),
            *("kubernetes", "helm", "docker", "databases"),
        ),
    ),
    "web": Toolset(about="search the web, read its pages", tools=("web_search", "web_extract")),
    "browser": Toolset(
        about="web pages in a browser of its own: look, click, type",
        tools=(
            *("browser_navigate", "browser_snapshot", "browser_scroll", "browser_back"),
            *("browser_get_images", "browser_console", "browser_vision", "browser_close"),
            *("browser_click", "browser_type", "browser_press", "browser_dialog"),
        ),
    ),
    "declared": Toolset(about="your own, from <home>/tools/*.yaml"),  # filled by the catalog
    "plugins": Toolset(about="from installed packages and <home>/plugins/*.py"),  # the same
    "mcp": Toolset(about="of MCP servers that you reviewed: hermes mcp"),  # the same
    "safe": Toolset(
        about="only reads: nothing here changes anything",
        tools=("read_file", "search_files", "todo", "clarify"),
    ),
    "default": Toolset(
        about="everything for everyday work",
        includes=(
            "terminal",
            "file",
            "code",
            "planning",
            "memory",
            "skills",
            "delegation",
            "systems",
            "web",
            "vision",
            "creative",
            "moa",
            "declared",
            "plugins",
            "mcp",
        ),
    ),
    "all": Toolset(
        about="all there is", includes=("default", "copies", "schedule", "browser", "speech")
    ),
    "hermes-cli": Toolset(about="in the terminal", includes=("default",)),
    "hermes-telegram": Toolset(about="on Telegram", includes=CHAT_TOOLSETS),
    "hermes-discord": Toolset(about="on Discord", includes=CHAT_TOOLSETS),
    "hermes-slack": Toolset(about="on Slack", includes=CHAT_TOOLSETS),
    "hermes-whatsapp": Toolset(about="on WhatsApp", includes=CHAT_TOOLSETS),
    "hermes-signal": Toolset(about="on Signal", includes=CHAT_TOOLSETS),
    "hermes-matrix": Toolset(about="on Matrix", includes=CHAT_TOOLSETS),
    "hermes-mattermost": Toolset(about="on Mattermost", includes=CHAT_TOOLSETS),
    "hermes-email": Toolset(about="by e-mail", includes=CHAT_TOOLSETS),
}


@dataclass(frozen=True, kw_only=True)
class HostCapabilities:
    """The programs and features of this host. None means not checked, so nothing is reported as
    missing."""

    programs: Container[str] | None = None
    variables: Container[str] | None = None
    settings: Container[str] | None = None


class ToolAvailability(Value, kw_only=True, frozen=True):
    tool: str
    available: bool
    why: str = ""
    """What is missing."""
    how: str = ""
    """How to get it."""


def with_own_toolsets(own: Mapping[str, OwnToolset]) -> dict[str, Toolset]:
    """The built-in toolsets and the operator's; an operator's replaces ours of the same name."""
    own_sets = {
        name: Toolset(about=mine.about, tools=mine.tools, includes=mine.includes)
        for name, mine in own.items()
    }
    return {**TOOLSETS, **own_sets}


def with_members(
    sets: Mapping[str, Toolset], members: Mapping[str, Sequence[str]]
) -> dict[str, Toolset]:
    """The toolsets, with the tools of those that are described in files."""
    filled = {
        name: msgspec.structs.replace(sets[name], tools=tuple(tools))
        for name, tools in members.items()
        if name in sets and not sets[name].tools
    }
    return {**sets, **filled}


def resolve_toolsets(
    names: Iterable[str], sets: Mapping[str, Toolset] = TOOLSETS
) -> dict[str, ToolRequirements]:
    """Return every tool of these toolsets, in order, with what its toolset needs. Raises
    `SettingsError` for a toolset that does not exist, and names the closest."""
    tools: dict[str, ToolRequirements] = {}
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in seen:  # two sets may include each other
            continue
        seen.add(name)
        found = sets.get(name)
        if found is None:
            raise unknown_toolset(name, sets)
        for tool in found.tools:
            tools.setdefault(tool, found.needs)
        waiting[:0] = found.includes
    return tools


def unknown_toolset(name: str, sets: Mapping[str, Toolset]) -> SettingsError:
    hint = suggest_name(name, sets, cutoff=0.5)
    return SettingsError(f"there is no toolset {name!r}; {hint}")


def check_availability(
    tool: str, needs: Iterable[ToolRequirements], present: HostCapabilities
) -> ToolAvailability:
    """Return whether a tool can be offered, and if not, what would change that."""
    missing: list[str] = []
    how: list[str] = []
    for need in needs:
        lacks = [f"the program {p}" for p in _missing(need.programs, present.programs)]
        lacks += [f"the key {v}" for v in _missing(need.variables, present.variables)]
        lacks += [f"the setting {s}" for s in _missing(need.settings, present.settings)]
        lacks += _missing_choice(need.any_of, present)
        if lacks:
            missing += lacks
            how.append(need.how or _install_hint(need, present))
    return ToolAvailability(
        tool=tool,
        available=not missing,
        why=f"missing: {', '.join(dict.fromkeys(missing))}" if missing else "",
        how="; ".join(dict.fromkeys(how)),
    )


def _missing(wanted: tuple[str, ...], present: Container[str] | None) -> list[str]:
    return [] if present is None else [name for name in wanted if name not in present]


def _missing_choice(choices: tuple[str, ...], present: HostCapabilities) -> list[str]:
    known = (present.variables, present.settings)
    if not choices or any(each is None or name in each for name in choices for each in known):
        return []
    return [f"one of {', '.join(choices)}"]


def _install_hint(need: ToolRequirements, present: HostCapabilities) -> str:
    programs = _missing(need.programs, present.programs)
    keys = _missing(need.variables, present.variables)
    hints = [f"install {' and '.join(programs)} in the environment"] if programs else []
    keys += _missing(need.settings, present.settings)
    hints += [f"set it: hermes config set {key} <value>" for key in keys]
    return "; ".join(hints)


ToolsetDistribution = Mapping[str, float]
"""By toolset, its probability; each is drawn independently."""

TOOLSET_DISTRIBUTIONS: Mapping[str, ToolsetDistribution] = {
    "default": {"default": 1.0},
    "safe": {"safe": 1.0},
    "terminal": {"terminal": 1.0, "file": 0.3, "planning": 0.2},
    "development": {"terminal": 0.9, "file": 0.9, "code": 0.5, "planning": 0.5},
    "mixed": {"terminal": 0.7, "file": 0.7, "code": 0.4, "planning": 0.4, "delegation": 0.2},
    "even": {"terminal": 0.5, "file": 0.5, "code": 0.5, "planning": 0.5, "delegation": 0.5},
}


def find_distribution(
    name: str,
    own: Mapping[str, ToolsetDistribution] | None = None,
    sets: Mapping[str, Toolset] = TOOLSETS,
) -> ToolsetDistribution:
    """A distribution by name, checked. Raises `SettingsError`."""
    known = {**TOOLSET_DISTRIBUTIONS, **(own or {})}
    found = known.get(name)
    if found is None:
        hint = suggest_name(name, known, cutoff=0.5)
        raise SettingsError(f"there is no distribution {name!r}; {hint}")
    check_distribution(name, found, sets)
    return found


def check_distribution(
    name: str, distribution: ToolsetDistribution, sets: Mapping[str, Toolset] = TOOLSETS
) -> None:
    for toolset, chance in distribution.items():
        if toolset not in sets:
            raise SettingsError(f"distribution {name!r}: {unknown_toolset(toolset, sets)}")
        if not 0.0 <= chance <= 1.0:  # also refuses what is not a number
            raise SettingsError(
                f"distribution {name!r}: {toolset} has probability {chance}; it must be 0 to 1"
            )
    if not any(distribution.values()):
        raise SettingsError(f"distribution {name!r} never draws any toolset")


def draw_toolsets(distribution: ToolsetDistribution, seed: str | int) -> tuple[str, ...]:
    """Some toolsets, at least one; the same seed always draws the same."""
    chance = random.Random(f"toolsets:{seed}")
    numbers = {name: chance.random() for name in sorted(distribution)}
    drawn = tuple(name for name, p in distribution.items() if numbers[name] < p)
    if drawn:
        return drawn
    # An agent without tools teaches nothing: take the toolset that came closest to being drawn.
    possible = [name for name, p in distribution.items() if p > 0]
    return (min(possible, key=lambda name: numbers[name] / distribution[name]),)


class ToolCatalog(Value, frozen=True):
    tools: dict[str, Tool]
    absent: tuple[ToolAvailability, ...] = ()
    """Requested tools that cannot be offered, with what is missing."""
    elsewhere: frozenset[str] = frozenset()
    """Requested tools that a higher layer adds."""
    problems: tuple[str, ...] = ()
    """Requested tools of plug-ins that cannot be used."""
    sets: dict[str, Toolset] = {}
    """All toolsets with their tools."""

    def names_in(self, toolsets: Iterable[str]) -> set[str]:
        """The tools of these toolsets, each of which may also be a single tool. Raises
        `SettingsError` for a toolset that does not exist."""
        names: set[str] = set()
        for each in toolsets:
            single = _is_single_tool(each, self.sets, self.tools)
            names |= {each} if single else resolve_toolsets([each], self.sets).keys()
        return names


def build_catalog(
    settings: ToolSettings,
    *,
    present: HostCapabilities | None = None,
    extra: Mapping[str, Tool] | None = None,
    elsewhere: Collection[str] = (),
    home: Path | None = None,
    members: Mapping[str, Sequence[str]] | None = None,
    open_speech: "Callable[[], SpeechService] | None" = None,
    check: Callable[[str], ToolAvailability | None] = lambda name: None,
) -> ToolCatalog:
    """The tools that the settings request.

    `extra` are tools made elsewhere or declared in YAML; those that no toolset names form the
    toolset `declared`. `elsewhere` are names of tools that a higher layer makes, such as
    `delegate`. Tools of plug-ins form the toolset `plugins`; those in files are found in `home`.
    `members` are the tools of toolsets whose files were read. Raises `SettingsError` for a toolset
    that does not exist. `open_speech` is for the tools for speech. `check` says what the configured
    provider of a tool lacks; None: nothing.
    """
    present, extra = present or HostCapabilities(), extra or {}
    plugins = {
        name: each for name, each in outside_plugins("tools", home).items() if name not in extra
    }
    sets = with_members(with_own_toolsets(settings.sets), members or {})
    sets = _with_collected(sets, extra, plugins)
    tools: dict[str, Tool] = {}
    absent: list[ToolAvailability] = []
    dependencies = ToolDependencies(settings=settings, tools=tools, open_speech=open_speech)
    wanted, problems = _requested_tools(settings, sets, {*extra, *plugins}), list[str]()
    for name, set_needs in wanted.items():
        if name in elsewhere:
            continue
        try:
            found = extra.get(name) or _load_tool(name, dependencies, plugins.get(name))
        except PluginError as error:
            problems.append(str(error))
            continue
        if found is None:
            absent.append(_not_installed(name))
            continue
        own: ToolRequirements = getattr(found, "needs", ToolRequirements())
        verdict = check_availability(name, (set_needs, own), present)
        lacking = (check(name) if verdict.available else None) or verdict
        if lacking.available:
            tools[name] = found
        else:
            absent.append(lacking)
    higher = frozenset(elsewhere) & wanted.keys()
    return ToolCatalog(tools, tuple(absent), higher, tuple(problems), sets)


def _requested_tools(
    settings: ToolSettings, sets: Mapping[str, Toolset], extra: Collection[str]
) -> dict[str, ToolRequirements]:
    """A toolset may also be the name of a single tool."""
    wanted: dict[str, ToolRequirements] = {}
    for name in settings.toolsets:
        wanted.update(
            {name: ToolRequirements()}
            if _is_single_tool(name, sets, extra)
            else resolve_toolsets([name], sets)
        )
    for name in settings.disabled:
        known = name in wanted or _is_single_tool(name, sets, extra)
        for gone in [name] if known else resolve_toolsets([name], sets):
            wanted.pop(gone, None)
    return wanted


def _with_collected(
    sets: dict[str, Toolset], extra: Collection[str], plugins: Iterable[str]
) -> dict[str, Toolset]:
    """The toolsets, with `declared`, `mcp` and `plugins` filled by what no other toolset names."""
    named = _tool_names(sets)
    foreign = [name for name in extra if name.startswith(FOREIGN_PREFIX) or name in SEARCH_TOOLS]
    declared = [name for name in extra if name not in foreign]
    collected: dict[str, Iterable[str]] = {"declared": declared, "mcp": foreign, "plugins": plugins}
    return sets | {
        name: Toolset(
            about=sets[name].about, tools=tuple(each for each in found if each not in named)
        )
        for name, found in collected.items()
    }


def _is_single_tool(name: str, sets: Mapping[str, Toolset], extra: Collection[str]) -> bool:
    return name not in sets and (
        name in extra or name in _tool_names(sets) or name in BUILT_IN["tools"]
    )


def _tool_names(sets: Mapping[str, Toolset]) -> set[str]:
    return {tool for each in sets.values() for tool in each.tools}


def _load_tool(
    name: str, dependencies: ToolDependencies, plugin: PluginSource | None
) -> Tool | None:
    """Return None when there is no such tool. Raises `PluginError`."""
    if plugin is not None:
        loaded: Any = plugin.load()
        made = loaded if hasattr(loaded, "spec") else call_plugin(name, loaded, dependencies)
        if not isinstance(getattr(made, "spec", None), ToolSpec) or made.spec.name != name:
            raise PluginError(f"{plugin.origin}: {name} is not a tool with the name {name}")
        return PluginTool(made)
    if name not in BUILT_IN["tools"]:
        return None
    found: Any = load_plugin("tools", name)
    tool: Tool = found if hasattr(found, "spec") else found(dependencies)
    return tool


class PluginTool:
    """A tool of an outside author. The policy relies neither on its risk nor on a command that it
    shows: each call is at least a change, about which the rules ask by default."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        risk = Risk.CHANGE if tool.spec.risk is Risk.READ else tool.spec.risk
        self.spec = msgspec.structs.replace(tool.spec, risk=risk)
        self.needs: ToolRequirements = getattr(tool, "needs", ToolRequirements())

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return await self._tool(context, arguments)

    def validate(self, arguments: Mapping[str, Any]) -> object:
        return self._tool.validate(arguments) if isinstance(self._tool, ChecksArguments) else None


def _not_installed(name: str) -> ToolAvailability:
    return ToolAvailability(
        tool=name,
        available=False,
        why="no installed package brings it",
        how=f"install the package whose entry point in hermes.tools is {name!r}",
    )
