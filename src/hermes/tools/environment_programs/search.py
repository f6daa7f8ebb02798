"""Searches a folder where there is neither ripgrep nor grep. Prints what `grep --null` would."""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path


def walk_files(path: str) -> Iterator[str]:
    if not Path(path).is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            yield folder.rstrip("/") + "/" + name


def matches_globs(path: str, globs: list[str]) -> bool:
    return not globs or any(
        fnmatch.fnmatch(path, "*/" + glob)
        if "/" in glob
        else fnmatch.fnmatch(path.rpartition("/")[2], glob)
        for glob in globs
    )


def read_lines(path: str) -> list[bytes]:
    try:
        with Path(path).open("rb") as file:
            if b"\0" in file.read(8192):
                return []
            file.seek(0)
            return file.read().splitlines()
    except OSError:
        return []


def search_content(pattern: str, path: str, context: int, globs: list[str]) -> Iterator[bytes]:
    matches = re.compile(os.fsencode(pattern)).search
    for name in walk_files(path):
        if not matches_globs(name, globs):
            continue
        lines = read_lines(name)
        found = [number for number, line in enumerate(lines) if matches(line)]
        shown = {n for hit in found for n in range(hit - context, hit + context + 1)}
        for number in sorted(n for n in shown if 0 <= n < len(lines)):
            mark = b":" if number in found else b"-"
            yield os.fsencode(name) + b"\0%d" % (number + 1) + mark + lines[number] + b"\n"


def list_names(pattern: str, path: str) -> Iterator[bytes]:
    matches = re.compile(pattern, re.IGNORECASE).search
    for name in walk_files(path):
        line = name.replace("\n", "\1")
        if matches(line):
            yield os.fsencode(line) + b"\n"


def main() -> None:
    kind, pattern, path, context = sys.argv[1:5]
    if kind == "names":
        records = list_names(pattern, path)
    else:
        records = search_content(pattern, path, int(context), sys.argv[5:])
    for record in records:
        sys.stdout.buffer.write(record)


if __name__ == "__main__":
    main()
