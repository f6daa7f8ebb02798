"""Which tools belong together, as data; and which of them are really there, with why not.

A toolset names tools and other toolsets. What a tool needs (a key, a program) is declared with
the tool; what a whole toolset needs, here.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.tools.declare import Needs
from hermes.tools.settings import OwnToolset


class Toolset(Value, kw_only=True, frozen=True):
    about: str
    tools: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    needs: Needs = Needs()


TOOLSETS: Mapping[str, Toolset] = {
    "terminal": Toolset(about="commands and background processes", tools=("terminal", "process")),
    "file": Toolset(
        about="read, search and change files",
        tools=("read_file", "write_file", "patch", "search_files"),
    ),
    "code": Toolset(about="Python that calls the other tools", tools=("execute_code",)),
    "planning": Toolset(about="a list of steps, questions", tools=("todo", "clarify")),
    "memory": Toolset(
        about="notes for later sessions, search in earlier ones", tools=("memory", "session_search")
    ),
    "skills": Toolset(
        about="proven ways to do things, to be read",
        tools=("skills_categories", "skills_list", "skill_view"),
    ),
    "delegation": Toolset(about="agents that work side by side", tools=("delegate",)),
    "declared": Toolset(about="your own, from <home>/tools/*.yaml"),  # filled by the catalogue
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
            "declared",
        ),
    ),
    "all": Toolset(about="all there is", includes=("default",)),
    "hermes-cli": Toolset(about="in the terminal", includes=("default",)),
    "hermes-telegram": Toolset(about="on Telegram", includes=("default",)),
    "hermes-discord": Toolset(about="on Discord", includes=("default",)),
    "hermes-slack": Toolset(about="on Slack", includes=("default",)),
    "hermes-whatsapp": Toolset(about="on WhatsApp", includes=("default",)),
}


class Present(Value, kw_only=True, frozen=True):
    """What this house has. None: nobody looked, so nothing is said to be missing."""

    programs: frozenset[str] | None = None
    variables: frozenset[str] | None = None


class Availability(Value, kw_only=True, frozen=True):
    tool: str
    available: bool
    why: str = ""
    """What is missing."""
    how: str = ""
    """How to get it."""


def with_own(own: Mapping[str, OwnToolset]) -> dict[str, Toolset]:
    """The built-in toolsets and the operator's; theirs win over ours of the same name."""
    made = {
        name: Toolset(about=mine.about, tools=mine.tools, includes=mine.includes)
        for name, mine in own.items()
    }
    return {**TOOLSETS, **made}


def resolve(names: Iterable[str], sets: Mapping[str, Toolset] = TOOLSETS) -> dict[str, Needs]:
    """Every tool of these toolsets, in order, with what its toolset needs.

    Raises `SettingsError` for a toolset that does not exist, and names the nearest.
    """
    tools: dict[str, Needs] = {}
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in seen:  # two sets may include each other
            continue
        seen.add(name)
        found = sets.get(name)
        if found is None:
            raise unknown(name, sets)
        for tool in found.tools:
            tools.setdefault(tool, found.needs)
        waiting[:0] = found.includes
    return tools


def unknown(name: str, sets: Mapping[str, Toolset]) -> SettingsError:
    near = get_close_matches(name, sets, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sets)}"
    return SettingsError(f"there is no toolset {name!r}; {hint}")


def availability(tool: str, needs: Iterable[Needs], present: Present) -> Availability:
    """Whether a tool can be offered, and if not, what would change that."""
    missing: list[str] = []
    how: list[str] = []
    for need in needs:
        lacks = [f"the program {p}" for p in _absent(need.programs, present.programs)]
        lacks += [f"the key {v}" for v in _absent(need.variables, present.variables)]
        if lacks:
            missing += lacks
            how.append(need.how or _usual(need, present))
    return Availability(
        tool=tool,
        available=not missing,
        why=f"missing: {', '.join(dict.fromkeys(missing))}" if missing else "",
        how="; ".join(dict.fromkeys(how)),
    )


async def programs_in(environment: Environment, names: Iterable[str]) -> frozenset[str]:
    """Which of these programs the place has."""
    wanted = sorted({name for name in names if name.replace("-", "").replace("_", "").isalnum()})
    if not wanted:
        return frozenset()
    command = f"( for p in {' '.join(wanted)}; do command -v -- $p >/dev/null && echo $p; done; : )"
    result = await environment.run(command, timeout=15.0)
    return frozenset(result.output.split())


def _absent(wanted: tuple[str, ...], present: frozenset[str] | None) -> list[str]:
    return [] if present is None else [name for name in wanted if name not in present]


def _usual(need: Needs, present: Present) -> str:
    programs = _absent(need.programs, present.programs)
    keys = _absent(need.variables, present.variables)
    told = [f"install {' and '.join(programs)} in the environment"] if programs else []
    told += [f"set it: hermes config set {key} <value>" for key in keys]
    return "; ".join(told)
