"""What was found in a foreign skill, and whether it keeps the skill out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

FindingKind = Literal[
    "structure", "unicode", "python", "shell", "dependency", "prose", "encoded", "capability",
    "sandbox", "model",
]  # fmt: skip


class ScanFinding(Value, kw_only=True, frozen=True):
    kind: FindingKind
    file: str
    line: int
    cause: str
    blocks: bool = True
    """False: a person should see it, and it alone keeps nothing out."""

    def __str__(self) -> str:
        word = "" if self.blocks else "note: "
        return f"{self.file}:{self.line}: {word}{self.kind}: {self.cause}"


ScanVerdict = Literal["pass", "look", "stopped"]
"""`look`: it may be taken in as a draft, and a person should see what was found first."""


def decide_scan_verdict(findings: Iterable[ScanFinding]) -> ScanVerdict:
    told = [finding.blocks for finding in findings]
    if any(told):
        return "stopped"
    return "look" if told else "pass"


class SkillFile(Value, kw_only=True, frozen=True):
    """A file of a skill as it arrived, before anything of it touches the disk."""

    path: str
    data: bytes
    executable: bool = False
    link: str = ""
    """Where it leads, when it is no file but a link."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


def read_skill_files(folder: Path, *, max_file_bytes: int = 16 << 20) -> list[SkillFile]:
    """Everything below a folder, hidden files and links too. Raises `OSError`."""
    return sorted(_walk_files(folder, folder, max_file_bytes), key=lambda entry: entry.path)


def _walk_files(folder: Path, top: Path, largest: int) -> Iterator[SkillFile]:
    for path in folder.iterdir():
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            yield SkillFile(path=name, data=b"", link=str(path.readlink()))
        elif path.is_dir():
            yield from _walk_files(path, top, largest)
        elif path.is_file():
            with path.open("rb") as stream:
                data = stream.read(largest)
            yield SkillFile(path=name, data=data, executable=bool(path.stat().st_mode & 0o100))
        else:
            yield SkillFile(path=name, data=b"", link="no plain file")
