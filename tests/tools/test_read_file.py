"""Windows of lines, whatever the file is like."""

import resource
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tool_setup import ToolSetup, file_tools, local

from hermes.tools.executor import MAX_PREVIEW_CHARS
from hermes.tools.files.read_write import READ_CHUNK_BYTES

pytestmark = pytest.mark.anyio


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        yield ToolSetup(environment, file_tools())


async def test_a_small_file_is_shown_whole_with_numbers(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n\nfour")
    assert await setup.ok("read_file", path="a.txt") == "1|one\n2|two\n3|\n4|four"
    assert await setup.ok("read_file", path=str(tmp_path / "a.txt")) == "1|one\n2|two\n3|\n4|four"
    assert setup.person.asked == []


async def test_a_window_says_where_it_ends_and_how_to_go_on(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    told = await setup.ok("read_file", path="a.txt", offset=10, limit=2)
    assert told == "10|line 10\n11|line 11\n[lines 10-11 of 100 lines; go on with offset=12]"
    told = await setup.ok("read_file", path="a.txt", offset=99)
    assert told == "99|line 99\n100|line 100\n[lines 99-100 of 100 lines: the end]"
    told = await setup.fails("read_file", path="a.txt", offset=101)
    assert told == "line 101 is past the end: there are 100 lines"


async def test_a_window_ends_before_it_would_overflow_into_an_artifact(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 400)
    result = await setup.result("read_file", path="a.txt")
    assert result.artifact == ""
    assert len(result.content) <= MAX_PREVIEW_CHARS
    last = result.content.splitlines()[-1]
    following = int(last.rpartition("=")[2].rstrip("]"))
    again = await setup.ok("read_file", path="a.txt", offset=following)
    assert again.startswith(f"{following}|yyy")


async def test_a_long_line_is_cut_and_says_so(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 5000 + "\nshort\n")
    first, second = (await setup.ok("read_file", path="a.txt")).splitlines()
    assert first == "1|" + "a" * 2000 + " [… 3,000 more in this line]"
    assert second == "2|short"


async def test_special_files_are_named_as_what_they_are(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\1" * 100)
    told = await setup.ok("read_file", path="binary")
    assert told == (
        "binary is a binary file of 600 bytes; "
        "it begins with 7f 45 4c 46 00 01 7f 45 4c 46 00 01 7f 45 4c 46"
    )
    (tmp_path / "empty").touch()
    assert await setup.ok("read_file", path="empty") == "[empty file]"
    (tmp_path / "dos.txt").write_bytes(b"a\r\nb\r\n")
    assert await setup.ok("read_file", path="dos.txt") == "1|a\n2|b\n[lines end in CRLF]"
    (tmp_path / "old.txt").write_bytes("Grüße\n".encode("latin-1"))
    assert await setup.ok("read_file", path="old.txt") == "1|Grüße"
    (tmp_path / "wide.txt").write_text("päron\n", encoding="utf-16")
    assert await setup.ok("read_file", path="wide.txt") == "1|päron"


async def test_a_missing_file_brings_the_nearest_names(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("settings.py", "setup.py", "main.py"):
        (tmp_path / "src" / name).touch()
    told = await setup.fails("read_file", path="src/setings.py")
    assert "Did you mean: src/settings.py" in told
    assert "main.py" not in told
    told = await setup.fails("read_file", path="source/main.py")
    assert "Did you mean: ./src/" in told
    told = await setup.fails("read_file", path="src/zzzzzz")
    assert "src holds: main.py, settings.py, setup.py" in told
    told = await setup.fails("read_file", path="src")
    assert "src is a folder" in told


@pytest.mark.parametrize(
    "name", ["-n", "a\nb.txt", 'it\'s "$(touch hacked)" `x`.txt', "*", "ü – ß"]
)
async def test_names_of_any_kind_are_opened_and_never_run(
    setup: ToolSetup, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("".join(f"{n}\n" for n in range(1, 100_000)))
    told = await setup.ok("read_file", path=name, offset=70_000, limit=1)
    assert told.startswith("70000|70000\n")
    await setup.fails("read_file", path=f"no {name}")
    assert not (tmp_path / "hacked").exists()


async def test_a_large_file_is_read_by_windows(setup: ToolSetup, tmp_path: Path) -> None:
    lines = [f"line {n} – ünïcode" for n in range(1, 50_001)]
    (tmp_path / "big.log").write_text("\n".join(lines))
    assert (tmp_path / "big.log").stat().st_size > 2 * READ_CHUNK_BYTES
    told = await setup.ok("read_file", path="big.log", limit=2)
    size = f"{(tmp_path / 'big.log').stat().st_size:,}"
    assert told == (f"1|{lines[0]}\n2|{lines[1]}\n[lines 1-2 of {size} bytes; go on with offset=3]")
    told = await setup.ok("read_file", path="big.log", offset=40_000, limit=3)
    assert told.splitlines()[:3] == [f"{n}|{lines[n - 1]}" for n in (40_000, 40_001, 40_002)]
    told = await setup.ok("read_file", path="big.log", offset=49_999, limit=2)
    assert told.splitlines() == [
        f"49999|{lines[-2]}",
        f"50000|{lines[-1]}",
        f"[lines 49999-50000 of {size} bytes: the end]",
    ]
    told = await setup.fails("read_file", path="big.log", offset=50_002)
    assert "past the end" in told


async def test_a_window_may_end_anywhere_between_two_pieces(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "big.txt").write_bytes(
        b"x" * (READ_CHUNK_BYTES - 1) + b"\nnext\n" + b"z\n" * 200_000
    )
    told = await setup.ok("read_file", path="big.txt", limit=2)
    first, second, _ = told.splitlines()
    assert first == "1|" + "x" * 2000 + f" [… {READ_CHUNK_BYTES - 2001:,} more in this line]"
    assert second == "2|next"


async def test_gigabytes_cost_no_memory(setup: ToolSetup, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"first\nsecond\n" * 50_000)
        file.truncate(3 * 1024**3)  # a hole: three gigabytes without a line end
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = await setup.ok("read_file", path="huge", offset=1, limit=2)
    assert told.startswith("1|first\n2|second\n[lines 1-2 of 3,221,225,472 bytes")
    told = await setup.ok("read_file", path="huge", offset=100_001, limit=5)
    assert told.startswith("100001|")
    assert "more in this line" in told
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 60_000  # KiB


async def test_an_artifact_is_opened_like_a_file(setup: ToolSetup) -> None:
    reference = await setup.artifacts.save("run", "call", "".join(f"{n}\n" for n in range(1, 2001)))
    told = await setup.ok("read_file", path=reference, offset=1500, limit=1)
    assert told == "1500|1500\n[lines 1500-1500 of 2,000 lines; go on with offset=1501]"
    assert "there is no artifact" in await setup.fails("read_file", path="artifact://run/none")


async def test_lines_are_counted_from_one(setup: ToolSetup) -> None:
    assert ">= 1" in await setup.fails("read_file", path="a", offset=0)
