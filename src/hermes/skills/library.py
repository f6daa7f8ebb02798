"""All skills of a house: bundled, of the person, of the project; the nearer one wins by name."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillState
from hermes.skills.cards import SKILL, Origin, Root, folders
from hermes.skills.format.digest import digest_of, files_of
from hermes.skills.format.places import Mistake
from hermes.skills.format.problem import Problem
from hermes.skills.format.shared import Shelf
from hermes.skills.format.skill_text import SkillText, read_skill
from hermes.skills.playbook.reading import FILE as PLAYBOOK
from hermes.skills.playbook.reading import read_playbook
from hermes.skills.playbook.schema import Playbook

LARGEST = 512 << 10
"""Bytes of one file that are read."""


class Skill:
    """One skill, read from its folder as its parts are asked for."""

    def __init__(
        self, folder: Path, root: Root, text: SkillText, state: SkillState | None = None
    ) -> None:
        self.folder = folder
        self.origin: Origin = root.origin
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
        return digest_of(self.folder)

    @cached_property
    def _read(self) -> tuple[Playbook | None, list[Problem]]:
        file = self.folder / PLAYBOOK
        if not file.is_file():
            return None, []
        return read_playbook(_text_of(file), str(file), Shelf(self.folder))

    @property
    def playbook(self) -> Playbook | None:
        """Its runnable half; None when there is none, or it has fatal mistakes."""
        return self._read[0]

    @property
    def problems(self) -> list[Problem]:
        return self._read[1]

    @property
    def files(self) -> list[str]:
        """What lies beside SKILL.md, by its path in the folder."""
        found = (path.relative_to(self.folder).as_posix() for path in files_of(self.folder))
        return [path for path in found if path != SKILL]

    def linked(self, path: str) -> str:
        """The text of one of its files. Raises `SettingsError` naming those there are."""
        if path not in self.files:
            known = ", ".join(self.files) or "no other files"
            raise SettingsError(f"{self.name} has no file {path!r}; there are: {known}")
        return _text_of(self.folder / path)


class Library:
    def __init__(
        self, roots: Sequence[Root], states: Mapping[str, SkillState] | None = None
    ) -> None:
        """`states` by the name of a skill, as its life so far has left it."""
        self.roots = tuple(roots)
        self._states = states or {}
        self.mistakes: list[Problem] = []

    @cached_property
    def all(self) -> dict[str, Skill]:
        """By name, also retired ones."""
        found: dict[str, Skill] = {}
        for root in self.roots:
            for folder in folders(root.path):
                skill = self._load(folder, root)
                if skill is not None:
                    found[skill.name] = skill
        return dict(sorted(found.items()))

    @property
    def skills(self) -> list[Skill]:
        """Those in use."""
        return [skill for skill in self.all.values() if skill.state != "retired"]

    def find(self, name: str) -> Skill:
        """Raises `SettingsError` naming what is near."""
        if name in self.all:
            return self.all[name]
        near = [each for each in self.all if name.split("-")[0] in each][:5]
        hint = f"; near: {', '.join(near)}" if near else ""
        raise SettingsError(f"there is no skill {name!r}{hint}; see: hermes skills list")

    def categories(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for skill in self.skills:
            found[skill.category] = found.get(skill.category, 0) + 1
        return dict(sorted(found.items()))

    def _load(self, folder: Path, root: Root) -> Skill | None:
        try:
            text = read_skill(_text_of(folder / SKILL), folder=folder.name)
            return Skill(folder, root, text, self._states.get(folder.name))
        except Mistake as mistake:
            self.mistakes.append(Problem(str(folder / SKILL), mistake.line, str(mistake)))
        except (OSError, SettingsError) as error:
            self.mistakes.append(Problem(str(folder / SKILL), 1, str(error)))
        return None


def _text_of(file: Path) -> str:
    if file.stat().st_size > LARGEST:
        raise SettingsError(f"{file} is larger than {LARGEST >> 10} KiB and is not read")
    return file.read_text(encoding="utf-8", errors="replace")
