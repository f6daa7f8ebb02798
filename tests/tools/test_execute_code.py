"""Code that calls tools: the same road, the user's line numbers, and limits that hold."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tool_setup import Person, ToolSetup, local, until

from hermes.core.errors import StoreFull
from hermes.core.messages import Risk, ToolResult
from hermes.core.protocols import CommandResult, Environment, StartsProcesses, Tool, ToolContext
from hermes.tools import execute_code
from hermes.tools.declare import tool
from hermes.tools.dependencies import ToolDependencies
from hermes.tools.executor import MAX_PREVIEW_CHARS
from hermes.tools.files import read_write
from hermes.tools.settings import ToolSettings

pytestmark = pytest.mark.anyio


class NoProcesses:
    """A place with only the bare doors of an `Environment`, around a real one."""

    name, isolated = "narrow", False

    def __init__(self, inner: Environment) -> None:
        self._inner = inner
        self.target = inner.target

    async def run(
        self, command: str, *, timeout: float = 60.0, stdin: bytes = b"", cwd: str = ""
    ) -> CommandResult:
        return await self._inner.run(command, timeout=timeout, stdin=stdin, cwd=cwd)

    async def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        return await self._inner.read(path, offset=offset, limit=limit)

    async def write(self, path: str, data: bytes) -> None:
        await self._inner.write(path, data)


class Meeting:
    """A tool that waits until as many calls are inside as were expected."""

    def __init__(self, expected: int) -> None:
        self.inside, self.expected, self.all = 0, expected, anyio.Event()

    def tool(self) -> Tool:
        @tool(risk=Risk.READ)
        async def meet(context: ToolContext, name: str) -> str:
            """Wait for the others."""
            self.inside += 1
            if self.inside == self.expected:
                self.all.set()
            await self.all.wait()
            return f"{name} met {self.inside}"

        return meet


@tool(risk=Risk.CHANGE)
async def change(context: ToolContext, what: str = "it") -> str:
    """Change something."""
    return f"changed {what}"


@tool(risk=Risk.READ)
async def echo(context: ToolContext, text: str, times: int = 1) -> str:
    """Say it again."""
    return text * times


@tool(risk=Risk.READ)
async def lose(context: ToolContext) -> str:
    """Lose the journal."""
    raise StoreFull("no space left")


def tools(settings: ToolSettings | None = None, *more: Tool) -> dict[str, Tool]:
    made: dict[str, Tool] = {}
    kit = ToolDependencies(settings=settings or ToolSettings(), tools=made)
    for each in (
        change,
        echo,
        lose,
        read_write.make_read_file(kit),
        execute_code.make_execute_code(kit),
        *more,
    ):
        made[each.spec.name] = each
    return made


@pytest.fixture(params=["process", "files"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any, None]:
    async with local(tmp_path) as environment:
        assert isinstance(environment, StartsProcesses)
        narrow = NoProcesses(environment)
        assert not isinstance(narrow, StartsProcesses)
        yield environment if request.param == "process" else narrow


@pytest.fixture
def setup(place: Any) -> ToolSetup:
    return ToolSetup(place, tools())


def inner(setup: ToolSetup) -> list[str]:
    return [e.call.name for e in setup.journal.events if e.kind == "tool.requested"][1:]  # type: ignore[union-attr]


async def test_code_runs_in_the_environment_and_its_output_comes_back(
    setup: ToolSetup, tmp_path: Path
) -> None:
    code = """
import os, subprocess, sys
print("hello from", os.path.basename(os.getcwd()))
print("to stderr", file=sys.stderr)
sys.stderr.flush(); sys.stdout.flush()
subprocess.run(["echo", "from a child"])
open("made.txt", "w").write("x")
"""
    told = await setup.ok("execute_code", code=code)
    assert sorted(told.splitlines()) == sorted(
        [f"hello from {tmp_path.name}", "to stderr", "from a child", "value: 1"]
    )
    assert (tmp_path / "made.txt").exists()
    assert setup.person.asked[0].call.name == "execute_code"


async def test_tools_are_functions_with_their_own_parameters(
    setup: ToolSetup, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    code = """
from hermes_tools import read_file, ToolFailed
print(read_file("a.txt", 2))
print(echo("ab", times=3), echo(text="c"))
try:
    echo("a", "b", "c")
