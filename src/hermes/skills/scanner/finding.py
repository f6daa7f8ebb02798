"""Findings in a foreign skill, the verdict that follows from them, and the files of a skill."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from hermes.core.messages import Value

FindingKind = Literal[
    "structure", "unicode", "python", "shell", "dependency", "prose", "encoded", "capability",
    "sandbox", "model",
]  # fmt: skip
DOCUMENT_SUFFIXES = (".md", ".markdown", ".mdx", ".rst", ".txt")
TABLE_SUFFIXES = (".csv", ".tsv")
DATA_SUFFIXES = (
    *TABLE_SUFFIXES, ".json", ".jsonl", ".ndjson", ".geojson", ".lock", ".log", ".xsd", ".wsdl",
)  # fmt: skip
MAX_READ_DATA_BYTES = 32 << 10
"""Longer tables, lists and lock files are searched by programs, not read as a text."""
_RUN_SETTINGS = re.compile(
    r"(?:^|/)(?:package|composer|deno|hooks?|plugin|launch|tasks|devcontainer|"
    r"[\w.-]*(?:mcp|settings|config|compose)[\w.-]*)\.json$",
    re.IGNORECASE,
)
"""Programs take commands from them, however long they are."""
MAX_READ_BYTES = 16 << 20


class ScanFinding(Value, frozen=True):
    kind: FindingKind
    file: str
    line: int
    cause: str
    blocks: bool = True
    """False: shown to the user, but it does not block the skill."""

    def __str__(self) -> str:
        word = "" if self.blocks else "note: "
        return f"{self.file}:{self.line}: {word}{self.kind}: {self.cause}"


ScanVerdict = Literal["pass", "look", "stopped"]
"""`look`: it may be admitted as a draft after the user has seen the findings."""


def decide_scan_verdict(findings: Iterable[ScanFinding]) -> ScanVerdict:
    blocking = [finding.blocks for finding in findings]
    if any(blocking):
        return "stopped"
    return "look" if blocking else "pass"


class SkillFile(Value, kw_only=True, frozen=True):
    """A file of a skill as it arrived, before it is written to disk."""

    path: str
    data: bytes
    executable: bool = False
    link: str = ""
    """The target, when it is a symbolic link."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


def is_large_data(path: str, size: int) -> bool:
    if size <= MAX_READ_DATA_BYTES or _RUN_SETTINGS.search(path):
        return False
    return path.casefold().endswith(DATA_SUFFIXES)


class NpmManifest(Value, frozen=True):
    """The part of `package.json` that the checks read."""

    scripts: dict[str, str] = {}


def read_skill_files(folder: Path) -> list[SkillFile]:
    """Everything below a folder, hidden files and links too. Raises `OSError`."""
    return sorted(_walk_files(folder, folder), key=lambda entry: entry.path)


def _walk_files(folder: Path, top: Path) -> Iterator[SkillFile]:
    for path in folder.iterdir():
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            yield SkillFile(path=name, data=b"", link=str(path.readlink()))
        elif path.is_dir():
            yield from _walk_files(path, top)
        elif path.is_file():
            with path.open("rb") as stream:
                data = stream.read(MAX_READ_BYTES)
            yield SkillFile(path=name, data=data, executable=bool(path.stat().st_mode & 0o100))
        else:
            yield SkillFile(path=name, data=b"", link="no plain file")


CODE_FENCE = re.compile(
    r"^[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n"
    r"(?P<code>.*?)^[ \t]*(?P=marks)",
    re.DOTALL | re.MULTILINE,
)


_FENCED_LANGUAGES = {
    ".py": "python py python3", ".js": "javascript js jsx mjs node vue svelte", ".php": "php",
    ".ts": "typescript ts tsx", ".ps1": "powershell pwsh ps1", ".rb": "ruby rb", ".pl": "perl",
    ".java": "java kotlin scala dart", ".cs": "csharp cs", ".c": "c cpp", ".go": "go",
    ".rs": "rust", ".swift": "swift", ".lua": "lua",
}  # fmt: skip
_FENCED_SUFFIXES = {
    language: suffix
    for suffix, languages in _FENCED_LANGUAGES.items()
    for language in languages.split()
}


def find_fenced_programs(text: str) -> Iterator[tuple[int, str, str]]:
    """The programs in a document: first line, suffix of their language, code."""
    for found in CODE_FENCE.finditer(text):
        if suffix := _FENCED_SUFFIXES.get(found["language"].casefold()):
            yield line_number(text, found.start("code")), suffix, found["code"]


def line_number(text: str, position: int) -> int:
    """The line, counted from 1, of a position in a text."""
    return text.count("\n", 0, position) + 1
