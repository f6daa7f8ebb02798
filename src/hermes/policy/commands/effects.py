"""What a command would do, as typed values: the half of an Action that is read from its text."""

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
"""What no file and no exception may lift. Each of these is irreversible too."""

PathLookup = Callable[[str], str]
"""Follows symlinks of an absolute path; gives the path itself when there is nothing to follow."""


def word_set(text: str) -> frozenset[str]:
    """A set of words, written as one reads them."""
    return frozenset(text.split())


class CommandTarget(Value, frozen=True):
    """Where a wrapper or verb says that it acts; empty means here."""

    host: str = ""
    container: str = ""
    namespace: str = ""
    context: str = ""
    service: str = ""


class SimpleCommand(Value, kw_only=True, frozen=True):
    """One program with its words, after everything around it was peeled away."""

    program: str
    argv: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    """Every path it names, resolved. `…` stands for what is only known at run time."""
    changes: tuple[str, ...] = ()
    """Those of the paths that it would write or delete."""
    repositories: tuple[str, ...] = ()
    """Folders in which it changes the git repository they belong to."""
    effects: frozenset[str] = frozenset()
    via: tuple[str, ...] = ()
    node: tuple[int, int] = (0, 0)
    """Bytes of the text it was read from; for a nested shell, those of the outermost command."""
    why: tuple[str, ...] = ()
    """One line an effect, `effect: reason`."""
    target: CommandTarget = CommandTarget()


class CommandAnalysis(Value, kw_only=True, frozen=True):
    """All commands of one shell string and what they add up to."""

    commands: tuple[SimpleCommand, ...] = ()
    effects: frozenset[str] = frozenset()
    dynamic: tuple[str, ...] = ()
    """Why parts of it are only known at run time."""
    variables: tuple[str, ...] = ()
    """Variables of the environment whose values decide what it means."""
    problems: tuple[str, ...] = ()
    """What kept us from reading it properly; each of them makes it `exec-dynamic`."""

    @property
    def is_read_only(self) -> bool:
        """True when it only looks."""
        return self.effects <= READING_EFFECTS

    @property
    def always_denied(self) -> frozenset[str]:
        return self.effects & ALWAYS_DENIED_EFFECTS

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for command in self.commands for path in command.paths))

    @property
    def changes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for command in self.commands for path in command.changes))
