"""Where skills lie, and each in one line: what a prompt needs, without reading any YAML."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

SKILL = "SKILL.md"
BUNDLED = Path(__file__).parent / "bundled"
Origin = Literal["bundled", "user", "project"]
DEEPEST = 3
MOST = 2_000
_HEAD = 4096
_DESCRIPTION = re.compile(r"^description:[ \t]*(?![>|'\"&*!\[{])(\S[^\n]*)$", re.MULTILINE)


class Root(Value, frozen=True):
    """A folder of skills, or of folders of skills, which are then categories."""

    path: Path
    origin: Origin


def roots(home: Path, project: Path | None = None, *, bundled: bool = True) -> list[Root]:
    """The usual places, the farthest first."""
    found = [Root(BUNDLED, "bundled")] if bundled else []
    found.append(Root(home / "skills", "user"))
    if project is not None and project / ".hermes" != home:
        found.append(Root(project / ".hermes" / "skills", "project"))
    return found


def quick_cards(places: Iterable[Path]) -> list[tuple[str, str]]:
    """Name and description, those of the person and the project first.

    A description that is no plain line of text is left to whoever reads the whole file.
    """
    found: dict[str, str] = {}
    for place in reversed(list(places)):
        for folder in folders(place):
            found.setdefault(folder.name, _described(folder))
    return list(found.items())


def folders(root: Path) -> Iterator[Path]:
    """Folders with a SKILL.md. Links are not followed: they may lead in a circle, or out."""
    left = MOST
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop(0)
        for each in _inside(folder):
            if (each / SKILL).is_file():
                yield each
                left -= 1
                if left <= 0:
                    return
            elif depth + 1 < DEEPEST:
                waiting.append((each, depth + 1))


def _described(folder: Path) -> str:
    try:
        with (folder / SKILL).open(encoding="utf-8", errors="replace") as file:
            found = _DESCRIPTION.search(file.read(_HEAD))
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _inside(folder: Path) -> Iterable[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [
        each
        for each in found
        if each.is_dir() and not each.is_symlink() and not each.name.startswith((".", "_"))
    ]
