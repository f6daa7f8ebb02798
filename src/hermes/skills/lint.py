"""Reports all problems of a skill folder, including those of its playbook."""

import re
from collections.abc import Iterator
from pathlib import Path

from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlFileError
from hermes.skills.discovery import SKILL_FILE
from hermes.skills.format import (
    FRONT_MATTER_KEYS,
    LEGACY_FRONT_MATTER_KEYS,
    MAX_SKILL_BYTES,
    MAX_SKILL_FILES,
    SharedSnippets,
    find_format_violations,
    list_skill_files,
    parse_skill_text,
    split_front_matter,
)
from hermes.skills.playbook.reader import (
    PLAYBOOK_FILE,
    DescribeChanges,
    find_changing_probes,
    parse_playbook,
)

_OWN_FILE_PATTERN = r"`((?:scripts|references|assets)/[^`\s]+)`"
_FILE_LINK = re.compile(rf"\]\((?!https?:|#|mailto:)([^)\s]+)\)|{_OWN_FILE_PATTERN}")


_ADVICE = re.compile(
    r"the body has more than|description: 1 to|compatibility: at most|there is no \S+ in the skill|"
    r"\S+ is outside the skill"
)


def is_advice(problem: Problem) -> bool:
    """Return whether it makes a skill of others worse, but neither unusable nor dangerous."""
    return not problem.fatal or bool(_ADVICE.match(problem.cause))


def lint_skill(folder: Path, describe_changes: DescribeChanges | None = None) -> list[Problem]:
    """With `describe_changes`, probes that would change something are reported too."""
    found = lint_skill_folder(folder)
    file = folder / PLAYBOOK_FILE
    if file.is_file():
        text = file.read_text(encoding="utf-8", errors="replace")
        playbook, problems = parse_playbook(text, str(file), SharedSnippets(folder))
        found += problems
        if playbook is not None and describe_changes is not None:
            found += find_changing_probes(text, playbook, describe_changes, str(file))
    return sorted(found, key=lambda each: (each.file, each.line))


def lint_skill_folder(folder: Path) -> list[Problem]:
    """Problems of SKILL.md and of the files; the playbook is checked by `parse_playbook`."""
    file = folder / SKILL_FILE
    if not file.is_file():
        return [Problem(str(file), 1, "a skill needs a SKILL.md in its folder, and there is none")]
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        found = [
            Problem(str(file), line, cause, fatal)
            for line, cause, fatal in _lint_skill_text(text, folder)
        ]
    except YamlFileError as error:
        return [error.in_file(str(file))]
    return [*found, *_lint_files(folder)]


def _lint_skill_text(text: str, folder: Path) -> Iterator[tuple[int, str, bool]]:
    document, body, first = split_front_matter(text)
    data = document.data
    if not isinstance(data, dict):
        raise YamlFileError(document.problem((), "front matter must be `key: value` lines"))
    for key in ("name", "description"):
        if not isinstance(data.get(key), str):
            yield document.line_of(key), f"{key} is missing or is not text", True
    for key in data:
        if key in LEGACY_FRONT_MATTER_KEYS:
            yield document.line_of(key), f"{key} is the old format: put it under metadata", False
        elif key not in FRONT_MATTER_KEYS:
            yield document.line_of(key), f"{key} is not a key of the format", False
    skill = parse_skill_text(text, folder=folder.name)
    for cause in find_format_violations(skill):
        yield document.line_of(cause.split()[0].strip(":")), cause, True
    if skill.name != folder.name:
        cause = f"the skill is called {skill.name!r}, but its folder {folder.name!r}"
        yield document.line_of("name"), cause, True
    yield from _lint_body(body, first, folder)


def _lint_body(body: str, first: int, folder: Path) -> Iterator[tuple[int, str, bool]]:
    if not body.strip():
        yield first, "there is no text below the front matter", True
    for number, line in enumerate(body.splitlines(), first):
        for one, two in _FILE_LINK.findall(line):
            path = (one or two).partition("#")[0]
            target = (folder / path).resolve()
            if not target.is_relative_to(folder.resolve()):
                yield number, f"{path} is outside the skill", True
            elif not target.exists():
                yield number, f"there is no {path} in the skill", True


def _lint_files(folder: Path) -> Iterator[Problem]:
    size = count = 0
    for path in folder.rglob("*"):
        if path.is_symlink():
            yield Problem(str(path), 1, "a symbolic link is not copied with a skill")
    for path in list_skill_files(folder):
        size, count = size + path.stat().st_size, count + 1
    if size > MAX_SKILL_BYTES or count > MAX_SKILL_FILES:
        limit = f"{MAX_SKILL_FILES} files of {MAX_SKILL_BYTES >> 20} MiB in all"
        yield Problem(str(folder), 1, f"the skill is too large: at most {limit}")
