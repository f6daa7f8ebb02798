"""`find` and `fd`: an expression in which some words delete, write or run."""

import re
from itertools import pairwise

from hermes.policy.commands.calls import Call
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, LOOSE, NAME, STAR, globbed, leads, settled, shown
from hermes.policy.commands.tables import Program
from hermes.policy.commands.values import word_set

_RUNNING = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITING = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})


def find(call: Call, entry: Program) -> str:
    """Roots first, then the expression."""
    words = call.argv[1:]
    call.flags = tuple(word for word in words if word.startswith("-"))
    roots = _roots(words)
    for root in roots:
        call.names(root)
    call.mark("read", "find looks for files")
    if any(leads(word) for word in words) or LOOSE in words or call.doubtful:
        call.dynamic("a word only known at run time may be -delete or -exec")
    _expression(call, words, roots)
    return "\n".join(_below(root, _names(words)) for root in roots) + "\n"


def _roots(words: list[str]) -> list[str]:
    roots = []
    for word in words:
        if word in ("-H", "-L", "-P") or word.startswith("-O"):
            continue
        if word.startswith("-") or word in ("(", "!", ")"):
            break
        roots.append(word)
    return roots or ["."]


def _expression(call: Call, words: list[str], roots: list[str]) -> None:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "-delete":
            for root in roots:
                call.deletes(
                    _below(root, _names(words)),
                    recursive=_whole(words),
                    why=f"find -delete below {shown(root)}",
                )
        elif word in _WRITING and at < len(words):
            call.writes(words[at])
        elif word in ("-files0-from",):
            call.dynamic("find takes its roots from a file")
        elif word in _RUNNING:
            end = next((i for i in range(at, len(words)) if words[i] in (";", "+")), len(words))
            for root in roots:
                below = _below(root, _names(words))
                call.run([one.replace("{}", below) for one in words[at:end]])
            at = end


def _below(root: str, end: str) -> str:
    return f"{root.rstrip('/')}/{end}"


def _names(words: list[str]) -> str:
    """What the files found are called, as far as the expression says."""
    if _whole(words):
        return STAR
    for word, value in pairwise(words):
        if word in ("-name", "-iname") and settled(value):
            return f"{NAME}/{globbed(value)}"
    return NAME


def _whole(words: list[str]) -> bool:
    """Whether nothing narrows it to some files."""
    pairs = zip(words, [*words[1:], ""], strict=True)
    return not any(word in _NARROWING and value not in ("*", "*.*", "?*") for word, value in pairs)


_NARROWING = word_set(
    "-name -iname -path -ipath -regex -iregex -mtime -mmin -size -empty -newer -user -ctime -atime"
    " -amin -cmin -maxdepth -perm -inum -lname -nouser"
)


def fd(call: Call, entry: Program) -> str:
    """`fd -x cmd` runs, the rest only looks."""
    words = call.argv[1:]
    cut = next((i for i, word in enumerate(words) if _FD_RUNNING.match(word)), None)
    if cut is None:
        by_table(call, entry)
        return NAME
    roots = [word for word in words[:cut] if word[:1] in "/~."]
    call.run([*words[cut + 1 :], *(f"{root.rstrip('/')}/{STAR}" for root in roots), NAME])
    return ANY


_FD_RUNNING = re.compile(r"-[A-Za-z]*[xX]\Z|--exec(?:-batch)?(?:=|\Z)")
