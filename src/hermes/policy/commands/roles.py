"""What the words of a command are: files to read or write, names, code, another command."""

import re
from collections.abc import Callable

from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import shown
from hermes.policy.commands.options import Arguments
from hermes.policy.commands.tables import Program


def unread_code(call: Call, value: str, where: str) -> None:
    call.dynamic(f"{call.program} {shown(where)} runs code that is not read here")
    if call.analyst.places.mentions_ours(value):
        call.own(value)


def apply_words(call: Call, entry: Program, words: list[str], found: Arguments) -> None:
    role = entry.spec.args
    if role in ("runs", "shell"):
        _peel(call, found, role)
        return
    work = _ROLES.get(role, _words_said)
    work(call, words)


def _peel(call: Call, found: Arguments, role: str) -> None:
    if not found.rest:
        # The words that usually stand before the command may have been left out.
        if found.words:
            call.run(found.words)
        return
    if role == "shell":
        call.shell(" ".join(found.rest))
    else:
        call.run(found.rest)


def words_read(call: Call, words: list[str]) -> None:
    for word in words:
        call.reads(word)


def _words_said(call: Call, words: list[str]) -> None:
    """Words that are no files for all the table knows; a secret's name is one all the same."""
    for word in words:
        path = word.lstrip("@")
        if path[:1] in ("/", "~") and call.analyst.places.secret(call.path(path)):
            call.reads(path)


def _words_named(call: Call, words: list[str]) -> None:
    for word in words:
        call.names(word)


def _words_written(call: Call, words: list[str]) -> None:
    for word in words:
        call.writes(word)


def _words_deleted(call: Call, words: list[str]) -> None:
    for word in words:
        call.deletes(word)


def _last_written(call: Call, words: list[str]) -> None:
    words_read(call, words[:-1])
    _words_written(call, words[-1:])


def _second_written(call: Call, words: list[str]) -> None:
    words_read(call, words[:1])
    _words_written(call, words[1:])


def _after_first(call: Call, words: list[str]) -> None:
    given = any(flag in ("-e", "-f", "--regexp", "--file", "--files") for flag in call.flags)
    words_read(call, words if given else words[1:])


def _filtered(call: Call, words: list[str]) -> None:
    """A filter expression looks like a path; only what surely is a file is read."""
    for word in words:
        if word.startswith(("/", "~", "./", "../")) or word == words[-1]:
            call.reads(word if len(words) > 1 or word[:1] in "/~" else "./-")


def _started(call: Call, words: list[str]) -> None:
    """Files for a pager, among which `+command` runs at the start."""
    for word in words:
        if not word.startswith("+"):
            call.reads(word)
        elif not re.fullmatch(r"\+\+?(?:[GFgN]|\d+|/[^!|]*)", word):
            call.dynamic(f"{call.program} {shown(word)} runs a command of the pager")


def _first_is_script(call: Call, words: list[str]) -> None:
    if words:
        call.dynamic(f"runs {shown(words[0])}, whose content is not read here")
        words_read(call, words)


def _all_code(call: Call, words: list[str]) -> None:
    for word in words:
        unread_code(call, word, shown(word)[:20])


_ROLES: dict[str, Callable[[Call, list[str]], None]] = {
    "reads": words_read,
    "names": _words_named,
    "writes": _words_written,
    "deletes": _words_deleted,
    "dest": _last_written,
    "second": _second_written,
    "pattern": _after_first,
    "filter": _filtered,
    "pager": _started,
    "script": _first_is_script,
    "code": _all_code,
}
