"""Looks over a skill's folder: the rules of the format, and what will trip its readers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.skills.format.skill_folder import (
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SharedSnippets,
    list_skill_files,
)
from hermes.skills.format.skill_text import (
    FRONT_MATTER_KEYS,
    LEGACY_FRONT_MATTER_KEYS,
    find_format_violations,
    parse_skill_text,
    split_front_matter,
)
from hermes.skills.format.yaml_document import SkillProblem, YamlFileError
from hermes.skills.playbook.reader import PLAYBOOK_FILE, find_changing_probes, parse_playbook

SKILL_FILE = "SKILL.md"
_OWN_FILE_PATTERN = r"`((?:scripts|references|assets)/[^`\s]+)`"
_FILE_LINK = re.compile(rf"\]\((?!https?:|#|mailto:)([^)\s]+)\)|{_OWN_FILE_PATTERN}")


def lint_skill_folder(folder: Path) -> list[SkillProblem]:
    """Everything about SKILL.md and what lies beside it; the playbook has a linter of its own."""
    file = folder / SKILL_FILE
    if not file.is_file():
        return [
            SkillProblem(str(file), 1, "a skill is a folder with a SKILL.md, and there is none")
        ]
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        found = [
            SkillProblem(str(file), line, cause, fatal)
            for line, cause, fatal in _lint_skill_text(text, folder)
        ]
    except YamlFileError as mistake:
        return [SkillProblem(str(file), mistake.line, str(mistake))]
    return [*found, *_lint_files(folder)]


def _lint_skill_text(text: str, folder: Path) -> Iterator[tuple[int, str, bool]]:
    document, body, first = split_front_matter(text)
    data = document.data
    if not isinstance(data, dict):
        raise YamlFileError(2, "front matter is made of `key: value` lines")
    for key in ("name", "description"):
        if not isinstance(data.get(key), str):
            yield document.line_of(key), f"{key} is missing, or no text", True
    for key in data:
        if key in LEGACY_FRONT_MATTER_KEYS:
            yield document.line_of(key), f"{key} is the older way: put it under metadata", False
        elif key not in FRONT_MATTER_KEYS:
            yield document.line_of(key), f"{key} is not a key of the format", False
    skill = parse_skill_text(text, folder=folder.name)
    for cause in find_format_violations(skill):
        yield document.line_of(cause.split()[0].strip(":")), cause, True
    if skill.name != folder.name:
        cause = f"it is called {skill.name!r}, its folder {folder.name!r}"
        yield document.line_of("name"), cause, True
    yield from _lint_body(body, first, folder)


def _lint_body(body: str, first: int, folder: Path) -> Iterator[tuple[int, str, bool]]:
    if not body.strip():
        yield first, "there is nothing to read below the front matter", True
    for number, line in enumerate(body.splitlines(), first):
        for one, two in _FILE_LINK.findall(line):
            path = (one or two).partition("#")[0]
            target = (folder / path).resolve()
            if not target.is_relative_to(folder.resolve()):
                yield number, f"{path} lies outside of the skill", True
            elif not target.exists():
                yield number, f"there is no {path} in the skill", True


def _lint_files(folder: Path) -> Iterator[SkillProblem]:
    size = count = 0
    for path in folder.rglob("*"):
        if path.is_symlink():
            yield SkillProblem(str(path), 1, "a link is not taken along with a skill")
    for path in list_skill_files(folder):
        size, count = size + path.stat().st_size, count + 1
    if size > MAX_SKILL_BYTES or count > MAX_SKILL_FILES:
        limit = f"{MAX_SKILL_FILES} files of {MAX_SKILL_BYTES >> 20} MiB in all"
        yield SkillProblem(str(folder), 1, f"too much: at most {limit}")


def lint_skill(
    folder: Path, describe_changes: Callable[[str], str] | None = None
) -> list[SkillProblem]:
    """`changes` tells what a command would change; with it, probes are held to looking."""
    found = lint_skill_folder(folder)
    file = folder / PLAYBOOK_FILE
    if file.is_file():
        text = file.read_text(encoding="utf-8", errors="replace")
        playbook, problems = parse_playbook(text, str(file), SharedSnippets(folder))
        found += problems
        if playbook is not None and describe_changes is not None:
            found += find_changing_probes(text, playbook, describe_changes, str(file))
    return sorted(found, key=lambda each: (each.file, each.line))
