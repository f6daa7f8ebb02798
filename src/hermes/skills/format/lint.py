"""Looks over a skill's folder: the rules of the format, and what will trip its readers."""

import re
from collections.abc import Iterator
from pathlib import Path

from hermes.skills.format.digest import MOST_BYTES, MOST_FILES, files_of
from hermes.skills.format.places import Mistake
from hermes.skills.format.problem import Problem
from hermes.skills.format.skill_text import KEYS, OLDER, breaches, read_skill, split

SKILL = "SKILL.md"
_OWN = r"`((?:scripts|references|assets)/[^`\s]+)`"
_LINK = re.compile(rf"\]\((?!https?:|#|mailto:)([^)\s]+)\)|{_OWN}")


def lint_folder(folder: Path) -> list[Problem]:
    """Everything about SKILL.md and what lies beside it; the playbook has a linter of its own."""
    file = folder / SKILL
    if not file.is_file():
        return [Problem(str(file), 1, "a skill is a folder with a SKILL.md, and there is none")]
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        found = [
            Problem(str(file), line, cause, fatal) for line, cause, fatal in _text(text, folder)
        ]
    except Mistake as mistake:
        return [Problem(str(file), mistake.line, str(mistake))]
    return [*found, *_files(folder)]


def _text(text: str, folder: Path) -> Iterator[tuple[int, str, bool]]:
    document, body, first = split(text)
    data = document.data
    if not isinstance(data, dict):
        raise Mistake(2, "front matter is made of `key: value` lines")
    for key in ("name", "description"):
        if not isinstance(data.get(key), str):
            yield document.line(key), f"{key} is missing, or no text", True
    for key in data:
        if key in OLDER:
            yield document.line(key), f"{key} is the older way: put it under metadata", False
        elif key not in KEYS:
            yield document.line(key), f"{key} is not a key of the format", False
    skill = read_skill(text, folder=folder.name)
    for cause in breaches(skill):
        yield document.line(cause.split()[0].strip(":")), cause, True
    if skill.name != folder.name:
        cause = f"it is called {skill.name!r}, its folder {folder.name!r}"
        yield document.line("name"), cause, True
    yield from _body(body, first, folder)


def _body(body: str, first: int, folder: Path) -> Iterator[tuple[int, str, bool]]:
    if not body.strip():
        yield first, "there is nothing to read below the front matter", True
    for number, line in enumerate(body.splitlines(), first):
        for one, two in _LINK.findall(line):
            path = (one or two).partition("#")[0]
            target = (folder / path).resolve()
            if not target.is_relative_to(folder.resolve()):
                yield number, f"{path} lies outside of the skill", True
            elif not target.exists():
                yield number, f"there is no {path} in the skill", True


def _files(folder: Path) -> Iterator[Problem]:
    size = count = 0
    for path in folder.rglob("*"):
        if path.is_symlink():
            yield Problem(str(path), 1, "a link is not taken along with a skill")
    for path in files_of(folder):
        size, count = size + path.stat().st_size, count + 1
    if size > MOST_BYTES or count > MOST_FILES:
        limit = f"{MOST_FILES} files of {MOST_BYTES >> 20} MiB in all"
        yield Problem(str(folder), 1, f"too much: at most {limit}")
