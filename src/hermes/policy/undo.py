"""Finds the command that undoes an action, where it is known for certain."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from hermes.core.actions import Action, Decision, Policy, PolicyWrapper
from hermes.policy.rules.rule import PolicyVerdict

NO_UNDO = "no undo known"
_OPERATORS = re.compile(r"[;&|<>`$(){}\n*?\\]")
_OPPOSITE_VERBS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "systemctl": (("stop", "start"), ("enable", "disable"), ("mask", "unmask")),
    "service": (("stop", "start"),),
    "rc-service": (("stop", "start"),),
    "supervisorctl": (("stop", "start"),),
    "sv": (("stop", "start"),),
    "pm2": (("stop", "start"),),
    "docker": (("stop", "start"), ("pause", "unpause")),
    "podman": (("stop", "start"), ("pause", "unpause")),
    "kubectl": (("cordon", "uncordon"),),
}
"""Programs with pairs of opposite verbs."""


def find_undo(tool: str, command: str) -> str:
    """Guess the undo of one plain command; not of several, or of one with shell expansions."""
    if tool in ("write_file", "patch"):
        return f"{NO_UNDO}: what the file holds now is not kept"
    if not command or _OPERATORS.search(command):
        return NO_UNDO
    try:
        words = shlex.split(command)
    except ValueError:
        return NO_UNDO
    lead: list[str] = []
    if words[:1] == ["sudo"]:
        lead, words = ["sudo"], words[1:]
    if len(words) < 2 or words[0].startswith("-"):
        return NO_UNDO
    found = _opposite_command(words) or _build_undo(words)
    if isinstance(found, str):
        return found or NO_UNDO
    return shlex.join([*lead, *found])


def _opposite_command(words: Sequence[str]) -> list[str]:
    """The command with its verb replaced, if it has one in the right position."""
    plain = [at for at, word in enumerate(words) if at and not word.startswith("-")]
    if words[0] in ("service", "rc-service") or words[1] in ("compose", "container"):
        plain = plain[1:]
    if not plain:
        return []
    at = plain[0]
    for there, back in _OPPOSITE_VERBS.get(words[0], ()):
        other = {there: back, back: there}.get(words[at])
        if other:
            return [*words[:at], other, *words[at + 1 :]]
    return []


def _build_undo(words: Sequence[str]) -> list[str] | str:
    verbs = " ".join(word for word in words[1:3] if not word.startswith("-"))
    for pattern, way in _UNDO_BUILDERS.get(words[0], ()):
        if re.match(pattern, verbs):
            return way(words)
    return ""


def _plain_words(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _undo_move(words: Sequence[str]) -> str:
    names = _plain_words(words[1:])
    if len(names) != 2 or any(word.startswith("-t") or "target" in word for word in words):
        return ""
    back = shlex.join(["mv", names[1], names[0]])
    return f"{back} (if {names[1]} is not there yet)"


def _undo_mkdir(words: Sequence[str]) -> list[str] | str:
    names = _plain_words(words[1:])
    return ["rmdir", *names] if list(words[1:]) == names else ""


def _undo_link(words: Sequence[str]) -> list[str] | str:
    names = _plain_words(words[1:])
    simple = len(names) == 2 and words[1] == "-s" and len(words) == 4
    return ["unlink", names[1]] if simple else ""


def _undo_helm_release(words: Sequence[str]) -> list[str] | str:
    names = _plain_words(words[2:])
    return ["helm", "rollback", names[0]] if names else ""


def _undo_rollout(words: Sequence[str]) -> list[str]:
    return [*words[:1], "rollout", "undo", *words[3:]]


def _advice(text: str) -> Callable[[Sequence[str]], list[str] | str]:
    return lambda words: text


def _swap_verb(at: int, there: str, back: str) -> Callable[[Sequence[str]], list[str] | str]:
    def way(words: Sequence[str]) -> list[str] | str:
        return [*words[:at], back, *words[at + 1 :]] if words[at] == there else ""

    return way


_MODE_ADVICE = "by hand, with the mode and owner as `stat` shows them now"
_SCALE_ADVICE = "scale back to the number of replicas that `kubectl get` shows now"

_UNDO_BUILDERS: Mapping[str, tuple[tuple[str, Callable[[Sequence[str]], list[str] | str]], ...]] = {
    "mv": (("", _undo_move),),
    "mkdir": (("", _undo_mkdir),),
    "ln": (("", _undo_link),),
    "chmod": (("", _advice(_MODE_ADVICE)),),
    "chown": (("", _advice(_MODE_ADVICE)),),
    "chgrp": (("", _advice(_MODE_ADVICE)),),
    "kubectl": (
        ("scale", _advice(_SCALE_ADVICE)),
        ("rollout restart", _undo_rollout),
        ("rollout pause", _swap_verb(2, "pause", "resume")),
        ("rollout resume", _swap_verb(2, "resume", "pause")),
    ),
    "helm": (("upgrade", _undo_helm_release),),
    "git": (
        ("commit$|commit ", _advice("git reset --soft HEAD~1")),
        ("add ", _advice("git restore --staged, with the same files")),
        ("stash$|stash push", _advice("git stash pop")),
        ("merge ", _advice("git reset --merge ORIG_HEAD, before anything else is done")),
        ("switch ", _advice("git switch -")),
    ),
    "iptables": (("", _swap_verb(1, "-A", "-D")),),
    "ip6tables": (("", _swap_verb(1, "-A", "-D")),),
}


class KnownUndoPolicy(PolicyWrapper):
    """Shows the known undo command with a decision. `known` is by call id."""

    def __init__(self, policy: Policy, known: Mapping[str, str]) -> None:
        super().__init__(policy)
        self._known = known

    def decide(self, action: Action) -> Decision:
        decision, undo = self._policy.decide(action), self._known.get(action.call.id, "")
        return replace(decision, undo=undo) if isinstance(decision, PolicyVerdict) else decision
