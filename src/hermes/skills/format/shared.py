"""Shell that skills share: `_probes/NAME.sh` beside them; the nearest of that name counts.

What a skill borrows is part of it: it is in its digest, and travels with it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = "_probes"
BUNDLED = Path(__file__).parent.parent / "bundled"
LARGEST = 64 << 10
_BORROWS = re.compile(r"^[ \t]*(?:-[ \t]+)?(?:\{.*\b)?(?:use|with):[ \t]*(.*)$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,47}")
_UP = 2
"""Folders above a skill that may hold what it shares: its category, and the root."""


class Shelf:
    """What a skill in this folder can borrow; without a folder, what comes with Hermes."""

    def __init__(self, folder: Path | None = None) -> None:
        above = [folder, *list(folder.absolute().parents)[:_UP]] if folder else []
        self._places = [place / FOLDER for place in [*above, BUNDLED]]

    def find(self, name: str) -> Path | None:
        if not _NAME.fullmatch(name):
            return None
        for place in self._places:
            file = place / f"{name}.sh"
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= LARGEST:
                return file
        return None

    def text(self, name: str) -> str | None:
        file = self.find(name)
        return file.read_text(encoding="utf-8", errors="replace") if file else None

    @property
    def names(self) -> list[str]:
        found = (file.stem for place in self._places for file in place.glob("*.sh"))
        return sorted(set(found))


def borrowed(folder: Path) -> Iterator[tuple[str, Path]]:
    """What its playbook uses and does not have itself, by the path it has when it travels."""
    playbook = folder / "playbook.yaml"
    if not playbook.is_file():
        return
    shelf, text = Shelf(folder), playbook.read_text(encoding="utf-8", errors="replace")
    names = {name for line in _BORROWS.findall(text) for name in _NAME.findall(line)}
    for name in sorted(names):
        file = shelf.find(name)
        if file is not None and not file.is_relative_to(folder.absolute()):
            yield f"{FOLDER}/{name}.sh", file
