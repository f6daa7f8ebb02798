"""How the tests of the gate ask: one command, the effects that matter."""

from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.effects import CommandAnalysis

HOME = "/home/u"
OWN = (f"{HOME}/.hermes/policies", f"{HOME}/.hermes/journal.db")


def read(command: str, cwd: str = "/srv/app") -> CommandAnalysis:
    found = analyse_command(command, cwd=cwd, home=HOME, own_paths=OWN)
    assert not any("itself failed" in problem for problem in found.problems), found.problems
    return found


def cases(text: str) -> list[str]:
    """One case a line; ⏎ is a line break inside a case."""
    return [line.replace("⏎", "\n") for line in text.strip("\n").split("\n")]


def effects(command: str) -> set[str]:
    return set(read(command).effects)


def beyond(command: str) -> set[str]:
    """Effects that are more than looking."""
    return effects(command) - {"read", "read-as-root", "network-local", "network-read"}
