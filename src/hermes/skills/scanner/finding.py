"""What was found in a foreign skill, and whether it keeps the skill out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

Kind = Literal[
    "structure", "unicode", "python", "shell", "dependency", "prose", "encoded", "capability",
    "sandbox", "model",
]  # fmt: skip


class Finding(Value, kw_only=True, frozen=True):
    kind: Kind
    file: str
    line: int
    cause: str
    blocks: bool = True
    """False: a person should see it, and it alone keeps nothing out."""

    def __str__(self) -> str:
        word = "" if self.blocks else "note: "
        return f"{self.file}:{self.line}: {word}{self.kind}: {self.cause}"


Ruling = Literal["pass", "look", "stopped"]
"""`look`: it may be taken in as a draft, and a person should see what was found first."""


def ruling_of(findings: Iterable[Finding]) -> Ruling:
    told = [finding.blocks for finding in findings]
    if any(told):
        return "stopped"
    return "look" if told else "pass"


class Entry(Value, kw_only=True, frozen=True):
    """A file of a skill as it arrived, before anything of it touches the disk."""

    path: str
    data: bytes
    executable: bool = False
    link: str = ""
    """Where it leads, when it is no file but a link."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


def entries_of(folder: Path, *, largest: int = 16 << 20) -> list[Entry]:
    """Everything below a folder, hidden files and links too. Raises `OSError`."""
    return sorted(_walk(folder, folder, largest), key=lambda entry: entry.path)


def _walk(folder: Path, top: Path, largest: int) -> Iterator[Entry]:
    for path in folder.iterdir():
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            yield Entry(path=name, data=b"", link=str(path.readlink()))
        elif path.is_dir():
            yield from _walk(path, top, largest)
        elif path.is_file():
            with path.open("rb") as stream:
                data = stream.read(largest)
            yield Entry(path=name, data=data, executable=bool(path.stat().st_mode & 0o100))
        else:
            yield Entry(path=name, data=b"", link="no plain file")
