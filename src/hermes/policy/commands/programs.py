"""Which program a word names: bare, absolute, dotted, versioned, or in disguise."""

import re
from posixpath import basename, dirname

from hermes.policy.commands import tables
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import GLOB, UNKNOWN, shown

_VERSIONED = re.compile(
    r"(python|pypy|perl|ruby|php|lua|node|nodejs|pip|gcc|g\+\+|clang|java|bash|ksh|zsh|tclsh|wish"
    r"|guile|psql|pg_dump|vim|gdb|clickhouse|scala|irb|gem|erl|julia|R|octave|luajit|idle|pydoc)"
    r"[-.]?\d[\d.]*[a-z]?\Z"
)


def name_of(call: Call) -> str:
    """The program's plain name; marks the call when nobody can tell which program it is."""
    word = call.argv[0]
    if not word or UNKNOWN.search(word):
        call.dynamic("which program runs is only known at run time")
        return shown(word)
    if GLOB.search(word):
        call.dynamic(f"{shown(word)} is whatever program the wildcard finds")
        return shown(word)
    if not word.isascii():
        call.dynamic(f"{word} is no name of a program, it only looks like one")
        return word
    if call.disputed:
        call.dynamic("which program runs depends on a variable")
    return _plain(_at_path(call, word) if "/" in word else word)


def _at_path(call: Call, word: str) -> str:
    path = call.path(word)
    places = call.analyst.places
    if path.startswith("/etc/init.d/") and dirname(path) == "/etc/init.d":
        call.argv = ["service", basename(path), *call.argv[1:]]
        return "service"
    real = places.real(path)
    if places.trusted_folder(dirname(path)):
        target = basename(real)
        return target if target != basename(path) and _known(target) else basename(path)
    call.mark("unknown", f"{shown(word)} is not one of the system's programs")
    return basename(path)


def _known(name: str) -> bool:
    return tables.program(_plain(name)) is not None


def _plain(name: str) -> str:
    """The name that the tables use."""
    if tables.program(name) is None and (versioned := _VERSIONED.match(name)):
        return versioned.group(1)
    return name
