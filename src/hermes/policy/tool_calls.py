"""What each tool's arguments mean, before any command in them is read.

Files are put as the command that would do the same (`cat`, `tee`), so that one reader knows all
about paths, symlinks, secrets and our own files.
"""

import re
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import Risk, Value
from hermes.policy.deed import Step

_BY_RISK: Mapping[Risk, frozenset[str]] = {
    Risk.READ: frozenset({"read"}),
    Risk.CHANGE: frozenset({"write", "unknown"}),
    Risk.DESTROY: frozenset({"delete", "unknown"}),
}
_DECLARED: Mapping[Risk, frozenset[str]] = {
    Risk.READ: frozenset(),
    Risk.CHANGE: frozenset({"write"}),
    Risk.DESTROY: frozenset({"delete"}),
}
_SHELLS = re.compile(r"\s*(?:/(?:usr/)?bin/)?(?:ba|da|z|k|a|fi)?sh(?:\s+-[il]+)*\s*")
_LINE_EDITING = re.compile(r"[^\x20-\x7e\t\n\xa0-\U0010ffff]")
_DIFF_NAME = re.compile(r"^(?:---|\+\+\+) (.+?)\s*$", re.MULTILINE)


class Intent(Value, kw_only=True, frozen=True):
    """A command to be read, or effects that need no reading, or both."""

    command: str = ""
    shown: str = ""
    """What people see in place of a command that we made up."""
    workdir: str = ""
    effects: frozenset[str] = frozenset()
    """Effects on top of what the command says."""
    why: tuple[str, ...] = ()
    declared: frozenset[str] = frozenset()
    """What the tool says of itself, for a command that somebody else rendered."""

    def step(self) -> Step:
        return Step(node=self.shown, effects=self.effects, why=self.why)


def intent_of(action: Action, home: str, pending: str = "", receiver: str = "") -> Intent:
    """`pending` is what was typed into the same process and not yet sent off with Enter."""
    name, arguments = action.call.name, action.call.arguments
    known = _TOOLS.get(name)
    if known is not None:
        intent = known(arguments, home)
    elif name == "process":
        intent = _process(arguments, pending, receiver)
    elif name == "execute_code":
        intent = _code(arguments, isolated=action.isolated)
    else:
        intent = _foreign(action)
    return msgspec.structs.replace(intent, declared=_DECLARED[action.risk])


def _terminal(arguments: Mapping[str, Any], home: str) -> Intent:
    command, workdir = arguments.get("command"), arguments.get("workdir") or ""
    if not isinstance(command, str) or not isinstance(workdir, str):
        return _odd("terminal")
    return Intent(command=command, shown="" if command else "nothing", workdir=_in(home, workdir))


def _read_file(arguments: Mapping[str, Any], home: str) -> Intent:
    return _files("cat", "read", [arguments.get("path")], home)


def _search_files(arguments: Mapping[str, Any], home: str) -> Intent:
    path = arguments.get("path", ".")
    if arguments.get("kind") == "names":
        return _files("ls", "search", [path], home)
    return _files("grep -r x", "search", [path], home)


def _write_file(arguments: Mapping[str, Any], home: str) -> Intent:
    return _files("tee", "write", [arguments.get("path")], home)


def _patch(arguments: Mapping[str, Any], home: str) -> Intent:
    path, diff = arguments.get("path", ""), arguments.get("diff", "")
    named = [path] if path else []
    if isinstance(diff, str):
        for name in dict.fromkeys(_DIFF_NAME.findall(diff)):
            plain = name.partition("\t")[0]
            named += [plain, plain[2:]] if plain[:2] in ("a/", "b/") else [plain]
    return _files("tee", "patch", [each for each in named if each != "/dev/null"], home)


_TOOLS: Mapping[str, Callable[[Mapping[str, Any], str], Intent]] = {
    "terminal": _terminal,
    "read_file": _read_file,
    "search_files": _search_files,
    "write_file": _write_file,
    "patch": _patch,
}


def _files(program: str, verb: str, paths: list[Any], home: str) -> Intent:
    if not paths or not all(isinstance(path, str) and path for path in paths):
        return _odd(verb)
    command = " ".join([program, "--", *(quote(_in(home, path)) for path in paths)])
    return Intent(command=command, shown=f"{verb} {' '.join(paths)}")


def _process(arguments: Mapping[str, Any], pending: str, receiver: str) -> Intent:
    match arguments.get("action"):
        case "list" | "poll" | "log" | "wait":
            return Intent(shown="look at a process", effects=frozenset({"read"}))
        case "kill":
            why = ("service-change: ends a background process",)
            return Intent(shown="kill", effects=frozenset({"service-change"}), why=why)
        case "write" | "submit":
            return _typing(pending + str(arguments.get("data", "")), receiver)
        case _:
            return _odd("process")


def _typing(text: str, receiver: str) -> Intent:
    """Only a plain shell reads its input the way we do; anything else may do anything with it."""
    if _SHELLS.fullmatch(receiver) and not _LINE_EDITING.search(text):
        return Intent(command=text, shown="" if text.strip() else "type nothing")
    why = ("exec-dynamic: typed into a program that may run it",)
    return Intent(command=text, effects=frozenset({"exec-dynamic"}), why=why, shown=f"type {text}")


def _code(arguments: Mapping[str, Any], *, isolated: bool) -> Intent:
    shown = str(arguments.get("code", ""))
    if isolated:
        return Intent(shown=shown, effects=frozenset({"write"}))
    why = ("exec-dynamic: a program is only known when it runs",)
    return Intent(shown=shown, effects=frozenset({"exec-dynamic"}), why=why)


def _foreign(action: Action) -> Intent:
    why = (f"unknown: all we know of {action.call.name} is its risk, {action.risk.value}",)
    return Intent(
        shown=action.call.name,
        effects=_BY_RISK[action.risk],
        why=why if action.risk is not Risk.READ else (),
    )


def _odd(what: str) -> Intent:
    why = ("unknown: its arguments are not what the tool takes",)
    return Intent(shown=what, effects=frozenset({"unknown"}), why=why)


def _in(home: str, path: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
