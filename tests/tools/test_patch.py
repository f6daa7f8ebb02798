"""Changes to files: the right place or none, all or nothing, and not a byte more."""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from tool_setup import ToolSetup, file_tools, local

pytestmark = pytest.mark.anyio

PYTHON = """def total(values):
    return sum(values)


def mean(values):
    return total(values) / len(values)
"""


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        yield ToolSetup(environment, file_tools())


async def test_a_passage_is_replaced_and_a_short_diff_returned(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    told = await setup.ok("patch", path="m.py", old="sum(values)", new="float(sum(values))")
    assert told == (
        "patched m.py\n@@ line 2 @@\n-    return sum(values)\n+    return float(sum(values))"
    )
    assert (tmp_path / "m.py").read_text() == PYTHON.replace("sum(values)", "float(sum(values))")


async def test_an_ambiguous_passage_changes_nothing_and_lists_the_places(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("x = 1\ny = 2\nx = 1\n")
    told = await setup.fails("patch", path="a", old="x = 1", new="x = 3")
    assert "found 2 times in a, at lines 1, 3" in told
    assert (tmp_path / "a").read_text() == "x = 1\ny = 2\nx = 1\n"
    told = await setup.ok("patch", path="a", old="x = 1", new="x = 3", replace_all=True)
    assert told.count("+x = 3") == 2
    assert (tmp_path / "a").read_text() == "x = 3\ny = 2\nx = 3\n"


async def test_what_is_not_there_brings_the_nearest_lines(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    told = await setup.fails("patch", path="m.py", old="return totals(value) / len(value)", new="x")
    assert "6|    return total(values) / len(values)" in told
    assert (tmp_path / "m.py").read_text() == PYTHON


async def test_what_had_to_be_ignored_is_said(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    told = await setup.ok(
        "patch",
        path="m.py",
        old="return sum(values)\n\n\ndef mean(values):\n",
        new="return sum(values)\n",
    )
    # The first line is found as written, from the middle of its line on.
    assert "ignoring" not in told
    (tmp_path / "n.py").write_text(PYTHON)
    told = await setup.ok(
        "patch",
        path="n.py",
        old="  def mean(values):\n      return total(values) / len(values)",
        new="  def mean(values):\n      return 0",
    )
    assert "found ignoring the depth of indentation" in told
    assert (tmp_path / "n.py").read_text().endswith("def mean(values):\n    return 0\n")


@pytest.mark.parametrize(
    "before",
    [
        b"a\r\nb\r\nc\r\n",
        b"a\nb\nc",
        b"\xef\xbb\xbfa\nb\nc\n",
        "ä\nb\nü\n".encode("latin-1"),
        b"bad \xff byte \xc3\xa9\xc3\xa9\nb\n",
        "ä\nb\nü\n".encode("utf-16"),
        b"mixed\r\nb\nends\r\n",
    ],
)
async def test_encoding_line_ends_and_the_last_line_end_are_kept(
    setup: ToolSetup, tmp_path: Path, before: bytes
) -> None:
    (tmp_path / "f").write_bytes(before)
    (tmp_path / "f").chmod(0o750)
    await setup.ok("patch", path="f", old="b", new="B", replace_all=True)
    wide = before.startswith(b"\xff\xfe")
    plain = (b"b\0", b"B\0") if wide else (b"b", b"B")
    assert (tmp_path / "f").read_bytes() == before.replace(*plain)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o750


async def test_a_stale_file_is_refused(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    await setup.ok("read_file", path="a")
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    assert "somebody else" in await setup.fails("patch", path="a", old="one", new="1")
    diff = "--- a\n+++ a\n@@ -1 +1 @@\n-one\n+1\n"
    assert "somebody else" in await setup.fails("patch", diff=diff)
    assert (tmp_path / "a").read_text() == "one\ntwo\nthree\n"


async def test_changes_side_by_side_do_not_undo_each_other(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in range(20)))
    await setup.ok("read_file", path="a")
    async with anyio.create_task_group() as group:
        for n in range(20):
            group.start_soon(_mark, setup, n)
    assert (tmp_path / "a").read_text() == "".join(f"[{n}]\n" for n in range(20))


async def _mark(setup: ToolSetup, n: int) -> None:
    await setup.ok("patch", path="a", old=f"<{n}>", new=f"[{n}]")


DIFF = """--- a/m.py
+++ b/m.py
@@ -1,2 +1,3 @@
 def total(values):
-    return sum(values)
+    # of numbers
+    return float(sum(values))
@@ -5,2 +6,2 @@
 def mean(values):
-    return total(values) / len(values)
+    return total(values) / max(1, len(values))
--- /dev/null
+++ b/new/notes.txt
@@ -0,0 +1,2 @@
+first
+second
"""


async def test_a_diff_changes_and_creates_several_files(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    told = await setup.ok("patch", diff=DIFF)
    assert "patched m.py" in told
    assert "created new/notes.txt\n2 lines" in told
    assert (tmp_path / "m.py").read_text() == (
        PYTHON.replace(
            "    return sum(values)", "    # of numbers\n    return float(sum(values))"
        ).replace("/ len(values)", "/ max(1, len(values))")
    )
    assert (tmp_path / "new/notes.txt").read_text() == "first\nsecond\n"


async def test_a_diff_of_which_one_part_does_not_fit_changes_nothing(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(PYTHON.replace("len(values)", "count(values)"))
    before = (tmp_path / "m.py").read_bytes()
    assert "does not hold this text" in await setup.fails("patch", diff=DIFF)
    assert (tmp_path / "m.py").read_bytes() == before
    assert not (tmp_path / "new").exists()


async def test_a_write_that_fails_takes_the_earlier_ones_back(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text(PYTHON)
    (tmp_path / "new").write_text("a file where a folder is wanted")
    await setup.fails("patch", diff=DIFF)
    assert (tmp_path / "m.py").read_text() == PYTHON


async def test_a_file_made_before_a_failure_is_taken_away_again(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "folder").write_text("a file")
    diff = (
        "--- /dev/null\n+++ b/-first\n@@ -0,0 +1 @@\n+x\n"
        "--- /dev/null\n+++ b/folder/second\n@@ -0,0 +1 @@\n+x\n"
    )
    await setup.fails("patch", diff=diff)
    assert (await setup.environment.run("ls -A")).output.split() == ["folder"]


async def test_line_numbers_of_a_diff_only_break_ties(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n1\nx\n2\nx\n3\n")
    await setup.ok("patch", diff="--- a\n+++ a\n@@ -3,1 +3,1 @@\n-x\n+y\n")
    assert (tmp_path / "a").read_text() == "x\n1\ny\n2\nx\n3\n"
    told = await setup.fails("patch", diff="--- a\n+++ a\n@@\n-x\n+z\n")
    assert "fits a in 2 places, at lines 1, 5" in told
    await setup.ok("patch", path="a", diff="@@ -900,2 +900,2 @@\n-x\n+z\n 3\n")
    assert (tmp_path / "a").read_text() == "x\n1\ny\n2\nz\n3\n"


async def test_a_diff_as_models_write_it_is_understood(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_bytes(b"one\r\n\r\ntwo  \r\nthree")
    diff = (
        "diff --git a/a b.txt b/a b.txt\nindex 1..2 100644\n--- a/a b.txt\n+++ b/a b.txt\n"
        "@@ somewhere @@\n one\n\n-two\n+2\n three\n\\ No newline at end of file\n\n\n"
    )
    await setup.ok("patch", diff=diff)
    assert (tmp_path / "a b.txt").read_bytes() == b"one\r\n\r\n2\r\nthree"


@pytest.mark.parametrize(
    ("diff", "told"),
    [
        ("nonsense", "the diff is empty"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk without a file"),
        ("--- a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "deletes a"),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-one\n+1\n", "renames a to b"),
        ("--- a\n+++ a\n@@ -1 +1 @@\n-one\n*bad\n", "line 5 of the diff begins with '*'"),
        ("--- a\n+++ a\n@@ -1 +1 @@\n one\n", "changes nothing"),
        ("--- a\n+++ a\n", "has no hunk"),
        ("--- /dev/null\n+++ a\n@@ -0,0 +1 @@\n+x\n", "is there already"),
        ("--- none\n+++ none\n@@ -1 +1 @@\n-one\n+1\n", "none"),
    ],
)
async def test_a_diff_that_cannot_be_is_refused_with_the_cause(
    setup: ToolSetup, tmp_path: Path, diff: str, told: str
) -> None:
    (tmp_path / "a").write_text("one\n")
    assert told in await setup.fails("patch", diff=diff)
    assert (tmp_path / "a").read_text() == "one\n"


async def test_lines_can_be_added_after_a_numbered_one(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3")
    await setup.ok("patch", diff="--- a\n+++ a\n@@ -1,0 +2,1 @@\n+1.5\n")
    assert (tmp_path / "a").read_text() == "1\n1.5\n2\n3"
    await setup.ok("patch", diff="--- a\n+++ a\n@@ -4,0 +5,1 @@\n+4\n")
    assert (tmp_path / "a").read_text() == "1\n1.5\n2\n3\n4"
    assert "context" in await setup.fails("patch", diff="--- a\n+++ a\n@@\n+x\n")


async def test_calls_that_make_no_sense_are_told_why(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_bytes(b"\0\1")
    assert "either" in await setup.fails("patch", path="a")
    assert "either" in await setup.fails("patch", path="a", old="one", diff="x")
    assert "the same" in await setup.fails("patch", path="a", old="one", new="one")
    assert "which file" in await setup.fails("patch", old="one", new="two")
    assert "not a text file" in await setup.fails("patch", path="b", old="one", new="two")
    assert "Did you mean" in await setup.fails("patch", path="aa", old="one", new="two")


async def test_a_very_large_file_is_left_to_sed(setup: ToolSetup, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert "sed" in await setup.fails("patch", path="huge", old="x", new="y")
