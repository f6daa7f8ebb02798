"""Lists the files of a skill and its shared snippets, and computes its digest.

Snippets are shell files `_probes/NAME.sh` beside the skills; the nearest one of a name is used.
A snippet that a skill uses is part of it: it is in its digest, and is exported with it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermes.skills.discovery import BUNDLED_SKILLS

SNIPPETS_FOLDER = "_probes"
MAX_SNIPPET_BYTES = 64 << 10
MAX_SKILL_FILES, MAX_SKILL_BYTES = 500, 8 << 20
_SNIPPET_REFERENCE = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(?:\{.*\b)?(?:use|with):[ \t]*(.*)$", re.MULTILINE
)
_NEEDED_SNIPPETS = re.compile(r"# with: *(.*)")
"""The first line of a snippet that needs others before it."""
_SNIPPET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,47}")
_MAX_PARENT_FOLDERS = 2
"""Folders above a skill that may hold snippets: its category, and the root."""


class SharedSnippets:
    """The snippets that a skill in this folder can use; without a folder, the bundled ones."""

    def __init__(self, folder: Path | None = None) -> None:
        above = [folder, *list(folder.absolute().parents)[:_MAX_PARENT_FOLDERS]] if folder else []
        self._folders = [each / SNIPPETS_FOLDER for each in [*above, BUNDLED_SKILLS]]

    def find(self, name: str) -> Path | None:
        if not _SNIPPET_NAME.fullmatch(name):
            return None
        for folder in self._folders:
            file = folder / f"{name}.sh"
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

    def order(self, names: Iterable[str]) -> list[str]:
        """These snippets and those that they need, each once, after the ones that it needs."""
        ordered: list[str] = []
        waiting: list[str] = []

        def add(name: str) -> None:
            if name in ordered or name in waiting:
                return
            waiting.append(name)
            first = (self.read(name) or "").partition("\n")[0]
            if needed := _NEEDED_SNIPPETS.fullmatch(first):
                for other in _SNIPPET_NAME.findall(needed[1]):
                    add(other)
            waiting.remove(name)
            ordered.append(name)

        for name in names:
            add(name)
        return ordered

    @property
    def names(self) -> list[str]:
        found = (file.stem for folder in self._folders for file in folder.glob("*.sh"))
        return sorted(set(found))


def referenced_snippets(folder: Path) -> Iterator[tuple[str, Path]]:
    """Snippets that its playbook uses from outside the folder, by their path when exported."""
    playbook = folder / "playbook.yaml"
    if not playbook.is_file():
        return
    snippets, text = SharedSnippets(folder), playbook.read_text(encoding="utf-8", errors="replace")
    names = {
        name for line in _SNIPPET_REFERENCE.findall(text) for name in _SNIPPET_NAME.findall(line)
    }
    for name in sorted(snippets.order(names)):
        file = snippets.find(name)
        if file is not None and not file.is_relative_to(folder.absolute()):
            yield f"{SNIPPETS_FOLDER}/{name}.sh", file


def is_hidden_path(path: str) -> bool:
    """Whether this path in a skill is left by an editor, git or Python."""
    return any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))


def list_skill_files(folder: Path) -> Iterator[Path]:
    """Its files, sorted, without hidden ones and links."""
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
