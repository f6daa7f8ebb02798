"""From a shell string to a typed description of what it would do. Pure and synchronous.

`analyse` never says "nothing found" when it could not look: text that cannot be parsed, is too
long, or was made to deceive has the effect `exec-dynamic`, which asks.
"""

from collections.abc import Iterable, Sequence

from hermes.policy.commands import guards
from hermes.policy.commands.paths import Places
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.syntax import Misread
from hermes.policy.commands.values import (
    FLOOR,
    PLAIN,
    Analysis,
    Effect,
    Lookup,
    SimpleCommand,
    Target,
)
from hermes.policy.commands.walker import Walker
from hermes.policy.commands.walking import TooMuch

__all__ = [
    "FLOOR", "PLAIN", "Analysis", "Effect", "Lookup", "SimpleCommand", "Target", "analyse",
]  # fmt: skip


def analyse(
    command: str,
    *,
    cwd: str = "/",
    home: str = "~",
    lookup: Lookup | None = None,
    own_paths: Sequence[str] = (),
) -> Analysis:
    """What a shell string would do in a working folder.

    `lookup` follows symlinks; `own_paths` are our policy, audit and configuration files, absolute.
    """
    problems = dict.fromkeys(guards.suspicious(command))
    if why := guards.unreadable(command):
        return _conclude({}, {**problems, why: None})
    try:
        text = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _conclude({}, {**problems, "bytes that are no text": None})
    walker = Walker(Places(home, tuple(own_paths), lookup, cwd))
    scope = Scope(home=home, cwd=cwd)
    if not guards.private(command):
        try:
            walker.start(text, scope)
        except (TooMuch, Misread) as lost:
            walker.problem(str(lost))
        except RecursionError:
            walker.problem("nested too deeply to be read")
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration) as bug:
            # A fault of ours must ask: it may neither allow the command nor stop the caller.
            walker.problem(f"the reader itself failed: {bug!r}")
    return _conclude(walker.found, {**problems, **walker.problems}, scope.seen)


def _conclude(
    found: dict[SimpleCommand, None], problems: dict[str, None], variables: Iterable[str] = ()
) -> Analysis:
    effects = frozenset(effect for command in found for effect in command.effects)
    if problems:
        effects |= {"exec-dynamic"}
    lines = (line for command in found for line in command.why)
    dynamic = dict.fromkeys(
        line.removeprefix("exec-dynamic: ") for line in lines if line.startswith("exec-dynamic: ")
    )
    return Analysis(
        commands=tuple(found),
        effects=effects or frozenset({"read"}),
        dynamic=(*problems, *dynamic),
        variables=tuple(sorted(variables)),
        problems=tuple(problems),
    )
