"""Loads all skills: bundled, of the user, of the project; of equal names the last one wins."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.plumbing.problems import Problem
from hermes.plumbing.yaml_document import YamlFileError
from hermes.skills.discovery import SKILL_FILE, SkillOrigin, SkillRoot, find_skill_folders
from hermes.skills.format import (
    SharedSnippets,
    SkillText,
    compute_skill_digest,
    list_skill_files,
    parse_skill_text,
)
from hermes.skills.playbook.reader import PLAYBOOK_FILE, parse_playbook
from hermes.skills.playbook.schema import Playbook

MAX_SKILL_FILE_BYTES = 512 << 10


class Skill:
    """One skill; its playbook and digest are read from the folder when needed."""

    def __init__(
        self, folder: Path, root: SkillRoot, text: SkillText, state: SkillState | None = None
    ) -> None:
        self.folder = folder
        self.origin: SkillOrigin = root.origin
        self.text = text
        self.name = folder.name
        self.state: SkillState = state or ("trusted" if root.origin == "bundled" else "draft")
        inside = folder.relative_to(root.path).parts[:-1]
        self.category = "/".join(inside) or text.category or "general"

    @property
    def description(self) -> str:
        return " ".join(self.text.description.split())

    @cached_property
    def digest(self) -> str:
        return compute_skill_digest(self.folder)

    @cached_property
    def _parsed_playbook(self) -> tuple[Playbook | None, list[Problem]]:
        file = self.folder / PLAYBOOK_FILE
        if not file.is_file():
            return None, []
        return parse_playbook(_read_text(file), str(file), SharedSnippets(self.folder))

    @property
    def playbook(self) -> Playbook | None:
        """None without a playbook, or when it has fatal problems."""
        return self._parsed_playbook[0]

    @property
    def problems(self) -> list[Problem]:
        return self._parsed_playbook[1]

    @property
    def files(self) -> list[str]:
        """The files beside SKILL.md, by their path in the folder."""
        found = (path.relative_to(self.folder).as_posix() for path in list_skill_files(self.folder))
        return [path for path in found if path != SKILL_FILE]

    def read_linked_file(self, path: str) -> str:
        """The text of one of its files. Raises `SettingsError` naming the known files."""
        if path not in self.files:
            known = ", ".join(self.files) or "no other files"
            raise SettingsError(f"{self.name} has no file {path!r}; there are: {known}")
        return _read_text(self.folder / path)


class SkillLibrary:
    def __init__(
        self, roots: Sequence[SkillRoot], states: Mapping[str, SkillState] | None = None
    ) -> None:
        """`states`: the lifecycle state of each skill, by name."""
        self.roots = tuple(roots)
        self._states = states or {}
        self.problems: list[Problem] = []

    @cached_property
    def skills_by_name(self) -> dict[str, Skill]:
        """Retired ones too."""
        found: dict[str, Skill] = {}
        for root in self.roots:
            for folder in find_skill_folders(root.path):
                skill = self._load(folder, root)
                if skill is not None:
                    found[skill.name] = skill
        return dict(sorted(found.items()))

    @property
    def skills(self) -> list[Skill]:
        """Without retired ones."""
        return [skill for skill in self.skills_by_name.values() if skill.state != "retired"]

    def find(self, name: str) -> Skill:
        """Raises `SettingsError` with similar names."""
        if name in self.skills_by_name:
            return self.skills_by_name[name]
        similar = [each for each in self.skills_by_name if name.split("-")[0] in each][:5]
        hint = f"; similar: {', '.join(similar)}" if similar else ""
        raise SettingsError(f"there is no skill {name!r}{hint}; see: hermes skills list")

    def categories(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for skill in self.skills:
            found[skill.category] = found.get(skill.category, 0) + 1
        return dict(sorted(found.items()))

    def _load(self, folder: Path, root: SkillRoot) -> Skill | None:
        try:
            text = parse_skill_text(_read_text(folder / SKILL_FILE), folder=folder.name)
            return Skill(folder, root, text, self._states.get(folder.name))
        except YamlFileError as error:
            self.problems.append(error.in_file(str(folder / SKILL_FILE)))
        except (OSError, SettingsError) as error:
            self.problems.append(Problem(str(folder / SKILL_FILE), 1, str(error)))
        return None


def _read_text(file: Path) -> str:
    if file.stat().st_size > MAX_SKILL_FILE_BYTES:
        raise SettingsError(
            f"{file} is larger than {MAX_SKILL_FILE_BYTES >> 10} KiB and is not read"
        )
    return file.read_text(encoding="utf-8", errors="replace")
