"""Reads a unified diff as models write them: line numbers are hints, what counts is the text."""

import re
from collections.abc import Iterator

from hermes.core.errors import ToolError
from hermes.core.messages import Value

_HEADER = re.compile(r"@@(?:[ @]*-(\d+))?")


class Hunk(Value, frozen=True):
    old: str
    new: str
    line: int = 0
    """Where it says it begins; 0 when it does not say."""


class FileDiff(Value, frozen=True):
    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False


def parse(diff: str, path: str = "") -> list[FileDiff]:
    """Every file of a diff; `path` names the file of a diff without file names."""
    files: list[FileDiff] = []
    for start, head, hunks in _sections(diff.replace("\r\n", "\n").split("\n")):
        name, creates = _names(head, path, start)
        if not hunks:
            raise ToolError(f"line {start} of the diff: {name} has no hunk (a line with @@)")
        files.append(FileDiff(name, tuple(_hunk(*hunk) for hunk in hunks), creates))
    if not files:
        raise ToolError("the diff is empty: it needs ---, +++ and @@ lines")
    if len({file.path for file in files}) < len(files):
        raise ToolError("the diff names a file twice: put all its hunks under one header")
    return files


_Section = tuple[int, tuple[str, str] | None, list[tuple[int, str, list[str]]]]


def _sections(lines: list[str]) -> Iterator[_Section]:
    """Per file: where it starts, its two names, and its hunks as (line, header, body)."""
    section: _Section | None = None
    for number, line in enumerate(lines, start=1):
        after = lines[number] if number < len(lines) else ""
        if line.startswith("--- ") and after.startswith("+++ "):
            if section:
                yield section
            section = (number, (line[4:], after[4:]), [])
        elif line.startswith("+++ ") and section and not section[2]:
            continue
        elif _HEADER.match(line):
            section = section or (number, None, [])
            section[2].append((number, line, []))
        elif line.startswith("diff --git "):
            if section:
                yield section
            section = None
        elif section and section[2]:
            section[2][-1][2].append(line)
    if section:
        yield section


def _names(head: tuple[str, str] | None, path: str, start: int) -> tuple[str, bool]:
    if head is None:
        if not path:
            raise ToolError(f"line {start} of the diff: a hunk without a file; give path as well")
        return path, False
    before, after = (name.split("\t")[0].strip() for name in head)
    if after == "/dev/null":
        raise ToolError(f"the diff deletes {before}; patch does not, use terminal for that")
    if before == "/dev/null":
        return after.removeprefix("b/"), True
    if before.startswith("a/") and after.startswith("b/"):
        before, after = before[2:], after[2:]
    if before != after:
        raise ToolError(f"the diff renames {before} to {after}; patch does not, use terminal")
    return after, False


def _hunk(number: int, header: str, body: list[str]) -> Hunk:
    while body and not body[-1]:
        body.pop()  # the blank lines before the next header
    sides: dict[str, list[str]] = {"-": [], "+": []}
    last = ""
    for offset, line in enumerate(body, start=1):
        mark, text = line[:1] or " ", line[1:]
        if mark == "\\":
            for side in sides if last == " " else last:
                sides[side][-1] = sides[side][-1].removesuffix("\n")
            continue
        if mark not in " -+":
            raise ToolError(
                f"line {number + offset} of the diff begins with {mark!r}; each line of a hunk "
                "begins with a space, - or +"
            )
        for side in sides if mark == " " else mark:
            sides[side].append(f"{text}\n")
        last = mark
    old, new = "".join(sides["-"]), "".join(sides["+"])
    if old == new:
        raise ToolError(f"line {number} of the diff: this hunk changes nothing")
    match = _HEADER.match(header)
    return Hunk(old, new, int(match[1] or 0) if match else 0)
