"""SKILL.md as a value: read from what people wrote, also in the older way; written by the rules."""

import re
from typing import Any

import yaml

from hermes.core.messages import Value
from hermes.skills.format.places import Document, Mistake

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME, LONGEST_DESCRIPTION, MOST_LINES = 64, 1024, 500
KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
OLDER = ("tags", "related_skills", "version", "author", "category")
"""Keys of an older front matter; read, and kept in `metadata` when written again."""
_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)


class SkillText(Value, kw_only=True, frozen=True):
    name: str
    description: str
    body: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    body_line: int = 1
    """Where in the file the body begins."""

    @property
    def category(self) -> str:
        return self.metadata.get("category", "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(word for word in re.split(r"[,\s]+", self.metadata.get("tags", "")) if word)


def read_skill(text: str, *, folder: str = "") -> SkillText:
    """What can be made of it: a missing name is the folder's, odd values become words.

    Raises `Mistake` when there is no front matter that can be read.
    """
    document, body, line = split(text)
    data = document.data if isinstance(document.data, dict) else {}
    inner = data.get("metadata")
    metadata = {str(key): _words(value) for key, value in _items(inner)}
    for key in OLDER:
        if data.get(key) not in (None, "", []):
            metadata.setdefault(key, _words(data[key]))
    tools = data.get("allowed-tools", data.get("allowed_tools", ""))
    return SkillText(
        name=_words(data.get("name")) or folder,
        description=_words(data.get("description")) or _first_words(body),
        body=body,
        license=_words(data.get("license")),
        compatibility=_words(data.get("compatibility")),
        metadata=metadata,
        allowed_tools=tuple(_words(tools).replace(",", " ").split()),
        body_line=line,
    )


def split(text: str) -> tuple[Document, str, int]:
    """Front matter, body, and the line on which the body begins."""
    found = _FENCE.match(text)
    if found is None:
        raise Mistake(1, "it has to begin with front matter between two lines of ---")
    return Document(found[1], first=2), text[found.end() :], found[0].count("\n") + 1


def write_skill(skill: SkillText) -> str:
    """The file by the rules. Raises `ValueError` naming the rule that is broken."""
    wrong = breaches(skill)
    if wrong:
        raise ValueError("; ".join(wrong))
    front: dict[str, Any] = {"name": skill.name, "description": skill.description}
    if skill.license:
        front["license"] = skill.license
    if skill.compatibility:
        front["compatibility"] = skill.compatibility
    if skill.metadata:
        front["metadata"] = dict(sorted(skill.metadata.items()))
    if skill.allowed_tools:
        front["allowed-tools"] = " ".join(skill.allowed_tools)
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=96)
    return f"---\n{head}---\n{skill.body.strip()}\n"


def breaches(skill: SkillText) -> list[str]:
    """The rules of the format that it does not keep."""
    found = []
    if not NAME.fullmatch(skill.name) or len(skill.name) > LONGEST_NAME:
        found.append(
            f"name {skill.name!r}: 1 to {LONGEST_NAME} of a-z, 0-9 and single inner hyphens"
        )
    if not 1 <= len(skill.description.strip()) <= LONGEST_DESCRIPTION:
        found.append(f"description: 1 to {LONGEST_DESCRIPTION} characters, what it does and when")
    if len(skill.body.splitlines()) > MOST_LINES:
        found.append(f"the body has more than {MOST_LINES} lines: move the details to references/")
    if len(skill.compatibility) > 500:
        found.append("compatibility: at most 500 characters")
    return found


def _items(value: object) -> list[tuple[Any, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _words(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(_words(each) for each in value)
    return str(value).strip()


def _first_words(body: str) -> str:
    lines = (line.strip() for line in body.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")[:200]
