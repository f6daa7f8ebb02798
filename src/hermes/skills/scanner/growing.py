"""Texts that are not what they seem to whoever loads them: they grow, or are code in disguise."""

import codecs
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hermes.skills.scanner.finding import Finding

MOST = 50_000
"""As many things a file may say once its repetitions are written out."""
MOST_ANCHORS = 300
_ANCHOR = re.compile(r"(?<![\w\"'])&([A-Za-z_][\w-]*)(?=[\s\[{]|$)", re.MULTILINE)
_ALIAS = re.compile(r"(?<![\w\"'*])\*([A-Za-z_][\w-]*)(?=[\s,\]}]|$)", re.MULTILINE)
_ENTITY = re.compile(r"<!ENTITY\b", re.IGNORECASE)
_COOKIE = re.compile(r"\A(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN = re.compile(r"utf-?8(?:-sig)?|ascii|iso-?8859-?\d+|latin-?1|cp125\d|koi8-[ru]", re.I)
_DEEP = re.compile(r"[\[{(](?:[\[{(\s]){400}")


def look_for_growth(path: str, text: str) -> Iterator[Finding]:
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix in (".yaml", ".yml") and grown(text) > MOST:
        yield _found(path, "a few lines that grow without measure when they are loaded")
    if suffix in (".xml", ".svg", ".html", ".xhtml", ".plist", ".xsl") and _ENTITY.search(text):
        yield _found(path, "it defines entities, which grow or bring in other files when loaded")
    if _DEEP.search(text):
        yield _found(path, "nested so deeply that it breaks whoever loads it")
    declared = _COOKIE.match(text)
    if declared and not _readable(declared[1]):
        cause = f"Python reads it as {declared[1]!r}: what looks like a remark may be code"
        yield _found(path, cause)


def grown(text: str) -> int:
    """How many words there are once every alias is replaced by what it stands for."""
    marks = list(_ANCHOR.finditer(text))
    if len(marks) > MOST_ANCHORS:
        return MOST + 1
    sizes: dict[str, int] = {}
    for mark in marks:
        inside = text[mark.end() : _end(text, mark.start())]
        sizes[mark[1]] = len(inside.split()) + sum(
            sizes.get(each[1], 0) for each in _ALIAS.finditer(inside)
        )
    return sum(sizes.get(each[1], 0) for each in _ALIAS.finditer(text))


def _end(text: str, start: int) -> int:
    """Where the thing that begins on this line ends: the next line that is indented no deeper."""
    begin = text.rfind("\n", 0, start) + 1
    depth = len(text[begin:]) - len(text[begin:].lstrip(" "))
    rest = re.compile(rf"\n {{0,{depth}}}[^\s]").search(text, start)
    return rest.start() if rest else len(text)


def _readable(name: str) -> bool:
    try:
        return bool(_PLAIN.fullmatch(codecs.lookup(name).name))
    except LookupError:
        return False


def _found(path: str, cause: str) -> Finding:
    return Finding(kind="structure", file=path, line=1, cause=cause)
