"""Commands on another host or in a container: an allow list of plain reads.

Nothing confines a command there, and nothing refuses to open a file with secrets. So a command that
looks like a read is allowed only if its program is listed, prints the content only of files that
are known to be harmless, and prints no variable of that host.
"""

import re
from fnmatch import translate
from functools import cache

from hermes.policy.commands import tables
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import READING_EFFECTS, word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    UNTRUSTED_UNKNOWN,
    display_text,
    literal_text,
)
from hermes.policy.commands.tables import ProgramEntry

_NAME_PROGRAMS = word_set("find fd fdfind cd test [ [[ tar")
"""Beside those whose words are names by the tables: programs that print no content of files."""
_COUNT_OPTIONS = word_set(
    "-c -q -l -L --count --quiet --silent --files-with-matches --files-without-match"
)
_SEARCH_OPTION = re.compile(r"-[A-Za-z]*[rR]|--recursive|--dereference-recursive")
_LISTING_OPTIONS = re.compile(r"-?[vzjJa]*t[vzjJaf]*\Z|-[fvzjJa]\Z")
_FILE_WORD = re.compile(r"(?:[\w-]*[=@])?((?:/|~|\.{1,2}/).*)", re.S)
_VERSION_REQUESTS = (["--version"], ["-version"], ["--help"])
_UNKNOWN_FOLDER = f"{ANY_WORD}/"
"""Where a relative path on another host leads to."""
_VARIABLE_NAME = re.compile(r"\$\{?#?!?([A-Za-z_]\w*)")
_PUBLIC_VARIABLE = re.compile(
    r"HOSTNAME|HOME|PATH|USER|LOGNAME|SHELL|PWD|TERM|TZ|LANG|LC_\w+|\w+_(?:VERSION|PORT|HOST|ENV)"
)


def mark_remote_command(call: ProgramCall) -> None:
    """Marks a command on another host that is not one of the reads that are allowed there."""
    if not call.scope.unconfined:
        return
    if call.peeled is not None:  # what it runs is judged by itself, but it opens the input
        _mark_files(call, [path for path in call.contents if not _is_harmless(path)])
        return
    if not READING_EFFECTS.issuperset(call.effects):
        if {"write", "delete"} & call.effects.keys():
            call.mark("unknown", "where a path leads to on another host is not known")
        return
    if _prints_variables(call):
        call.mark("secret-read", "prints variables of another host, which may be secrets")
    entry = tables.find_program(call.program) if call.argv else None
    if call.argv[1:] in _VERSION_REQUESTS and entry is not None and not call.contents:
        return
    if call.argv and (entry is None or call.program not in _listed_programs()):
        call.mark(
            "secret-read" if call.contents else "unknown",
            f"{display_text(call.program)} is not one of the reads that are allowed on another"
            " host, where nothing confines it",
        )
        return
    _mark_files(call, _shown_files(call, entry))


def _mark_files(call: ProgramCall, files: list[str]) -> None:
    for path in files:
        call.mark(
            "secret-read",
            f"{display_text(path)} may hold secrets, and nothing refuses to open it on another"
            " host",
        )


@cache
def _listed_programs() -> frozenset[str]:
    return frozenset(tables.path_lists()["remote_programs"])


@cache
def _harmless_files() -> re.Pattern[str]:
    return re.compile("|".join(map(translate, tables.path_lists()["remote_files"])))


def _prints_variables(call: ProgramCall) -> bool:
    words = call.argv[1:]
    if call.program in ("env", "set", "export", "declare", "typeset", "local", "readonly"):
        return not any("=" in word for word in words)
    if call.program == "printenv":
        return not words or not all(map(_PUBLIC_VARIABLE.fullmatch, words))
    if call.program == "[":  # its words are those of the text
        named = {name for word in words for name in _VARIABLE_NAME.findall(word)}
        return not all(map(_PUBLIC_VARIABLE.fullmatch, named - call.scope.variables.keys()))
    if call.program.endswith("awk") and any("ENVIRON" in word for word in words):
        return True
    return bool(call.scope.used_variables)


def _shown_files(call: ProgramCall, entry: ProgramEntry | None) -> list[str]:
    """The files whose content it may print, without those that are known to be harmless."""
    words = [display_text(word) for word in call.argv[1:]]
    searches = entry is not None and entry.searches_files(words)
    if searches and any(map(_SEARCH_OPTION.match, words)):
        inside = bool(call.contents) and all(map(_is_below_logs, call.contents))
        return [] if inside else call.contents or [call.program]
    if searches:
        return [*words]
    if call.program == "tar":
        listing = [word for word in words if _LISTING_OPTIONS.match(word)]
        return [] if listing and len(words) - len(listing) == 1 else words
    if entry is not None and (entry.spec.args == "names" or call.program in _NAME_PROGRAMS):
        return []
    named = [*call.contents]
    if entry is not None and entry.spec.args == "text" and entry.spec.opens != "nothing":
        found = filter(None, map(_FILE_WORD.fullmatch, call.argv[1:]))
        named += [call.path(each[1]) for each in found]
    if _counts(call):
        return [path for path in named if UNTRUSTED_UNKNOWN.search(path)]
    return [path for path in named if not _is_harmless(path)]


def _counts(call: ProgramCall) -> bool:
    searches = call.program.endswith("grep")
    return call.program == "wc" or (searches and not _COUNT_OPTIONS.isdisjoint(call.flags))


def _is_below_logs(path: str) -> bool:
    return path.startswith(("/var/log/", "/usr/share/")) and not UNTRUSTED_UNKNOWN.search(path)


def _is_harmless(path: str) -> bool:
    unknown = UNTRUSTED_UNKNOWN.search(path.removeprefix(_UNKNOWN_FOLDER))
    return not unknown and _harmless_files().match(literal_text(path)) is not None
