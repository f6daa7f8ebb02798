"""Pictures in the results of tools: checked, kept as artifacts, and refused in plain words."""

from pathlib import Path

import pytest
from tool_setup import ToolSetup, file_tools, local

from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.memory.artifacts import FileArtifacts
from hermes.tools.declare import tool
from picture_samples import bomb, picture, png_chunk

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
        built = ToolSetup(environment, file_tools())
        built.artifacts = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        result = await built.result("read_file", path="graph.png")
        (shown,) = result.pictures
        again = await built.result("read_file", path=shown.artifact)
    assert result.content == "graph.png is a picture, 300 × 200 pixels (image/png)"
    assert (shown.media, shown.width, shown.height) == ("image/png", 300, 200)
    assert again.pictures[0].width == 300


async def test_read_file_says_why_a_picture_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb())
    async with local(tmp_path) as environment:
        built = ToolSetup(environment, file_tools())
        built.artifacts = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        result = await built.result("read_file", path="bomb.png")
    assert "30,000 × 30,000 pixels" in result.content
    assert not result.pictures


async def test_a_tool_adds_pictures_to_its_own_result(tmp_path: Path) -> None:
    tools: dict[str, Tool] = {"look": look}
    async with local(tmp_path) as environment:
        built = ToolSetup(environment, tools)
        built.artifacts = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        two, many = await built.result("look", count=2), await built.result("look", count=11)
    assert [each.alt for each in two.pictures] == ["view 0", "view 1"]
    assert "at most 10 pictures" in many.content


async def test_without_a_store_for_bytes_the_tool_says_so(tmp_path: Path) -> None:
    async with local(tmp_path) as environment:
        built = ToolSetup(environment, {"look": look})
        assert "cannot be kept" in await built.fails("look")


def padded_picture(size: int) -> bytes:
    """A whole PNG of at least `size` bytes, most of them in a note that is not the picture."""
    plain = picture()
    return plain[:-12] + png_chunk(b"teXt", bytes(size)) + plain[-12:]


async def test_read_file_shows_a_picture_of_17_mb(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(padded_picture(17 * 1024 * 1024))
    async with local(tmp_path) as environment:
        built = ToolSetup(environment, file_tools())
        built.artifacts = FileArtifacts(tmp_path / "kept")  # type: ignore[assignment]
        result = await built.result("read_file", path="large.png")
    assert result.content == "large.png is a picture, 64 × 48 pixels (image/png)"


async def test_read_file_tells_the_real_size_of_a_picture_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "huge.png").write_bytes(data := padded_picture(22 * 1024 * 1024))
    async with local(tmp_path) as environment:
        result = await ToolSetup(environment, file_tools()).result("read_file", path="huge.png")
    assert f"{len(data):,} bytes" in result.content
    assert "cannot be shown: a picture has at most 20,971,520 bytes" in result.content