except TypeError as error:
    print(error)
try:
    echo("x", times="many")
except ToolFailed as error:
    print(str(error)[:29])
try:
    read_file("missing")
except ToolFailed as error:
    print("missing" in str(error))
len(echo.__doc__)
"""
    told = await setup.ok("execute_code", code=code)
    assert told.splitlines() == [
        "2|two",
        "[lines 2-2 of 2 lines: the end]",
        "ababab c",
        "echo takes text, times",
        "arguments do not fit echo: Ex",
        "True",
        "value: 13",
        "[calls: read_file ×2, echo ×3]",
    ]


async def test_every_inner_call_takes_the_same_road(place: Any) -> None:
    setup = ToolSetup(place, tools(), person=Person(says=True))
    told = await setup.ok("execute_code", code="print(change('a'))\nprint(echo('b'))")
    assert told == "changed a\nb\n[calls: change ×1, echo ×1]"
    assert inner(setup) == ["change", "echo"]
    assert [a.call.name for a in setup.person.asked] == ["execute_code", "change"]
    ids = [e.call.id for e in setup.journal.events if e.kind == "tool.requested"]  # type: ignore[union-attr]
    assert len(set(ids)) == 3


class OnlyTheCode(Person):
    async def __call__(self, action: Any, decision: Any) -> Any:
        self.says = action.call.name == "execute_code"
        return await super().__call__(action, decision)


async def test_what_is_refused_inside_is_refused(place: Any) -> None:
    setup = ToolSetup(place, tools(), person=OnlyTheCode(says=True))
    told = await setup.fails("execute_code", code="x = 1\nchange()")
    assert "ToolFailed: Not run: " in told
    assert 'File "<code>", line 2' in told
    kinds = [kind for kind in setup.kinds if kind == "tool.started"]
    assert len(kinds) == 1


async def test_calls_from_threads_run_side_by_side(place: Any) -> None:
    setup = ToolSetup(place, tools(None, Meeting(6).tool()))
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(6) as pool:
    for line in pool.map(meet, "abcdef"):
        print(line)
"""
    with anyio.fail_after(120):
        told = await setup.ok("execute_code", code=code)
    assert [line.split()[0] for line in told.splitlines()[:6]] == list("abcdef")
    assert told.endswith("[calls: meet ×6]")


async def test_an_error_shows_the_lines_of_the_code_and_none_of_ours(setup: ToolSetup) -> None:
    code = "def half(x):\n    return 1 / x\n\nprint('before')\nhalf(0)\n"
    told = await setup.fails("execute_code", code=code)
    assert told.splitlines()[0] == "before"
    assert 'File "<code>", line 5, in <module>\n    half(0)' in told
    assert 'File "<code>", line 2, in half\n    return 1 / x' in told
    assert told.endswith("ZeroDivisionError: division by zero")
    assert "<string>" not in told


async def test_a_syntax_error_is_told_with_its_line(setup: ToolSetup) -> None:
    told = await setup.fails("execute_code", code="x = 1\ny = = 2\n")
    assert 'File "<code>", line 2' in told
    assert "SyntaxError" in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("1 + 1", "value: 2"),
        ("x = 5", "[it printed nothing]"),
        ("None", "[it printed nothing]"),
        ("", "[it printed nothing]"),
        ("raise SystemExit", "[it printed nothing]"),
        ("print(input.__name__)", "input"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    b: int\nA(1)",
            "value: A(b=1)",
        ),
    ],
)
async def test_the_value_of_the_last_line_is_shown(setup: ToolSetup, code: str, told: str) -> None:
    assert await setup.ok("execute_code", code=code) == told


async def test_ways_to_end_that_are_not_good(setup: ToolSetup) -> None:
    assert await setup.fails("execute_code", code="exit(3)") == "exited with 3"
    told = await setup.fails("execute_code", code="print('x', flush=True)\nimport os\nos._exit(7)")
    assert "Python ended without a word" in told
    told = await setup.fails("execute_code", code="input()")
    assert "EOFError" in told


async def test_calls_beyond_the_limit_fail_and_the_rest_goes_on(place: Any) -> None:
    setup = ToolSetup(place, tools(ToolSettings(code_calls=3)))
    code = """
for n in range(5):
    try:
        print(echo(str(n)))
    except ToolFailed as error:
        print(error)
"""
    told = await setup.ok("execute_code", code=code)
    limit = "this code made 3 tool calls already, which is the limit"
    assert told.splitlines()[:5] == ["0", "1", "2", limit, limit]
    assert inner(setup) == ["echo"] * 3


