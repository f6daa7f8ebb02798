"""Translates the arguments of each tool into a command or effects.

A file access becomes the command that would do the same (`cat`, `tee`), so that one reader handles
paths, symlinks, secrets and our own files.
"""

import re
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import Risk, Value
from hermes.policy.actions.action_effects import ActionStep
from hermes.policy.actions.remote_calls import is_remote, judge_remote_call

_EFFECTS_BY_RISK: Mapping[Risk, frozenset[str]] = {
    Risk.READ: frozenset({"read"}),
    Risk.CHANGE: frozenset({"write", "unknown"}),
    Risk.DESTROY: frozenset({"delete", "unknown"}),
}
_DECLARED_EFFECTS_BY_RISK: Mapping[Risk, frozenset[str]] = {
    Risk.READ: frozenset(),
    Risk.CHANGE: frozenset({"write"}),
    Risk.DESTROY: frozenset({"delete"}),
}
_SHELL_PROGRAM = re.compile(r"\s*(?:/(?:usr/)?bin/)?(?:ba|da|z|k|a|fi)?sh(?:\s+-[il]+)*\s*")
_CONTROL_CHARACTER = re.compile(r"[^\x20-\x7e\t\n\xa0-\U0010ffff]")
_LIVE = re.compile(r"(\*+|\?|\[[\w!^.-]+\]|[{},])")
"""What in a glob stands for other characters."""
_DIFF_FILE_NAME = re.compile(r"^(?:---|\+\+\+) (.+?)\s*$", re.MULTILINE)
COPY_TOOL = "try_on_copy"
"""The tool whose commands run in a copy of the host."""


class ToolIntent(Value, kw_only=True, frozen=True):
    """A command to be read, or effects that need no reading, or both."""

    command: str = ""
    shown: str = ""
    """Shown to people instead of a generated command."""
    workdir: str = ""
    effects: frozenset[str] = frozenset()
    """Effects in addition to those of the command."""
    why: tuple[str, ...] = ()
    reversible: bool = False
    """Whether people declared it as a change of a service in a request of a configured system."""
    declared: frozenset[str] = frozenset()
    """Effects that the tool declares, for a command from a template."""

    def step(self) -> ActionStep:
        return ActionStep(
            node=self.shown, effects=self.effects, why=self.why, reversible=self.reversible
        )


def read_intent(action: Action, home: str, pending: str = "", receiver: str = "") -> ToolIntent:
    """`pending` was typed into the same process without Enter."""
    name, arguments = action.call.name, action.call.arguments
    known = _INTENT_READERS.get(name)
    if known is not None and not is_remote(action):
        intent = known(arguments, home)
    elif name == "process":
        intent = _process_intent(arguments, pending, receiver)
    elif name == "execute_code":
        intent = _code_intent(arguments, isolated=action.isolated)
    elif is_remote(action):
        shown, effects, why = judge_remote_call(action)
        declared = action.request is not None and action.request.configured
        intent = ToolIntent(shown=shown, effects=effects, why=why, reversible=declared)
    else:
        intent = _unknown_tool_intent(action)
    return msgspec.structs.replace(intent, declared=_DECLARED_EFFECTS_BY_RISK[action.risk])


def _terminal_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    command, workdir = arguments.get("command"), arguments.get("workdir") or ""
    if not isinstance(command, str) or not isinstance(workdir, str):
        return _invalid_intent("terminal")
    return ToolIntent(
        command=command, shown="" if command else "nothing", workdir=_resolve_in(home, workdir)
    )


def _read_file_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    return _file_intent("cat", "read", [arguments.get("path")], home)


def _search_files_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    path = arguments.get("path", ".")
    if arguments.get("kind") == "names":
        return _file_intent("ls", "search", [path], home)
    intent = _file_intent("grep -r x", "search", [path], home)
    glob = arguments.get("glob") or ""
    if not intent.command or not glob:
        return intent
    if not isinstance(glob, str):
        return _invalid_intent("search")
    # What the glob picks in any folder below is read, as by `cat` with the same wildcards.
    below = "".join(
        each if at % 2 or not each else quote(each) for at, each in enumerate(_LIVE.split(glob))
    )
    reads = f"cat -- {quote(_resolve_in(home, path).rstrip('/'))}/{below}"
    return msgspec.structs.replace(intent, command=f"{intent.command}; {reads}")


