"""Searching with whatever the place has: ripgrep, grep and find, or Python."""

import shutil
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_setup import ToolSetup, file_tools, local

from hermes.core.actions import ConfinementProfile
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.tools.executor import MAX_PREVIEW_CHARS
from hermes.tools.files.search import FileSearch, name_regex, search_command

pytestmark = pytest.mark.anyio
NOT_CONFINED = support.kernel_support().reason

PLAIN = ("bash", "tail", "head", "cut", "tr", "sort", "mv", "dirname", "ls", "cat", "rm", "mkdir")
SEARCHERS = {"ripgrep": ("rg",), "grep": ("grep", "find"), "python": ("python3",)}


def programs(folder: Path, *names: str) -> Path:
    """A folder to be the whole PATH."""
    folder.mkdir()
    for name in names:
        found = sys.executable if name == "python3" else shutil.which(name)
        if found is None:
            pytest.skip(f"there is no {name} on this machine")
        (folder / name).symlink_to(Path(found).resolve())
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src/deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".git/config").write_text("needle in git\n")
    (root / "src/a.py").write_text("def one():\n    return 'needle 1'\n\n\nx = 2\n")
    (root / "src/deep/b.js").write_text("// nothing\nlet needle = 22;\n")
    (root / "README.md").write_text("A needle.\n")
    (root / ".hidden").write_text("hidden needle\n")
    (root / "image.bin").write_bytes(b"\0\1needle\0")
    return root


@pytest.fixture(params=SEARCHERS)
async def setup(
    request: pytest.FixtureRequest, tmp_path: Path, tree: Path
) -> AsyncGenerator[ToolSetup, None]:
    path = programs(tmp_path / "bin", *PLAIN, *SEARCHERS[request.param])
    async with local(tree, PATH=str(path)) as environment:
        yield ToolSetup(environment, file_tools())


def lines(text: str) -> set[str]:
    return set(text.splitlines())


async def test_contents_are_found_with_file_and_line(setup: ToolSetup) -> None:
    told = await setup.ok("search_files", pattern="needle")
    assert lines(told) == {
        "src/a.py", "2:    return 'needle 1'",
        "src/deep/b.js", "2:let needle = 22;",
        "README.md", "1:A needle.",
        ".hidden", "1:hidden needle",
    }  # fmt: skip
    assert setup.person.asked == []


async def test_a_pattern_is_a_regular_expression(setup: ToolSetup) -> None:
    told = await setup.ok("search_files", pattern=r"needle\s*=? ?\d+'?$")
    assert lines(told) == {"src/a.py", "2:    return 'needle 1'"}
    assert await setup.ok("search_files", pattern="absent") == "nothing found"
    assert "the search failed" in await setup.fails("search_files", pattern="broken(")


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.py", {"src/a.py"}),
        ("*.{py,md}", {"src/a.py", "README.md"}),
        ("src/**/*.js", {"src/deep/b.js"}),
    ],
)
async def test_a_glob_narrows_the_files(setup: ToolSetup, glob: str, found: set[str]) -> None:
    told = await setup.ok("search_files", pattern="needle", glob=glob)
    assert {line for line in lines(told) if not line[0].isdigit()} == found


async def test_lines_around_a_hit_are_marked_as_such(setup: ToolSetup) -> None:
    told = await setup.ok("search_files", pattern="needle", path="src/a.py", context=1)
    assert told == "src/a.py\n1-def one():\n2:    return 'needle 1'\n3-"


async def test_names_are_found_by_glob_or_by_a_piece(setup: ToolSetup) -> None:
    assert await setup.ok("search_files", pattern="*.py", kind="names") == "src/a.py"
    assert await setup.ok("search_files", pattern="readme", kind="names") == "README.md"
    assert await setup.ok("search_files", pattern="deep/*", kind="names") == "src/deep/b.js"
    assert await setup.ok("search_files", pattern="deep", kind="names") == "nothing found"
    told = await setup.ok("search_files", pattern="*", kind="names")
    assert lines(told) == {".hidden", "README.md", "image.bin", "src/a.py", "src/deep/b.js"}
    assert "leave glob out" in await setup.fails(
        "search_files", pattern="a", kind="names", glob="*.py"
    )


async def test_a_search_goes_on_where_it_stopped(setup: ToolSetup, tree: Path) -> None:
    (tree / "many.txt").write_text("".join(f"row {n}\n" for n in range(1, 121)))
    told = await setup.ok("search_files", pattern="^row", limit=50, offset=50)
    assert told.splitlines()[:2] == ["many.txt", "51:row 51"]
    assert told.splitlines()[-1] == "[there are more: offset=100]"
    told = await setup.ok("search_files", pattern="^row", limit=50, offset=100)
    assert told.splitlines()[-1] == "120:row 120"
    assert await setup.ok("search_files", pattern="^row", offset=120) == "nothing more"
    told = await setup.ok("search_files", pattern="*", kind="names", limit=2, offset=1)
    assert told.splitlines()[-1] == "[there are more: offset=3]"


async def test_output_is_bounded_however_long_the_lines(setup: ToolSetup, tree: Path) -> None:
    (tree / "min.js").write_text(("needle " * 100_000 + "\n") * 3 + "needle " * 80 + "\n" * 400)
    result = await setup.result("search_files", pattern="needle", path="min.js")
    assert result.status == "ok"
    assert len(result.content) < MAX_PREVIEW_CHARS
    assert result.artifact == ""
    assert "\n4:needle needle" in result.content


NASTY = [
    "a\nb.txt",
    "-e.txt",
    "--files",
    "it's",
    'q"uote',
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked #",
    "*",
    "ü:12:x",
    "back\\slash",
]


