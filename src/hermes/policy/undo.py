"""How a deed could be taken back, where that is known for certain; else it says that it is not."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

NONE = "no undo known"
_OPERATORS = re.compile(r"[;&|<>`$(){}\n*?\\]")
_PAIRS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "systemctl": (("stop", "start"), ("enable", "disable"), ("mask", "unmask")),
    "service": (("stop", "start"),),
    "docker": (("stop", "start"), ("pause", "unpause")),
    "podman": (("stop", "start"), ("pause", "unpause")),
    "kubectl": (("cordon", "uncordon"),),
}
"""Programs whose verbs come in pairs: the other one takes it back."""


def undo_of(tool: str, command: str) -> str:
    """For one plain command only: of several, or of what the shell would still change, nothing
    is promised."""
    if tool in ("write_file", "patch"):
        return f"{NONE}: what the file holds now is not kept"
    if not command or _OPERATORS.search(command):
        return NONE
    try:
        words = shlex.split(command)
    except ValueError:
        return NONE
    lead: list[str] = []
    if words[:1] == ["sudo"]:
        lead, words = ["sudo"], words[1:]
    if len(words) < 2 or words[0].startswith("-"):
        return NONE
    found = _paired(words) or _known(words)
    if isinstance(found, str):
        return found or NONE
    return shlex.join([*lead, *found])


def _paired(words: Sequence[str]) -> list[str]:
    """With the verb replaced, where it stands where a verb stands."""
    plain = [at for at, word in enumerate(words) if at and not word.startswith("-")]
    if words[0] == "service" or words[1] in ("compose", "container"):
        plain = plain[1:]
    if not plain:
        return []
    at = plain[0]
    for there, back in _PAIRS.get(words[0], ()):
        other = {there: back, back: there}.get(words[at])
        if other:
            return [*words[:at], other, *words[at + 1 :]]
    return []


def _known(words: Sequence[str]) -> list[str] | str:
    verbs = " ".join(word for word in words[1:3] if not word.startswith("-"))
    for pattern, way in _WAYS.get(words[0], ()):
        if re.match(pattern, verbs):
            return way(words)
    return ""


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _move_back(words: Sequence[str]) -> str:
    names = _plain(words[1:])
    if len(names) != 2 or any(word.startswith("-t") or "target" in word for word in words):
        return ""
    back = shlex.join(["mv", names[1], names[0]])
    return f"{back} (if {names[1]} is not there yet)"


def _made_folder(words: Sequence[str]) -> list[str] | str:
    names = _plain(words[1:])
    return ["rmdir", *names] if list(words[1:]) == names else ""


def _made_link(words: Sequence[str]) -> list[str] | str:
    names = _plain(words[1:])
    simple = len(names) == 2 and words[1] == "-s" and len(words) == 4
    return ["unlink", names[1]] if simple else ""


def _roll_back_release(words: Sequence[str]) -> list[str] | str:
    names = _plain(words[2:])
    return ["helm", "rollback", names[0]] if names else ""


def _roll_back(words: Sequence[str]) -> list[str]:
    return [*words[:1], "rollout", "undo", *words[3:]]


def _said(text: str) -> Callable[[Sequence[str]], list[str] | str]:
    return lambda words: text


def _swap(at: int, there: str, back: str) -> Callable[[Sequence[str]], list[str] | str]:
    def way(words: Sequence[str]) -> list[str] | str:
        return [*words[:at], back, *words[at + 1 :]] if words[at] == there else ""

    return way


_MODE = "by hand, with the mode and owner as `stat` shows them now"
_SCALE = "scale back to the number of replicas that `kubectl get` shows now"

_WAYS: Mapping[str, tuple[tuple[str, Callable[[Sequence[str]], list[str] | str]], ...]] = {
    "mv": (("", _move_back),),
    "mkdir": (("", _made_folder),),
    "ln": (("", _made_link),),
    "chmod": (("", _said(_MODE)),),
    "chown": (("", _said(_MODE)),),
    "chgrp": (("", _said(_MODE)),),
    "kubectl": (
        ("scale", _said(_SCALE)),
        ("rollout restart", _roll_back),
        ("rollout pause", _swap(2, "pause", "resume")),
        ("rollout resume", _swap(2, "resume", "pause")),
    ),
    "helm": (("upgrade", _roll_back_release),),
    "git": (
        ("commit$|commit ", _said("git reset --soft HEAD~1")),
        ("add ", _said("git restore --staged, with the same files")),
        ("stash$|stash push", _said("git stash pop")),
        ("merge ", _said("git reset --merge ORIG_HEAD, before anything else is done")),
        ("switch ", _said("git switch -")),
    ),
    "iptables": (("", _swap(1, "-A", "-D")),),
    "ip6tables": (("", _swap(1, "-A", "-D")),),
}
