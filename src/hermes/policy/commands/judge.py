"""Finds the judge of a program: a function of its own, or its entry in the tables."""

import re

from hermes.policy.commands import specials, tables
from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, settled, shown
from hermes.policy.commands.values import word_set

_ASKS = (["--help"], ["--version"])
_HELPS = (["--help"], ["-help"])


def judge(call: Call) -> str:
    """Mark what a command does; gives what it would print."""
    entry = tables.program(call.program)
    if entry is None:
        if "exec-dynamic" not in call.effects:
            call.mark("unknown", f"{shown(call.program)} is not known")
        _mention(call)
        return ANY
    if _asks(call, entry):
        call.mark("read", f"{call.program} only tells about itself")
        return ANY
    if call.program in _SUBSCRIPTED and any(_SUBSCRIPT.search(word) for word in call.argv):
        call.dynamic("a subscript that the shell runs as code")
    if entry.spec.special:
        return specials.JUDGES[entry.spec.special](call, entry) or ANY
    return by_table(call, entry) or ANY


def _asks(call: Call, entry: tables.Program) -> bool:
    """`rm --help`, `kubectl delete --help`: but what follows `exec` belongs to another program."""
    words = call.argv[1:]
    if words in _ASKS:
        return call.program not in _REPEATS
    if entry.spec.verbs and words[1:] in _HELPS and settled(words[0]) and words[0][:1].isalpha():
        return words[1:] == ["--help"] or entry.spec.single
    verbal = entry.spec.verbs and words[-1:] == ["--help"] and "--" not in words
    return bool(verbal) and not _CARRIERS & set(words) and all(map(settled, words))


_SUBSCRIPTED = word_set("test [ declare typeset local export readonly read printf unset let")
_SUBSCRIPT = re.compile(r"\[.*(?:\$\(|`)", re.S)
_REPEATS = frozenset({"echo", "printf", "yes", ":", "true", "false", "test", "[", "eval", "expr"})
_CARRIERS = frozenset(
    {"exec", "run", "debug", "create", "compose", "rsh", "ssh", "rebase", "bisect"}
)


def _mention(call: Call) -> None:
    """Paths that an unknown program is given."""
    for word in call.argv[1:]:
        if settled(word) and "/" in word:
            call.reads(word.partition("=")[2] if word.startswith("-") else word)