async def test_code_that_takes_too_long_is_ended_with_all_it_started(
    setup: ToolSetup, tmp_path: Path
) -> None:
    code = """
import subprocess, time, os
child = subprocess.Popen(["sleep", "1000"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
print("so far", flush=True)
while True: time.sleep(1)
"""
    for timeout in (1.5, 12.0, 60.0):  # a busy machine may not even have started it in time
        told = await setup.fails("execute_code", code=code, timeout=timeout)
        assert f"stopped after {timeout:g} seconds" in told
        if (tmp_path / "pids").exists() and told.startswith("so far"):
            break
    assert told.splitlines()[0] == "so far"
    await gone(tmp_path / "pids")


async def test_cancelling_ends_the_code_at_once(setup: ToolSetup, tmp_path: Path) -> None:
    code = (
        "import os, time\nopen('pids.new', 'w').write(str(os.getpid()))\n"
        "os.rename('pids.new', 'pids')\ntime.sleep(1000)"
    )
    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            group.start_soon(run_code, setup, code)
            await until((tmp_path / "pids").exists)
            group.cancel_scope.cancel()
    await gone(tmp_path / "pids")


async def run_code(setup: ToolSetup, code: str) -> None:
    await setup.result("execute_code", code=code)


async def gone(pids: Path) -> None:
    await until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_endless_output_is_bounded_head_and_tail(place: Any) -> None:
    setup = ToolSetup(place, tools(ToolSettings(code_output=2000)))
    code = "print('first')\nfor n in range(200_000): print(n)\nprint('last')"
    told = await setup.ok("execute_code", code=code)
    assert told.startswith("first\n0\n1\n")
    assert told.endswith("199999\nlast")
    assert "characters left out" in told
    assert len(told) < 2200


async def test_code_gets_the_whole_of_a_long_result(setup: ToolSetup) -> None:
    told = await setup.ok("execute_code", code=f"len(echo('0123456789', {MAX_PREVIEW_CHARS}))")
    assert told.splitlines()[0] == f"value: {10 * MAX_PREVIEW_CHARS}"


async def test_strange_text_passes_both_ways(setup: ToolSetup) -> None:
    code = r"""
text = "ü – \x1e\n\r\0 '\" ${x} 日本"
print(echo(text) == text)
import sys
sys.stdout.buffer.write(b"\xff\xfe raw\n")
"""
    told = await setup.ok("execute_code", code=code)
    assert told.splitlines()[0] == "True"
    assert "raw" in told


async def test_without_a_journal_the_code_stops_too(setup: ToolSetup) -> None:
    with anyio.fail_after(120), pytest.raises(StoreFull):
        await setup.result("execute_code", code="lose()\nwhile True: pass")


async def test_a_place_without_python_says_so(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "mv", "rm", "mkdir"):
        found = next(p for p in os.environ["PATH"].split(":") if (Path(p) / name).exists())
        (programs / name).symlink_to(Path(found) / name)
    async with local(tmp_path, PATH=str(programs)) as environment:
        for place in (environment, NoProcesses(environment)):
            with anyio.fail_after(120):
                told = await ToolSetup(place, tools()).fails("execute_code", code="1")  # type: ignore[arg-type]
            assert "python3: command not found" in told


async def test_nothing_is_left_in_the_place(setup: ToolSetup, tmp_path: Path) -> None:
    before = leftovers(tmp_path)
    await setup.ok("execute_code", code="1")
    await setup.fails("execute_code", code="1/0")
    assert leftovers(tmp_path) <= before


def leftovers(folder: Path) -> set[Path]:
    return {*Path("/tmp").glob("hermes-code-*"), *folder.rglob("*")}


async def test_code_cannot_call_itself(setup: ToolSetup) -> None:
    assert "NameError" in await setup.fails("execute_code", code="execute_code('1')")


async def test_many_calls_need_one_turn(setup: ToolSetup) -> None:
    result: ToolResult = await setup.result(
        "execute_code", code="print(sum(len(echo('x' * n)) for n in range(8)))"
    )
    assert result.content == "28\n[calls: echo ×8]"
