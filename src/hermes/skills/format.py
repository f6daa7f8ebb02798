"""The format of a skill: SKILL.md, also in its old format; the files of its folder; its digest.

Snippets are shell files `_probes/NAME.sh` beside the skills; the nearest one of a name is used.
A snippet that a skill uses is part of it: it is in its digest, and is exported with it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hermes.core.messages import Value
from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlDocument, YamlFileError, dump_yaml, load_yaml
from hermes.skills.discovery import BUNDLED_SKILLS

SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS, MAX_BODY_LINES = 64, 1024, 500
FRONT_MATTER_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
LEGACY_FRONT_MATTER_KEYS = ("tags", "related_skills", "version", "author", "category")
"""Keys of the old front matter: read, and moved to `metadata` when rendered."""
_FRONT_MATTER = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)


class SkillText(Value, kw_only=True, frozen=True):
    name: str
    description: str
    body: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()

    @property
    def category(self) -> str:
        return self.metadata.get("category", "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(word for word in re.split(r"[,\s]+", self.metadata.get("tags", "")) if word)


def parse_skill_text(text: str, *, folder: str = "") -> SkillText:
    """Tolerant: a missing name is taken from the folder, and any value becomes text.

    Raises `YamlFileError` when the front matter is missing or unreadable.
    """
    document, body, _ = split_front_matter(text)
    data = document.data if isinstance(document.data, dict) else {}
    inner = data.get("metadata")
    items = inner.items() if isinstance(inner, dict) else ()
    metadata = {str(key): _as_text(value) for key, value in items}
    for key in LEGACY_FRONT_MATTER_KEYS:
        if data.get(key) not in (None, "", []):
            metadata.setdefault(key, _as_text(data[key]))
    tools = data.get("allowed-tools", data.get("allowed_tools", ""))
    return SkillText(
        name=_as_text(data.get("name")) or folder,
        description=_as_text(data.get("description")) or _first_body_line(body),
        body=body,
        license=_as_text(data.get("license")),
        compatibility=_as_text(data.get("compatibility")),
        metadata=metadata,
        allowed_tools=tuple(_as_text(tools).replace(",", " ").split()),
    )


def split_front_matter(text: str) -> tuple[YamlDocument, str, int]:
    """Front matter, body, and the line on which the body begins."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        raise YamlFileError(
            Problem("", 1, "the file must begin with front matter between two lines of ---")
        )
    return load_yaml(found[1], first_line=2), text[found.end() :], found[0].count("\n") + 1


def render_skill_text(skill: SkillText) -> str:
    """Raises `ValueError` naming the violated rules."""
    violations = find_format_violations(skill)
    if violations:
        raise ValueError("; ".join(violations))
    front: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "license": skill.license,
        "compatibility": skill.compatibility,
        "metadata": dict(sorted(skill.metadata.items())),
        "allowed-tools": " ".join(skill.allowed_tools),
    }
    head = dump_yaml({key: value for key, value in front.items() if value})
    return f"---\n{head}---\n{skill.body.strip()}\n"


def find_format_violations(skill: SkillText) -> list[str]:
    found = []
    if not SKILL_NAME.fullmatch(skill.name) or len(skill.name) > MAX_NAME_CHARS:
        found.append(
            f"name {skill.name!r}: 1 to {MAX_NAME_CHARS} of a-z, 0-9 and single inner hyphens"
        )
    if not 1 <= len(skill.description.strip()) <= MAX_DESCRIPTION_CHARS:
        found.append(f"description: 1 to {MAX_DESCRIPTION_CHARS} characters, what it does and when")
    if len(skill.body.splitlines()) > MAX_BODY_LINES:
        found.append(
            f"the body has more than {MAX_BODY_LINES} lines: move the details to references/"
        )
    if len(skill.compatibility) > 500:
        found.append("compatibility: at most 500 characters")
    return found


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(_as_text(each) for each in value)
    return str(value).strip()


def _first_body_line(body: str) -> str:
    lines = (line.strip() for line in body.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")[:200]


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
    """Return whether this path in a skill is left by an editor, git or Python."""
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
