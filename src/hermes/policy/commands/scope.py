"""The state of one shell as far as the text of a command tells it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hermes.policy.commands.marks import ANY, NAME, REFERENCES
from hermes.policy.commands.values import word_set

Bound = str | tuple[str, ...]
"""The value of a variable, or of an array."""

_NUMBERS = word_set("? $ ! # - PPID UID EUID RANDOM SECONDS BASHPID LINENO SHLVL COLUMNS")
_NAMES = word_set(
    "USER LOGNAME HOSTNAME HOSTTYPE OSTYPE MACHTYPE TERM LANG SHELL EPOCHSECONDS EPOCHREALTIME"
    " BASH_VERSION XDG_RUNTIME_DIR"
)
_COUNTED = re.compile(rf"-?(?:\d+|{NAME})\Z")

Function = Callable[["Scope", str | None], str]
"""Walks the body of a shell function in a given state, with a given input."""


@dataclass
class Scope:
    """Variables, functions, aliases and the working folder; a subshell gets a copy."""

    home: str
    cwd: str
    variables: dict[str, Bound] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    """Positional parameters, when they are known."""
    wavering: frozenset[str] = frozenset()
    """Functions that were defined only if some condition held."""
    calls: tuple[str, ...] = ()
    """Functions being called, outermost first."""
    seen: set[str] = field(default_factory=set)
    """Variables of the environment that the text has put to use."""
    unpacked: set[str] = field(default_factory=set)
    """Folders into which an archive or a repository was unpacked, links and all."""
    associative: set[str] = field(default_factory=set)
    """Arrays whose subscripts are words, not arithmetic."""
    multiplying: bool = False
    """Inside a pipeline or a background job: calling oneself here is a fork bomb."""

    def copy(self) -> "Scope":
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
        )

    def elsewhere(self) -> "Scope":
        """A shell on another machine or in another container: nothing of ours is set there."""
        return Scope(home="~", cwd=ANY)

    def value(self, name: str) -> Bound | None:
        """What a variable holds; None when only the environment knows."""
        if name in self.variables:
            return self.variables[name]
        if name in REFERENCES:
            return REFERENCES[name]
        if name == "IFS":
            return " \t\n"
        if name == "HOME":
            return self.home
        if name == "PATH":
            return NAME
        if name == "PWD":
            return self.cwd
        if name in _NUMBERS or name in _NAMES:
            return NAME
        self.seen.add(name)
        return self._positional(name)

    def _positional(self, name: str) -> Bound | None:
        if self.arguments is None:
            return None
        if name in "@*":
            return self.arguments[1:]
        if name.isdigit():
            number = int(name)
            return self.arguments[number] if number < len(self.arguments) else ""
        return None

    def merge(self, other: "Scope") -> None:
        """Afterwards either this or the other happened: what differs is not known."""
        for name in self.variables.keys() | other.variables.keys():
            mine, others = self.value(name), other.value(name)
            if mine != others:
                self.variables[name] = NAME if _counted(mine) and _counted(others) else ANY
        if self.cwd != other.cwd:
            self.cwd = ANY
        differing = {
            name
            for name in self.functions.keys() | other.functions.keys()
            if self.functions.get(name) is not other.functions.get(name)
        }
        self.wavering |= other.wavering | differing
        self.functions = {**other.functions, **self.functions}
        self.aliases = {**other.aliases, **self.aliases}


def _counted(value: Bound | None) -> bool:
    """A number, whichever: either way it stays one."""
    return isinstance(value, str) and _COUNTED.match(value) is not None
