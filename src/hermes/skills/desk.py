"""The library as the agent's tools see it. Fulfils `core.skills.KnowsSkills`."""

from collections.abc import Sequence
from functools import cached_property

from hermes.core.errors import SettingsError, ToolError
from hermes.core.skills import SkillCard
from hermes.skills.library import Library, Skill
from hermes.skills.matching import Matcher
from hermes.skills.playbook.reading import FILE as PLAYBOOK


class SkillDesk:
    def __init__(self, library: Library) -> None:
        self._library = library

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self._library.skills)

    async def categories(self) -> Sequence[tuple[str, int]]:
        return list(self._library.categories().items())

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        skills = self._library.skills
        if category:
            known = self._library.categories()
            if category not in known:
                raise ToolError(f"there is no category {category!r}; there are: {', '.join(known)}")
            skills = [skill for skill in skills if skill.category == category]
        if task:
            found = self._matcher.rank(task, limit=len(self._library.all), floor=0.0)
            place = {match.skill: number for number, match in enumerate(found)}
            skills.sort(key=lambda skill: place.get(skill.name, len(place)))
        return [card_of(skill) for skill in skills]

    async def body(self, name: str) -> str:
        skill = self._find(name)
        files = f"\n\nFiles beside it: {', '.join(skill.files)}" if skill.files else ""
        return f"{skill.text.body.strip()}{files}"

    async def outline(self, name: str) -> str:
        skill = self._find(name)
        heads = [line for line in skill.text.body.splitlines() if line.startswith("#")]
        return "\n".join([skill.description, *heads, *(f"file: {file}" for file in skill.files)])

    async def linked(self, name: str, file: str) -> str:
        try:
            return self._find(name).linked(file)
        except SettingsError as error:
            raise ToolError(str(error)) from error

    def _find(self, name: str) -> Skill:
        try:
            return self._library.find(name)
        except SettingsError as error:
            near = [match.skill for match in self._matcher.rank(name, limit=3, floor=0.1)]
            hint = f"near: {', '.join(near)}" if near else "skills_list shows them"
            raise ToolError(f"there is no skill {name!r}; {hint}") from error


def card_of(skill: Skill) -> SkillCard:
    return SkillCard(
        name=skill.name,
        description=skill.description,
        category=skill.category,
        playbook=PLAYBOOK in skill.files,
    )
