"""All skills of a house: bundled, of the person, of the project; the nearer one wins by name."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.skills.discovery import SKILL_FILE, SkillOrigin, SkillRoot, find_skill_folders
from hermes.skills.format.skill_folder import SharedSnippets, compute_skill_digest, list_skill_files
from hermes.skills.format.skill_text import SkillText, parse_skill_text
from hermes.skills.format.yaml_document import SkillProblem, YamlFileError
from hermes.skills.playbook.reader import PLAYBOOK_FILE as PLAYBOOK
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.playbook.schema import Playbook

MAX_SKILL_FILE_BYTES = 512 << 10
"""Bytes of one file that are read."""


class Skill:
    """One skill, read from its folder as its parts are asked for."""

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
    def _parsed_playbook(self) -> tuple[Playbook | None, list[SkillProblem]]:
        file = self.folder / PLAYBOOK
        if not file.is_file():
            return None, []
        return parse_playbook(_read_text(file), str(file), SharedSnippets(self.folder))

    @property
    def playbook(self) -> Playbook | None:
        """Its runnable half; None when there is none, or it has fatal mistakes."""
        return self._parsed_playbook[0]

    @property
    def problems(self) -> list[SkillProblem]:
        return self._parsed_playbook[1]

    @property
    def files(self) -> list[str]:
        """What lies beside SKILL.md, by its path in the folder."""
        found = (path.relative_to(self.folder).as_posix() for path in list_skill_files(self.folder))
        return [path for path in found if path != SKILL_FILE]

    def read_linked_file(self, path: str) -> str:
        """The text of one of its files. Raises `SettingsError` naming those there are."""
        if path not in self.files:
            known = ", ".join(self.files) or "no other files"
            raise SettingsError(f"{self.name} has no file {path!r}; there are: {known}")
        return _read_text(self.folder / path)


class SkillLibrary:
    def __init__(
        self, roots: Sequence[SkillRoot], states: Mapping[str, SkillState] | None = None
    ) -> None:
        """`states` by the name of a skill, as its life so far has left it."""
        self.roots = tuple(roots)
        self._states = states or {}
        self.problems: list[SkillProblem] = []

    @cached_property
    def skills_by_name(self) -> dict[str, Skill]:
        """By name, also retired ones."""
        found: dict[str, Skill] = {}
        for root in self.roots:
            for folder in find_skill_folders(root.path):
                skill = self._load(folder, root)
                if skill is not None:
                    found[skill.name] = skill
        return dict(sorted(found.items()))

    @property
    def skills(self) -> list[Skill]:
        """Those in use."""
        return [skill for skill in self.skills_by_name.values() if skill.state != "retired"]

    def find(self, name: str) -> Skill:
        """Raises `SettingsError` naming what is near."""
        if name in self.skills_by_name:
            return self.skills_by_name[name]
        near = [each for each in self.skills_by_name if name.split("-")[0] in each][:5]
        hint = f"; near: {', '.join(near)}" if near else ""
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
        except YamlFileError as mistake:
            self.problems.append(SkillProblem(str(folder / SKILL_FILE), mistake.line, str(mistake)))
        except (OSError, SettingsError) as error:
            self.problems.append(SkillProblem(str(folder / SKILL_FILE), 1, str(error)))
        return None


def _read_text(file: Path) -> str:
    if file.stat().st_size > MAX_SKILL_FILE_BYTES:
        raise SettingsError(
            f"{file} is larger than {MAX_SKILL_FILE_BYTES >> 10} KiB and is not read"
        )
    return file.read_text(encoding="utf-8", errors="replace")
