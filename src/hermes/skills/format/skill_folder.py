"""Shell that skills share: `_probes/NAME.sh` beside them; the nearest of that name counts.

What a skill borrows is part of it: it is in its digest, and travels with it.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

SNIPPETS_FOLDER = "_probes"
BUNDLED_SKILLS = Path(__file__).parent.parent / "bundled"
MAX_SNIPPET_BYTES = 64 << 10
_SNIPPET_REFERENCE = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(?:\{.*\b)?(?:use|with):[ \t]*(.*)$", re.MULTILINE
)
_SNIPPET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,47}")
_MAX_PARENT_FOLDERS = 2
"""Folders above a skill that may hold what it shares: its category, and the root."""


class SharedSnippets:
    """What a skill in this folder can borrow; without a folder, what comes with Hermes."""

    def __init__(self, folder: Path | None = None) -> None:
        above = [folder, *list(folder.absolute().parents)[:_MAX_PARENT_FOLDERS]] if folder else []
        self._folders = [place / SNIPPETS_FOLDER for place in [*above, BUNDLED_SKILLS]]

    def find(self, name: str) -> Path | None:
        if not _SNIPPET_NAME.fullmatch(name):
            return None
        for place in self._folders:
            file = place / f"{name}.sh"
            if (
                file.is_file()
                and not file.is_symlink()
                and file.stat().st_size <= MAX_SNIPPET_BYTES
            ):
                return file
        return None

    def read(self, name: str) -> str | None:
        file = self.find(name)
        return file.read_text(encoding="utf-8", errors="replace") if file else None

    @property
    def names(self) -> list[str]:
        found = (file.stem for place in self._folders for file in place.glob("*.sh"))
        return sorted(set(found))


def referenced_snippets(folder: Path) -> Iterator[tuple[str, Path]]:
    """What its playbook uses and does not have itself, by the path it has when it travels."""
    playbook = folder / "playbook.yaml"
    if not playbook.is_file():
        return
    shelf, text = SharedSnippets(folder), playbook.read_text(encoding="utf-8", errors="replace")
    names = {
        name for line in _SNIPPET_REFERENCE.findall(text) for name in _SNIPPET_NAME.findall(line)
    }
    for name in sorted(names):
        file = shelf.find(name)
        if file is not None and not file.is_relative_to(folder.absolute()):
            yield f"{SNIPPETS_FOLDER}/{name}.sh", file


MAX_SKILL_FILES, MAX_SKILL_BYTES = 500, 8 << 20


def is_hidden_path(path: str) -> bool:
    """Whether this path in a skill is none of its files: what an editor, git or Python leaves."""
    return any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))


def list_skill_files(folder: Path) -> Iterator[Path]:
    """Its files in order, without hidden ones; a link is no file of a skill."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if not is_hidden_path(path.relative_to(folder).as_posix()):
            yield path


def compute_skill_digest(folder: Path) -> str:
    """SHA-256 over sorted `mode path sha256(content)` lines. Raises `OSError`."""
    lines = []
    own = ((path.relative_to(folder).as_posix(), path) for path in list_skill_files(folder))
    for name, path in [*own, *referenced_snippets(folder)]:
        mode = "755" if path.stat().st_mode & 0o100 else "644"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{mode} {name} {content}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
