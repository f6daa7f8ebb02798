"""A name for exactly this content of a skill: any change of any file, also of one that it borrows
from its category, is another digest."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from hermes.skills.format.shared import borrowed

MOST_FILES, MOST_BYTES = 500, 8 << 20


def hidden(inside: str) -> bool:
    """Whether this path in a skill is none of its files: what an editor, git or Python leaves."""
    return any(part.startswith(".") or part == "__pycache__" for part in inside.split("/"))


def files_of(folder: Path) -> Iterator[Path]:
    """Its files in order, without hidden ones; a link is no file of a skill."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if not hidden(path.relative_to(folder).as_posix()):
            yield path


def digest_of(folder: Path) -> str:
    """SHA-256 over sorted `mode path sha256(content)` lines. Raises `OSError`."""
    lines = []
    own = ((path.relative_to(folder).as_posix(), path) for path in files_of(folder))
    for name, path in [*own, *borrowed(folder)]:
        mode = "755" if path.stat().st_mode & 0o100 else "644"
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{mode} {name} {content}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
