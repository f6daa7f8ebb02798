"""Whole files, and nobody else's changes lost."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from tool_setup import ToolSetup, file_tools, local

pytestmark = pytest.mark.anyio


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        yield ToolSetup(environment, file_tools())


async def test_a_new_file_is_made_with_its_folders(setup: ToolSetup, tmp_path: Path) -> None:
    told = await setup.ok("write_file", path="a/b/c.txt", content="x\ny")
    assert told == "created a/b/c.txt: 2 lines, 3 bytes"
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"x\ny"
    assert setup.person.asked[0].call.name == "write_file"


async def test_replacing_says_how_many_lines_there_were(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    told = await setup.ok("write_file", path="a.txt", content="1\n")
    assert told == "replaced a.txt: 3 lines before, 1 now"
    assert await setup.ok("write_file", path="a.txt", content="1\n") == (
        "a.txt already held exactly this: 1 lines"
    )


async def test_a_file_changed_by_somebody_else_is_not_overwritten(
    setup: ToolSetup, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("mine\n")
    await setup.ok("read_file", path="a.txt")
    path.write_text("theirs\n")
    for _ in range(2):  # asking again is not reading again
        told = await setup.fails("write_file", path="./a.txt", content="mine too\n")
        assert "changed by somebody else since you last read it" in told
    assert path.read_text() == "theirs\n"
    await setup.ok("read_file", path="a.txt")
    await setup.ok("write_file", path="a.txt", content="both\n")
    assert path.read_text() == "both\n"


async def test_a_large_file_changed_by_somebody_else_is_noticed_too(
    setup: ToolSetup, tmp_path: Path
) -> None:
    path = tmp_path / "big.txt"
    path.write_text("line\n" * 100_000)
    await setup.ok("read_file", path="big.txt", offset=90_000, limit=1)
    new = "line\n" * 99_999 + "end\n"
    told = await setup.ok("patch", path="big.txt", old="line\n" * 100_000, new=new)
    assert told == "patched big.txt\n@@ line 100000 @@\n-line\n+end"
    await setup.ok("read_file", path="big.txt", limit=1)
    path.write_text("other\n" * 100_000)
    assert "somebody else" in await setup.fails("write_file", path="big.txt", content="")


async def test_what_this_run_wrote_itself_is_known_to_it(setup: ToolSetup, tmp_path: Path) -> None:
    await setup.ok("write_file", path="a.txt", content="1\n")
    await setup.ok("write_file", path="a.txt", content="2\n")
    (tmp_path / "a.txt").write_text("3\n")
    assert "somebody else" in await setup.fails("write_file", path="a.txt", content="4\n")


async def test_each_run_has_seen_what_it_has_seen_itself(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    await setup.ok("read_file", run="one", path="a.txt")
    await setup.ok("write_file", run="two", path="a.txt", content="2\n")
    assert "somebody else" in await setup.fails(
        "write_file", run="one", path="a.txt", content="3\n"
    )


async def test_a_file_deleted_meanwhile_is_not_silently_brought_back(
    setup: ToolSetup, tmp_path: Path
) -> None:
    await setup.ok("write_file", path="a.txt", content="1\n")
    (tmp_path / "a.txt").unlink()
    assert "was deleted" in await setup.fails("write_file", path="a.txt", content="2\n")
    assert not (tmp_path / "a.txt").exists()
    await setup.ok("write_file", path="a.txt", content="2\n")


async def test_two_writers_side_by_side_leave_one_whole_text(
    setup: ToolSetup, tmp_path: Path
) -> None:
    texts = [f"{n}\n" * 20_000 for n in range(6)]
    async with anyio.create_task_group() as group:
        for text in texts:
            group.start_soon(_write, setup, text)
    assert (tmp_path / "a.txt").read_text() in texts


async def _write(setup: ToolSetup, text: str) -> None:
    await setup.ok("write_file", path="a.txt", content=text)


async def test_what_cannot_be_written_is_told(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "folder" in await setup.fails("write_file", path="folder", content="x")
    assert "not valid text" in await setup.fails("write_file", path="a", content="\ud800")