def _write_file_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    return _file_intent("tee", "write", [arguments.get("path")], home)


def _patch_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    path, diff = arguments.get("path", ""), arguments.get("diff", "")
    named = [path] if path else []
    if isinstance(diff, str):
        for name in dict.fromkeys(_DIFF_FILE_NAME.findall(diff)):
            plain = name.partition("\t")[0].strip()
            named += [plain, plain[2:]] if plain[:2] in ("a/", "b/") else [plain]
    intent = _file_intent("tee", "patch", [each for each in named if each != "/dev/null"], home)
    if not intent.command:
        return intent
    # It shows the lines around a change, and those that resemble a passage that it does not find.
    reads = f"cat{intent.command.removeprefix('tee')}"
    return msgspec.structs.replace(intent, command=f"{reads}; {intent.command}")


def _copy_intent(arguments: Mapping[str, Any], home: str) -> ToolIntent:
    """Each command has a shell of its own: what one leaves open must not hide the next."""
    commands = arguments.get("commands")
    if not isinstance(commands, list | tuple) or not all(
        isinstance(each, str) for each in commands
    ):
        return _invalid_intent(COPY_TOOL)
    command = "; ".join(f"bash -c {quote(each)}" for each in commands)
    return ToolIntent(command=command, shown="" if command else "nothing")


_INTENT_READERS: Mapping[str, Callable[[Mapping[str, Any], str], ToolIntent]] = {
    "terminal": _terminal_intent,
    "read_file": _read_file_intent,
    "search_files": _search_files_intent,
    "write_file": _write_file_intent,
    "patch": _patch_intent,
    COPY_TOOL: _copy_intent,
}


def _file_intent(program: str, verb: str, paths: list[Any], home: str) -> ToolIntent:
    if not paths or not all(isinstance(path, str) and path for path in paths):
        return _invalid_intent(verb)
    command = " ".join([program, "--", *(quote(_resolve_in(home, path)) for path in paths)])
    return ToolIntent(command=command, shown=f"{verb} {' '.join(paths)}")


def _process_intent(arguments: Mapping[str, Any], pending: str, receiver: str) -> ToolIntent:
    match arguments.get("action"):
        case "list" | "poll" | "log" | "wait":
            return ToolIntent(shown="look at a process", effects=frozenset({"read"}))
        case "kill":
            why = ("service-change: ends a background process",)
            return ToolIntent(shown="kill", effects=frozenset({"service-change"}), why=why)
        case "write" | "submit":
            return _typing_intent(pending + str(arguments.get("data", "")), receiver)
        case _:
            return _invalid_intent("process")


def _typing_intent(text: str, receiver: str) -> ToolIntent:
    """Only the input of a plain shell can be analysed; any other program may do anything."""
    if _SHELL_PROGRAM.fullmatch(receiver) and not _CONTROL_CHARACTER.search(text):
        return ToolIntent(command=text, shown="" if text.strip() else "type nothing")
    why = ("exec-dynamic: typed into a program that may run it",)
    return ToolIntent(
        command=text, effects=frozenset({"exec-dynamic"}), why=why, shown=f"type {text}"
    )


def _code_intent(arguments: Mapping[str, Any], *, isolated: bool) -> ToolIntent:
    shown = str(arguments.get("code", ""))
    if isolated:
        return ToolIntent(shown=shown, effects=frozenset({"write"}))
    why = ("exec-dynamic: a program is only known when it runs",)
    return ToolIntent(shown=shown, effects=frozenset({"exec-dynamic"}), why=why)


def _unknown_tool_intent(action: Action) -> ToolIntent:
    why = (f"unknown: all we know of {action.call.name} is its risk, {action.risk.value}",)
    return ToolIntent(
        shown=action.call.name,
        effects=_EFFECTS_BY_RISK[action.risk],
        why=why if action.risk is not Risk.READ else (),
    )


def _invalid_intent(what: str) -> ToolIntent:
    why = ("unknown: its arguments are not what the tool takes",)
    return ToolIntent(shown=what, effects=frozenset({"unknown"}), why=why)


def _resolve_in(home: str, path: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path
