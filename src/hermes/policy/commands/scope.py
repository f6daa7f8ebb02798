"""The state of one shell, as far as it is known from the text of a command."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    ONE_OF_SEVERAL,
    PLACEHOLDER_VARIABLES,
    SYSTEM_NAME,
)

VariableValue = str | tuple[str, ...]
"""The value of a variable, or of an array."""

_NUMERIC_VARIABLES = word_set("? $ ! # - PPID UID EUID RANDOM SECONDS BASHPID LINENO SHLVL COLUMNS")
_SYSTEM_NAME_VARIABLES = word_set(
    "USER LOGNAME HOSTNAME HOSTTYPE OSTYPE MACHTYPE TERM LANG SHELL EPOCHSECONDS EPOCHREALTIME"
    " BASH_VERSION XDG_RUNTIME_DIR"
)
_STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NUMBER_VALUE = re.compile(rf"-?(?:\d+|{SYSTEM_NAME})\Z")

ShellFunction = Callable[["ShellScope", str | None], str]
"""Analyses the body of a shell function in a given state, with a given input."""


@dataclass
class ShellScope:
    """Variables, functions, aliases and the working folder; a subshell gets a copy."""

    home: str
    cwd: str
    variables: dict[str, VariableValue] = field(default_factory=dict)
    functions: dict[str, ShellFunction] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    """Positional parameters, if known."""
    uncertain_functions: frozenset[str] = frozenset()
    """Functions that were defined conditionally."""
    calls: tuple[str, ...] = ()
    """Functions being called, outermost first."""
    outer_variables: dict[str, VariableValue] = field(default_factory=dict)
    """Those of the caller, when the function began."""
    local_names: set[str] = field(default_factory=set)
    """Variables of the function alone."""
    used_variables: set[str] = field(default_factory=set)
    """Environment variables that the text uses."""
    content_tests: set[str] = field(default_factory=set)
    """Tests of content that is only known at run time; shared with all copies."""
    unpacked: set[str] = field(default_factory=set)
    """Folders into which an archive or a repository, possibly with links, was unpacked."""
    associative: set[str] = field(default_factory=set)
    """Arrays whose subscripts are words, not arithmetic."""
    integers: set[str] = field(default_factory=set)
    """Variables with the attribute -i: what is assigned to them is arithmetic."""
    multiplying: bool = False
    """In a pipeline or a background job: a recursive call here is a fork bomb."""

    unconfined: bool = False
    """On another machine or in a container, where nothing confines commands."""
    ignores_defaults: bool = False
    """`${x:-value}` counts as unknown: an earlier command may have set the variable."""
    trapped: set[str] = field(default_factory=set)
    """Variables that the text of a trap uses, which runs later; shared with all copies."""

    def copy(self) -> "ShellScope":
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
            associative=set(self.associative),
            integers=set(self.integers),
            local_names=set(self.local_names),
        )

    def for_call(self, name: str, arguments: tuple[str, ...]) -> "ShellScope":
        """The state in which a function begins."""
        inner = self.copy()
        inner.arguments, inner.calls = arguments, (*self.calls, name)
        inner.outer_variables, inner.local_names = self.variables, set()
        return inner

    def declare_local(self, name: str) -> None:
        """Not a variable that the function has set before: that one was the caller's."""
        if self.variables.get(name) == self.outer_variables.get(name):
            self.local_names.add(name)

    def return_from(self, inner: "ShellScope") -> None:
        """Take over what a function may have changed."""
        for name in inner.local_names:
            inner.variables.pop(name, None)
            if name in self.variables:
                inner.variables[name] = self.variables[name]
        inner.integers -= inner.local_names - self.integers
        inner.arguments, inner.local_names = self.arguments, self.local_names
        self.merge(inner)

    def for_other_machine(self) -> "ShellScope":
        """The state of a shell on another machine or in a container: nothing is set there."""
        return ShellScope(home="~", cwd=ANY_WORD, unconfined=True)

    def value(self, name: str) -> VariableValue | None:
        """The value of a variable; None when it comes from the environment."""
        if name in self.variables:
            value = self.variables[name]
            if self.ignores_defaults and any(ONE_OF_SEVERAL in text for text in value):
                return ANY_WORD
            return value
        if name in PLACEHOLDER_VARIABLES:
            return PLACEHOLDER_VARIABLES[name]
        if name == "IFS":
            return " \t\n"
        if name == "HOME":
            return self.home
        if name == "PATH":
            return _STANDARD_PATH
        if name == "PWD":
            return self.cwd
        if name in _NUMERIC_VARIABLES or name in _SYSTEM_NAME_VARIABLES:
            return SYSTEM_NAME
        self.used_variables.add(name)
        return self._positional(name)

    def sets_any(self, names: Iterable[str]) -> bool:
        """Return whether one of the names is a variable whose value is no number."""
        held = (self.variables[name] for name in names if name in self.variables)
        return not all(map(_is_number, held))

    def _positional(self, name: str) -> VariableValue | None:
        if self.arguments is None:
            return None
        if name in "@*":
            return self.arguments[1:]
        if name.isdigit():
            number = int(name)
            if ANY_WORDS in self.arguments[1 : number + 1]:  # so many words that any may be here
                return ANY_WORD
            return self.arguments[number] if number < len(self.arguments) else ""
        return None

    def merge(self, other: "ShellScope") -> None:
        """Either this or the other state applies afterwards: what differs is unknown."""
        for name in self.variables.keys() | other.variables.keys():
            mine, others = self.value(name), other.value(name)
            if mine != others:
                self.variables[name] = (
                    SYSTEM_NAME if _is_number(mine) and _is_number(others) else ANY_WORD
                )
        if self.cwd != other.cwd:
            self.cwd = ANY_WORD
        self.associative &= other.associative
        self.local_names &= other.local_names
        self.integers |= other.integers
        if self.arguments != other.arguments:
            self.arguments = ("bash", ANY_WORDS)
        differing = {
            name
            for name in self.functions.keys() | other.functions.keys()
            if self.functions.get(name) is not other.functions.get(name)
        }
        self.uncertain_functions |= other.uncertain_functions | differing
        self.functions = {**other.functions, **self.functions}
        self.aliases = {**other.aliases, **self.aliases}


def _is_number(value: VariableValue | None) -> bool:
    """Return whether a value is a number, known or not."""
    return isinstance(value, str) and _NUMBER_VALUE.match(value) is not None
