"""The program `patch`: the files that it reads may be named by its input alone."""

import re

from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.placeholders import ANY_WORD, is_fully_known
from hermes.policy.commands.tables import ProgramEntry, parse_arguments
from hermes.policy.programs.table_effects import apply_table

_NAMED_FILE = re.compile(
    r"(?m)^(?:---|\+\+\+|\*\*\*|Index:|diff --git|(?:rename|copy) (?:from|to)) +(.+?)\s*$"
)
_SHOWING_OPTIONS = ("-o", "--output", "-r", "--reject-file", "--dry-run", "-C", "--verbose", "-D")
"""With these it prints or copies lines of a file without changing it."""
_MAX_STRIPPED_FOLDERS = 8


def patch(call: ProgramCall, entry: ProgramEntry) -> str:
    apply_table(call, entry)
    found = parse_arguments(call.argv[1:], entry.grammar)
    folder = found.value("-d", "--directory") or "."
    for word in found.words[:1]:
        call.reads(f"{folder}/{word}" if folder != "." and not word.startswith("/") else word)
    if found.words:
        return ANY_WORD
    given = found.value("-i", "--input") or "-"
    text = call.stdin if given == "-" else None
    if text is not None and is_fully_known(text):
        for name in dict.fromkeys(_NAMED_FILE.findall(text)):
            _mark_named_file(call, folder, name)
    elif found.has(*_SHOWING_OPTIONS):
        call.mark("secret-read", "patch shows lines of files that only its input names")
    return ANY_WORD


def _mark_named_file(call: ProgramCall, folder: str, name: str) -> None:
    """`-p` removes leading folders, so each end of the path may be the file."""
    for each in name.split("\t")[0].split():
        parts = each.split("/")
        for at in range(min(len(parts), _MAX_STRIPPED_FOLDERS)):
            end = "/".join(parts[at:])
            call.reads(end if at == 0 and end.startswith("/") else f"{folder}/{end}")
