"""The agent's way into the library: little by little, within its budget."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.core.events import Event
from hermes.core.events.skills import SkillShown
from hermes.core.knowledge import SkillCard
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.models.message_format import text_tokens
from hermes.tools.skills import MAX_INDEX_TOKENS, make_skills, render_skill_index

pytestmark = pytest.mark.anyio


class SkillList:
    def __init__(self, count: int) -> None:
        self._cards = [
            SkillCard(name=f"skill-{n}", description="fixes it when broken " * 9, category="c")
            for n in range(count)
        ]

    async def categories(self) -> Sequence[tuple[str, int]]:
        return [("c", len(self._cards))]

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        return self._cards

    async def body(self, name: str) -> str:
        if name not in {card.name for card in self._cards}:
            raise ToolError(f"there is no skill {name!r}")
        return f"the whole of {name}"

    async def outline(self, name: str) -> str:
        return f"# heads of {name}"

    async def linked(self, name: str, file: str) -> str:
        return "x" * 100_000


class SkillToolSetup:
    def __init__(self, folder: Path, count: int = 5) -> None:
        self.events: list[Event] = []
        self.tools = make_skills(SkillList(count))
        self.context = ToolContext(
            run="r",
            environment=LocalEnvironment(folder, {}),
            publish=self._publish,
            call=self._call,
            artifacts=FileArtifacts(folder),
        )

    async def _publish(self, *events: Event) -> Sequence[int]:
        self.events.extend(events)
        return ()

    async def _call(self, call: ToolCall) -> ToolResult:
        raise AssertionError("nobody is called")

    async def ask(self, tool: str, **arguments: str) -> str:
        return await self.tools[tool](self.context, arguments)


async def test_the_index_keeps_to_its_budget_and_counts_what_it_left_out(tmp_path: Path) -> None:
    told = await SkillToolSetup(tmp_path, 200).ask("skills_list")
    assert text_tokens(told) <= MAX_INDEX_TOKENS
    assert "more: ask with a category or a task)" in told
    assert render_skill_index([]) == ""


async def test_a_run_reads_at_most_two_whole_skills(tmp_path: Path) -> None:
    setup = SkillToolSetup(tmp_path)
    assert await setup.ask("skill_view", name="skill-0") == "the whole of skill-0"
    assert await setup.ask("skill_view", name="skill-1") == "the whole of skill-1"
    third = await setup.ask("skill_view", name="skill-2")
    assert "# heads of skill-2" in third
    assert "the whole of" not in third
    assert await setup.ask("skill_view", name="skill-1") == "the whole of skill-1"
    shown = [event.skill for event in setup.events if isinstance(event, SkillShown)]
    assert shown == ["skill-0", "skill-1", "skill-1"]


async def test_a_skill_that_is_not_there_costs_no_place(tmp_path: Path) -> None:
    setup = SkillToolSetup(tmp_path)
    for _ in range(3):
        with pytest.raises(ToolError):
            await setup.ask("skill_view", name="none")
    assert await setup.ask("skill_view", name="skill-0") == "the whole of skill-0"


async def test_a_linked_file_is_cut_to_its_budget(tmp_path: Path) -> None:
    told = await SkillToolSetup(tmp_path).ask(
        "skill_view", name="skill-0", file="references/long.md"
    )
    assert len(told) < 20_000
    assert "characters left out" in told


async def test_categories_are_named_with_their_number(tmp_path: Path) -> None:
    assert await SkillToolSetup(tmp_path).ask("skills_categories") == "c (5)"