async def test_nasty_names_are_searched_and_listed_and_never_run(
    setup: ToolSetup, tree: Path
) -> None:
    for name in NASTY:
        (tree / name).write_text("a thorn here\n")
    shown = {repr(name) if "\n" in name else name for name in NASTY}
    told = await setup.ok("search_files", pattern="thorn")
    assert lines(told) == shown | {"1:a thorn here"}
    assert shown <= lines(await setup.ok("search_files", pattern="*", kind="names"))
    for name in ("a\nb.txt", "-e.txt", "$(touch hacked)"):
        told = await setup.ok("search_files", pattern="thorn", path=name)
        assert told == f"{repr(name) if chr(10) in name else name}\n1:a thorn here"
    assert not (tree / "hacked").exists()


async def test_nasty_patterns_are_looked_for_and_never_run(setup: ToolSetup, tree: Path) -> None:
    for pattern in NASTY[3:8]:
        for kind in ("content", "names"):
            await setup.result("search_files", pattern=pattern, kind=kind)
    await setup.result("search_files", pattern="x", glob="$(touch hacked)'; touch hacked #")
    assert await setup.ok("search_files", pattern="-e") == "nothing found"
    assert not (tree / "hacked").exists()


async def test_a_missing_folder_brings_the_nearest(setup: ToolSetup) -> None:
    told = await setup.fails("search_files", pattern="x", path="scr")
    assert "there is no scr. Did you mean: ./src/?" in told


async def test_what_gitignore_names_is_left_out_where_there_is_ripgrep(
    tmp_path: Path, tree: Path
) -> None:
    path = programs(tmp_path / "bin", *PLAIN, "rg")
    (tree / ".gitignore").write_text("*.log\nbuild/\n")
    (tree / "build").mkdir()
    for name in ("x.log", "build/x.py"):
        (tree / name).write_text("needle\n")
    async with local(tree, PATH=str(path)) as environment:
        setup = ToolSetup(environment, file_tools())
        for extra in ({}, {"glob": "*.log"}, {"glob": "*.py"}):
            told = await setup.result("search_files", pattern="needle", **extra)
            assert "x.log" not in told.content
            assert "build" not in told.content
        told_names = await setup.ok("search_files", pattern="*", kind="names")
        assert "x.log" not in told_names


async def test_a_place_without_any_searcher_says_so(tmp_path: Path, tree: Path) -> None:
    async with local(tree, PATH=str(programs(tmp_path / "bin", *PLAIN))) as environment:
        told = await ToolSetup(environment, file_tools()).fails("search_files", pattern="x")
    assert "neither rg, nor grep and find, nor python3" in told


async def test_a_searcher_that_breaks_is_not_taken_for_nothing_found(
    tmp_path: Path, tree: Path
) -> None:
    path = programs(tmp_path / "bin", *PLAIN)
    (path / "rg").write_text(f"#!{path}/bash\nexit 127\n")
    (path / "rg").chmod(0o755)
    async with local(tree, PATH=str(path)) as environment:
        told = await ToolSetup(environment, file_tools()).fails("search_files", pattern="x")
    assert told == "the search failed: [exit code 127]"


async def test_a_grep_that_knows_little_still_finds(tmp_path: Path, tree: Path) -> None:
    """Such as busybox's: no Perl expressions, no zero bytes after names."""
    path = programs(tmp_path / "bin", *PLAIN, "find")
    real = shutil.which("grep")
    (path / "grep").write_text(
        f'#!{path}/bash\nfor a; do case $a in --null|-*P*) exit 2;; esac; done\nexec {real} "$@"\n'
    )
    (path / "grep").chmod(0o755)
    async with local(tree, PATH=str(path)) as environment:
        setup = ToolSetup(environment, file_tools())
        told = await setup.ok("search_files", pattern=r"needle = \d+")
        assert told == "src/deep/b.js\n2:let needle = 22;"


async def test_the_shell_that_searches_leaves_no_trace(setup: ToolSetup) -> None:
    await setup.environment.run("p=mine; has() { echo mine; }")
    await setup.ok("search_files", pattern="needle")
    result = await setup.environment.run('echo "$p"; has')
    assert result.output.split() == ["mine", "mine"]


@given(st.text(alphabet="abc*?[]/.!^$(){}+|\\", max_size=10))
def test_any_name_pattern_becomes_an_expression_of_one_line(pattern: str) -> None:
    assert "\n" not in name_regex(pattern)
    search = FileSearch(pattern=pattern, kind="names")
    assert isinstance(search_command(search), str)


def test_limits_are_checked(tmp_path: Path) -> None:
    spec: dict[str, Any] = file_tools()["search_files"].spec.parameters["properties"]
    assert (spec["limit"]["maximum"], spec["offset"]["minimum"]) == (500, 0)


@pytest.mark.skipif(bool(NOT_CONFINED), reason=NOT_CONFINED)
async def test_files_that_the_verdict_does_not_cover_are_skipped(
    setup: ToolSetup, tree: Path
) -> None:
    (tree / ".env").write_text("needle as a secret\n")
    place = setup.environment
    assert isinstance(place, LocalEnvironment)
    async with place.confined(ConfinementProfile(refused_reads=("*/.env",))) as confined:
        inside = ToolSetup(confined, file_tools())
        found = await inside.ok("search_files", pattern="as a secret")
        assert found.startswith("nothing found")
        both = await inside.ok("search_files", pattern="A needle|as a secret")
        assert both.startswith("README.md\n1:A needle.")
        if shutil.which("rg", path=str(tree.parent / "bin")):
            assert "[some files could not be read, and were skipped]" in found
            assert "[some files could not be read, and were skipped]" in both
