"""Finds skill folders under the usual roots and reads their descriptions without parsing YAML."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

SKILL_FILE = "SKILL.md"
PYTHON_SKILLS_FILE = ".python.json"
"""Lists the compiled Python skills of a root."""
BUNDLED_SKILLS = Path(__file__).parent / "bundled"
SkillOrigin = Literal["bundled", "user", "project"]
MAX_FOLDER_DEPTH = 3
MAX_SKILLS_PER_ROOT = 2_000
_HEADER_READ_CHARS = 4096
_DESCRIPTION_LINE = re.compile(r"^description:[ \t]*(?![>|'\"&*!\[{])(\S[^\n]*)$", re.MULTILINE)


class SkillRoot(Value, frozen=True):
    """A folder of skills, or of categories that hold skills."""

    path: Path
    origin: SkillOrigin


def default_roots(
    home: Path, project: Path | None = None, *, bundled: bool = True
) -> list[SkillRoot]:
    """The usual roots; a later one has priority."""
    found = [SkillRoot(BUNDLED_SKILLS, "bundled")] if bundled else []
    found.append(SkillRoot(home / "skills", "user"))
    if project is not None and project / ".hermes" != home:
        found.append(SkillRoot(project / ".hermes" / "skills", "project"))
    return found


def read_descriptions(root_folders: Iterable[Path]) -> list[tuple[str, str]]:
    """Name and description of each skill; those of the user and the project come first.

    The description is empty when it is not a plain line of text: that takes a YAML parser.
    """
    found: dict[str, str] = {}
    for root in reversed(list(root_folders)):
        for folder in find_skill_folders(root):
            found.setdefault(folder.name, _read_description(folder))
    return list(found.items())


def find_skill_folders(root: Path) -> Iterator[Path]:
    """Folders with a SKILL.md. Links are not followed: they may be circular or lead outside."""
    left = MAX_SKILLS_PER_ROOT
    queue = [(root, 0)]
    while queue:
        folder, depth = queue.pop(0)
        for each in _subfolders(folder):
            if (each / SKILL_FILE).is_file():
                yield each
                left -= 1
                if left <= 0:
                    return
            elif depth + 1 < MAX_FOLDER_DEPTH:
                queue.append((each, depth + 1))


def _read_description(folder: Path) -> str:
    try:
        with (folder / SKILL_FILE).open(encoding="utf-8", errors="replace") as file:
            found = _DESCRIPTION_LINE.search(file.read(_HEADER_READ_CHARS))
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _subfolders(folder: Path) -> Iterable[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        each
        for each in found
        if each.is_dir() and not each.is_symlink() and not each.name.startswith((".", "_"))
    ]
