"""The types for the result of a command analysis."""

from collections.abc import Callable
from typing import Literal

from hermes.core.actions import READ_ONLY_EFFECTS
from hermes.core.messages import Value

CommandEffect = Literal[
    "read",
    "read-as-root",
    "network-local",
    "network-read",
    "network-out",
    "secret-read",
    "write",
    "delete",
    "irreversible",
    "service-change",
    "privilege",
    "exec-dynamic",
    "unknown",
    "self-change",
    "wipe",
    "fork-bomb",
]

READING_EFFECTS: frozenset[str] = READ_ONLY_EFFECTS
"""Looking, and nothing else. Anything beyond this is held unless a rule says otherwise."""

ALWAYS_DENIED_EFFECTS: frozenset[str] = frozenset({"wipe", "fork-bomb", "self-change"})
"""Effects that no policy and no exception can allow. All of them are irreversible."""

RETURNED_EFFECTS: frozenset[str] = frozenset({"secret-read", "network-out", "wipe", "fork-bomb"})
"""What is judged of a command in a copy of the host: secrets in its output, other hosts, and what
is denied everywhere. Whatever else it changes stays in the copy, also our own files."""

_UNREADABLE_EFFECTS = frozenset({"exec-dynamic", "unknown"})
"""What a command with these reads is not known before it runs."""

PathLookup = Callable[[str], str]
"""Resolves the symlinks of an absolute path; returns the path itself if there are none."""


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


class CommandTarget(Value, frozen=True):
    """The target that a wrapper or verb names; empty for this environment."""

    host: str = ""
    container: str = ""
    namespace: str = ""
    context: str = ""
    service: str = ""


class SimpleCommand(Value, kw_only=True, frozen=True):
    """One program with its words, without wrappers and shell syntax."""

    program: str
    argv: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Every path it names, resolved. `…` stands for parts that are known only at run time."""
    changes: tuple[str, ...] = ()
    """The paths that it would write or delete."""
    repositories: tuple[str, ...] = ()
    """Folders whose git repository it changes."""
    effects: frozenset[str] = frozenset()
    via: tuple[str, ...] = ()
    folder: str = ""
    """Where it runs, if wrappers could have chosen that."""
    node: tuple[int, int] = (0, 0)
    """Byte range in the text; for a nested shell, that of the outermost command."""
    why: tuple[str, ...] = ()
    """One line for each effect, `effect: reason`."""
    target: CommandTarget = CommandTarget()
    captured: bool = False
    """What it prints becomes words or variables of other commands."""


class CommandAnalysis(Value, kw_only=True, frozen=True):
    """All commands of one shell text, and their effects."""

    commands: tuple[SimpleCommand, ...] = ()
    effects: frozenset[str] = frozenset()
    dynamic: tuple[str, ...] = ()
    """Why parts of it are known only at run time."""
    variables: tuple[str, ...] = ()
    """Environment variables whose values decide its meaning."""
    problems: tuple[str, ...] = ()
    """Why it could not be analysed; each problem makes it `exec-dynamic`."""

    @property
    def is_read_only(self) -> bool:
        """True when it only reads."""
        return self.effects <= READING_EFFECTS

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for command in self.commands for path in command.paths))

    @property
    def changes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for command in self.commands for path in command.changes))

    @property
    def unknown_reads(self) -> str:
        """Why it may print what its text does not name; empty when all that it reads is known."""
        if found := (*self.dynamic, *self.problems):
            return found[0]
        if self.effects & _UNREADABLE_EFFECTS:
            return "what it reads is known only when it runs"
        changed = [path.rstrip("/") for path in self.changes]
        for command in self.commands:
            if command.effects <= READING_EFFECTS and any(
                f"{path}/".startswith(f"{each}/") for path in command.paths for each in changed
            ):
                return f"{command.program} reads what it has changed itself"
        return ""
