"""Parses SKILL.md, also in its old format, and renders it by the rules of the format."""

import re
from typing import Any

from hermes.core.messages import Value
from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlDocument, YamlFileError, dump_yaml, load_yaml

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
