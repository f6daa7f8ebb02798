"""Pictures in the results of tools: checked, kept as artifacts, and refused in plain words."""

from pathlib import Path

import pytest
from tool_setup import House, file_tools, local

from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.memory.artifacts import FileArtifacts
from hermes.tools.declare import tool
from picture_samples import bomb, picture

pytestmark = pytest.mark.anyio


@tool(risk=Risk.READ)
async def look(context: ToolContext, count: int = 1) -> str:
    """Look."""
    for number in range(count):
        await context.add_picture(picture(), f"view\u202e {number}")
    return "looked"


async def test_read_file_shows_a_picture(tmp_path: Path) -> None:
    (tmp_path / "graph.png").write_bytes(picture("PNG", (300, 200)))
    async with local(tmp_path) as environment:
        built = House(environment, file_tools())
        built.shelf = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        result = await built.result("read_file", path="graph.png")
        (shown,) = result.pictures
        again = await built.result("read_file", path=shown.artifact)
    assert result.content == "graph.png is a picture, 300 × 200 pixels (image/png)"
    assert (shown.media, shown.width, shown.height) == ("image/png", 300, 200)
    assert again.pictures[0].width == 300


async def test_read_file_says_why_a_picture_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb())
    async with local(tmp_path) as environment:
        built = House(environment, file_tools())
        built.shelf = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        result = await built.result("read_file", path="bomb.png")
    assert "30,000 × 30,000 pixels" in result.content
    assert not result.pictures


async def test_a_tool_adds_pictures_to_its_own_result(tmp_path: Path) -> None:
    tools: dict[str, Tool] = {"look": look}
    async with local(tmp_path) as environment:
        built = House(environment, tools)
        built.shelf = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        two, many = await built.result("look", count=2), await built.result("look", count=11)
    assert [each.alt for each in two.pictures] == ["view 0", "view 1"]
    assert "at most 10 pictures" in many.content


async def test_without_a_store_for_bytes_the_tool_says_so(tmp_path: Path) -> None:
    async with local(tmp_path) as environment:
        built = House(environment, {"look": look})
        assert "cannot be kept" in await built.fails("look")
