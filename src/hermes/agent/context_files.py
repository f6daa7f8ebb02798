"""Reads AGENTS.md and the like from the working folder, warily: a folder may be a stranger's."""

import unicodedata
from pathlib import Path

from hermes.core.messages import Value

NAMES = ("AGENTS.md", "CLAUDE.md", ".hermes.md", ".cursorrules")
LONGEST = 8 * 1024


class ContextFile(Value, kw_only=True, frozen=True):
    path: str
    text: str = ""
    note: str = ""
    """Why there is no text."""


def context_files(directory: str) -> tuple[ContextFile, ...]:
    """For each name the nearest file from the folder up to its git root, cut at 8 KB.

    Outside a git checkout only the folder itself is looked at: what lies above it, /tmp say, may
    belong to anybody.
    """
    folders = _up_to_root(Path(directory).absolute())
    found: list[ContextFile] = []
    for name in NAMES:
        for folder in folders:
            file = _read(folder / name, folders[-1])
            if file is not None:
                found.append(file)
                break
    return tuple(found)


def visible(text: str) -> str:
    """Without characters that a person reading the file would not see but a model would."""
    return "".join(char for char in text if char in "\n\t" or not _hidden(char))


def _up_to_root(folder: Path) -> list[Path]:
    above = [folder, *folder.parents]
    for index, candidate in enumerate(above):
        if (candidate / ".git").exists():
            return above[: index + 1]
    return [folder]


def _read(path: Path, root: Path) -> ContextFile | None:
    try:
        if not path.is_file():  # also keeps us from waiting for ever on a pipe
            return None
        if not path.resolve().is_relative_to(root.resolve()):
            return ContextFile(path=str(path), note=f"{path} points outside its folder: not read")
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except OSError as error:
        return ContextFile(path=str(path), note=f"{path} could not be read: {error.strerror}")
    text = visible(data[:LONGEST].decode(errors="replace")).strip()
    if not text:
        return None
    if len(data) > LONGEST:
        text += f"\n[cut here at {LONGEST:,} bytes; read the file for the rest]"
    return ContextFile(path=str(path), text=text)


def _hidden(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn")
        or "\U000e0100" <= char <= "\U000e01ef"
    )
