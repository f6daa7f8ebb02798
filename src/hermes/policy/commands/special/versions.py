"""git: configuration on the command line runs programs, refspecs with a plus overwrite history."""

import re
from collections.abc import Callable

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, literal, settled, shown
from hermes.policy.commands.options import Grammar, split
from hermes.policy.commands.tables import Program
from hermes.policy.commands.values import word_set

_HARMLESS = re.compile(
    r"(?i)(?:color|advice|user\.(?:name|email)|core\.(?:quotepath|autocrlf|abbrev|pager=(?:cat)?$)"
    r"|log\.|diff\.(?:renames|color|context)|safe\.directory|init\.defaultbranch|http\.(?:sslverify|timeout)"
    r"|pull\.rebase|gc\.auto|column|status\.|branch\.sort|grep\.linenumber|blame)"
)


def git(call: Call, entry: Program) -> str:
    found = split(call.argv[1:], entry.grammar)
    # Behind the verb the same letters mean something else.
    before = split(call.argv[1:], Grammar(entry.grammar.values, stops=1, at_once=True))
    if before.has("-p", "--paginate"):
        call.dynamic("git -p opens a pager, and out of that a shell")
    for setting in before.values("-c", "--config-env"):
        _set(call, setting)
    for folder in before.values("-C"):  # each one starts from the one before
        call.scope = call.scope.copy()
        call.scope.cwd = call.path(folder)
        call.names(folder)
    by_table(call, entry)
    verb, words = (found.words[0], found.words[1:]) if found.words else ("", [])
    if judge := _VERBS.get(verb):
        judge(call, words)
    if {"write", "delete"} & set(call.effects) and verb not in _ONLY_OUTPUT:
        for folder in (".", *before.values("--git-dir", "--work-tree")):
            call.repositories += call.analyst.places.both(call.path(folder))
    if verb in _UNPACKING:
        call.scope.unpacked.add(call.scope.cwd)
    if any(re.match(r"ext::", word) for word in words):
        call.dynamic("ext:: is a transport that runs a command")
    if found.loose and not _is_reading(call):
        call.dynamic("a word only known at run time may be an option of git")
    return ANY


def _set(call: Call, setting: str) -> None:
    if not _HARMLESS.match(setting) or not settled(setting):
        call.dynamic(f"git -c {shown(setting)} can run a program")
        if "!" in setting or "ommand" in setting or "pager" in setting:
            call.shell(setting.partition("=")[2].lstrip("!"))


def _is_reading(call: Call) -> bool:
    return set(call.effects) <= {"read"}


def _worktree(call: Call, words: list[str]) -> None:
    if words[:1] == ["add"]:
        for word in words[1:2]:
            call.writes(word, "git checks out a tree there")


def _fetch(call: Call, words: list[str]) -> None:
    forced = {"-f", "--force"} & set(call.flags) or any(word.startswith("+") for word in words[1:])
    if forced:
        call.mark("delete", "git fetch overwrites branches, whatever they held")


def _push(call: Call, words: list[str]) -> None:
    for word in words:
        if word.startswith("+"):
            call.irreversible(f"git push {shown(word)} overwrites history")
        if word.startswith(":"):
            call.mark("delete", f"git push {shown(word)} removes a branch")
            call.irreversible(f"git push {shown(word)} removes a branch")


_LISTING = word_set(
    "-l --list -a -r --all --contains --merged --no-merged -v -vv --points-at --show-current -n"
    " --sort --format --verify"
)


def _named(call: Call, words: list[str]) -> None:
    """`git branch x` and `git tag x` make one, unless they were asked to list."""
    if words and not _LISTING & set(call.flags):
        call.mark("write", f"git names {shown(words[0])}")
    if {"-f", "--force", "-M", "-C"} & set(call.flags):
        call.mark("delete", "git moves a name away from what it stood for")


_READING = frozenset({"--get", "--list", "-l", "--get-all", "--get-regexp", "--show-origin",
                      "--get-urlmatch", "--name-only", "--show-scope"})  # fmt: skip


def _config(call: Call, words: list[str]) -> None:
    flags = set(call.flags)
    values = [word for word in words if word not in ("list", "get")]
    reading = flags & _READING or words[:1] in (["list"], ["get"]) or len(values) == 1
    if reading and not flags & {"--unset", "--unset-all", "--add", "--replace-all", "-e", "--edit"}:
        call.effects.pop("write", None)
        call.mark("read", "git config tells")
        return
    call.mark("write", "git config changes settings")
    if not _HARMLESS.match(values[0] if values else "x"):
        call.dynamic(f"git config {shown(literal(values[0])) if values else ''} can run a program")


_VERBS: dict[str, Callable[[Call, list[str]], None]] = {
    "branch": _named,
    "config": _config,
    "fetch": _fetch,
    "push": _push,
    "tag": _named,
    "worktree": _worktree,
}
_ONLY_OUTPUT = word_set("log diff show")
"""Verbs that write nothing but the file that an option names."""
_UNPACKING = word_set("clone checkout pull switch worktree submodule restore")


def github(call: Call, entry: Program) -> str:
    """`gh api` is a request of any kind."""
    found = split(call.argv[1:], entry.grammar)
    by_table(call, entry)
    if found.words[:1] == ["api"]:
        method = (found.value("-X", "--method") or "GET").upper()
        if method != "GET" or found.has("-f", "-F", "--field", "--raw-field", "--input"):
            call.mark("network-out", f"gh api {shown(method)}")
            call.mark("write", f"gh api {shown(method)}")
    return ANY
