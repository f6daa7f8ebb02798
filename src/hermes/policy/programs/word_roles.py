"""What the words of a program are by its table: files it reads or writes, code, a command."""

import re
from collections.abc import Callable

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.placeholders import ANY_WORDS, LIVE_GLOB, display_text
from hermes.policy.commands.tables import ParsedArguments, ProgramEntry


def mark_unread_code(call: ProgramCall, value: str, where: str) -> None:
    call.dynamic(f"{call.program} {display_text(where)} runs code that is not read here")
    if call.analyst.classifier.mentions_own_file(value):
        call.own(value)


def apply_word_roles(
    call: ProgramCall, entry: ProgramEntry, words: list[str], found: ParsedArguments
) -> str:
    """Returns what the command that it runs prints, as far as it is known."""
    role = entry.spec.args
    if role in ("runs", "shell"):
        return _unwrap_command(call, found, role)
    work = _ROLE_HANDLERS.get(role, _mark_plain_words)
    work(call, words)
    return ""


def _unwrap_command(call: ProgramCall, found: ParsedArguments, role: str) -> str:
    if not found.rest:
        # The words that usually precede the command may be missing.
        return call.run(found.words) if found.words else ""
    return call.shell(" ".join(found.rest)) if role == "shell" else call.run(found.rest)


def mark_words_read(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        call.reads(word)


def _mark_plain_words(call: ProgramCall, words: list[str]) -> None:
    """Words that are no files by the table; but the name of a secret is still marked."""
    for word in words:
        path = word.lstrip("@")
        if path[:1] in ("/", "~") and call.analyst.classifier.is_secret(call.path(path)):
            call.reads(path)


def _mark_words_named(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        call.names(word)


def _mark_words_written(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        call.writes(word)


def _mark_words_deleted(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        call.deletes(word)


def _mark_last_written(call: ProgramCall, words: list[str]) -> None:
    mark_words_read(call, words[:-1])
    _mark_words_written(call, words[-1:])


def _mark_second_written(call: ProgramCall, words: list[str]) -> None:
    mark_words_read(call, words[:1])
    if words and (words[0] == ANY_WORDS or LIVE_GLOB.search(words[0])):
        call.dynamic(f"which file {call.program} writes is only known at run time")
    _mark_words_written(call, words[1:])


def _mark_after_first(call: ProgramCall, words: list[str]) -> None:
    given = any(flag in ("-e", "-f", "--regexp", "--file", "--files") for flag in call.flags)
    mark_words_read(call, words if given else words[1:])


def _mark_filter_words(call: ProgramCall, words: list[str]) -> None:
    """A filter expression looks like a path; only certain files are marked as read."""
    for word in words:
        if word.startswith(("/", "~", "./", "../")) or word == words[-1]:
            call.reads(word if len(words) > 1 or word[:1] in "/~" else "./-")


def _mark_pager_words(call: ProgramCall, words: list[str]) -> None:
    """Files for a pager; `+command` among them runs at the start."""
    for word in words:
        if not word.startswith("+"):
            call.reads(word)
        elif not re.fullmatch(r"\+\+?(?:[GFgN]|\d+|/[^!|]*)", word):
            call.dynamic(f"{call.program} {display_text(word)} runs a command of the pager")


def _mark_first_as_script(call: ProgramCall, words: list[str]) -> None:
    if words:
        call.dynamic(f"runs {display_text(words[0])}, whose content is not read here")
        mark_words_read(call, words)


def _mark_all_as_code(call: ProgramCall, words: list[str]) -> None:
    for word in words:
        mark_unread_code(call, word, display_text(word)[:20])


_ROLE_HANDLERS: dict[str, Callable[[ProgramCall, list[str]], None]] = {
    "reads": mark_words_read,
    "names": _mark_words_named,
    "writes": _mark_words_written,
    "deletes": _mark_words_deleted,
    "dest": _mark_last_written,
    "second": _mark_second_written,
    "pattern": _mark_after_first,
    "filter": _mark_filter_words,
    "pager": _mark_pager_words,
    "script": _mark_first_as_script,
    "code": _mark_all_as_code,
}
