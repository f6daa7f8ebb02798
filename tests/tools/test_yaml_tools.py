"""Tools without Python: what a YAML file says, and every mistake with its line."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tool_setup import ToolSetup, local

from hermes.core.messages import Risk
from hermes.tools.command_tool import CommandTool
from hermes.tools.settings import ToolSettings
from hermes.tools.toolsets import HostCapabilities, build_catalog
from hermes.tools.yaml_tools import load_tool_folder

pytestmark = pytest.mark.anyio

GREET = """name: greet
description: Say hello to somebody.
risk: read
command: printf 'hello %s%s|' {{name}} {{mark}} {{loud}} {{more}}
timeout: 5
parameters:
  name: {type: string, description: who}
  mark: {type: string, default: "!", enum: ["!", "?"]}
  loud: {type: boolean, default: false, flag: --loud}
  more: {type: array, required: false}
needs: {programs: [printf, no-such-program], variables: [GREET_KEY], how: ask the greeter}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    return tmp_path / "tools"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncGenerator[Any, None]:
    (tmp_path / "work").mkdir()
    async with local(tmp_path / "work") as environment:
        yield environment


def one(folder: Path, text: str) -> CommandTool:
    (folder / "one.yaml").write_text(text)
    found = load_tool_folder(folder)
    assert found.problems == ()
    return next(iter(found.tools.values()))


def mistake(folder: Path, text: str) -> str:
    (folder / "one.yaml").write_text(text)
    found = load_tool_folder(folder)
    assert found.tools == {}
    (told,) = found.problems
    assert told.startswith(f"{folder}/one.yaml:")
    return told.removeprefix(f"{folder}/one.yaml:")


def test_a_file_becomes_a_tool_with_schema_and_risk(folder: Path) -> None:
    spec = one(folder, GREET).spec
    assert (spec.name, spec.description, spec.risk) == (
        "greet",
        "Say hello to somebody.",
        Risk.READ,
    )
    assert spec.parameters["required"] == ["name"]
    assert spec.parameters["properties"]["name"] == {"type": "string", "description": "who"}
    assert spec.parameters["properties"]["mark"]["enum"] == ["!", "?"]
    assert spec.parameters["properties"]["loud"] == {"type": "boolean"}


def test_values_become_words_flags_and_nothing(folder: Path) -> None:
    greet = one(folder, GREET)
    assert greet.command({"name": "Ann"}).split("|' ")[1] == "Ann '!'  "
    told = greet.command({"name": "a b", "mark": "?", "loud": True, "more": ["x y", "$z"]})
    assert told.split("|' ")[1] == "'a b' '?' --loud 'x y' '$z'"


@pytest.mark.command
async def test_it_runs_in_the_environment_like_any_tool(folder: Path, place: Any) -> None:
    setup = ToolSetup(place, {"greet": one(folder, GREET)})
    assert await setup.ok("greet", name="$(touch hacked)") == "hello $(touch hacked)!|"
    assert setup.kinds == ["tool.requested", "tool.decided", "tool.started", "tool.finished"]
    assert "Invalid enum value '&'" in await setup.fails("greet", name="x", mark="&")
    assert "It takes: name: string" in await setup.fails("greet")
    assert "unknown field" in await setup.fails("greet", name="x", command="rm")
    assert (await place.run("ls")).output == ""


HOSTILE = ["; touch hacked", "$(touch hacked)", "`touch hacked`", "'\ntouch hacked\n'", "a\\"]


@pytest.mark.command
@pytest.mark.parametrize("value", HOSTILE)
async def test_hostile_values_never_run(folder: Path, place: Any, value: str) -> None:
    text = (
        "name: show\ndescription: d\nrisk: read\nparameters: {x: {}, y: {type: array}}\n"
        "command: printf '<%s>' {{x}} --x={{x}} $(printf %s {{x}} >/dev/null) {{y}}\n"
    )
    setup = ToolSetup(place, {"show": one(folder, text)})
    told = await setup.ok("show", x=value, y=[value, value])
    assert told == f"<{value}><--x={value}><{value}><{value}>"
    assert (await place.run("ls")).output == ""


@pytest.mark.command
async def test_a_value_is_not_taken_for_an_option(folder: Path, place: Any) -> None:
    text = (
        "name: find\ndescription: d\nrisk: read\ncommand: echo {{x}} -- {{y}} {{z}} {{n}}\n"
        "parameters:\n  x: {}\n  y: {}\n  z: {allow_dash: true, default: ''}\n"
        "  n: {type: integer, default: 0}\n"
    )
    setup = ToolSetup(place, {"find": one(folder, text)})
    assert "must not begin with a dash" in await setup.fails("find", x="-rf", y="a")
    assert await setup.ok("find", x="a", y="-b", z="-c", n=-5) == "a -- -b -c -5"
    assert "zero byte" in await setup.fails("find", x="a\0", y="b")


async def test_a_pattern_must_match_the_whole_value(folder: Path, place: Any) -> None:
    text = (
        "name: ping\ndescription: d\nrisk: read\ncommand: ssh {{host}} uptime\n"
        "parameters:\n  host: {pattern: '[a-z0-9.-]+', description: one name of a host}\n"
    )
    ping = one(folder, text)
    assert ping.spec.parameters["properties"]["host"]["pattern"] == "[a-z0-9.-]+"
    assert ping.command({"host": "web-1"}) == "ssh web-1 uptime"
    setup = ToolSetup(place, {"ping": ping})
    for bad in ("a;b", "a\n", "a b", ""):
        assert "must match [a-z0-9.-]+; it is: one name" in await setup.fails("ping", host=bad)
    assert "dash" in await setup.fails("ping", host="-oProxyCommand".lower())


@pytest.mark.command
async def test_numbers_keep_their_limits_and_failures_show(folder: Path, place: Any) -> None:
    text = (
        "name: out\ndescription: d\nrisk: destroy\ncommand: 'echo no; exit {{n}}'\n"
        "parameters: {n: {type: integer, minimum: 1, maximum: 5}}\n"
    )
    setup = ToolSetup(place, {"out": one(folder, text)})
    assert await setup.ok("out", n=3) == "no\n[exit code 3]"
    assert "<= 5" in await setup.fails("out", n=9)
    assert setup.person.asked[0].risk == Risk.DESTROY
    slow = "name: slow\ndescription: d\nrisk: read\ntimeout: 0.3\ncommand: sleep 30\n"
    told = await ToolSetup(place, {"slow": one(folder, slow)}).fails("slow")
    assert "stopped after 0.3 seconds" in told


def test_needs_are_checked_by_the_catalogue(folder: Path) -> None:
    extra = {"greet": one(folder, GREET)}
    here = HostCapabilities(programs=frozenset({"printf"}), variables=frozenset())
    (absent,) = build_catalog(
        ToolSettings(toolsets=("declared",)), present=here, extra=extra
    ).absent
    assert absent.why == "missing: the program no-such-program, the key GREET_KEY"
    assert absent.how == "ask the greeter"
    assert "greet" in build_catalog(ToolSettings(toolsets=("declared",)), extra=extra).tools


GOOD = "name: a\ndescription: d\nrisk: read\ncommand: ls\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1: the file is empty"),
        ("just words", "1: expected `key: value` lines here"),
        ("name: a\n  bad: [\n", "2:6: not valid YAML"),
        ("name: a\ndescription: d\ncommand: ls\n", "1: risk is missing"),
        (GOOD.replace("read", "maybe"), "3: risk: invalid enum value 'maybe'"),
        (GOOD.replace("name: a", "name: 'A b'"), "1: a name is made of"),
        (GOOD + "name: b\n", "5:1: name is set twice, first on line 1"),
        (GOOD + "timout: 5\n", "5: timout is not known here; did you mean timeout?"),
        (GOOD + "timeout: soon\n", "5: timeout: expected `float`, got `str`"),
        (GOOD + "timeout: 0\n", "5: timeout is in seconds"),
        (GOOD + "parameters: [a]\n", "5: parameters: expected `object`, got `array`"),
        (GOOD + "parameters:\n  x:\n    type: text\n", "7: type: invalid enum value 'text'"),
        (GOOD + "parameters:\n  x: {kind: string}\n", "6: kind is not known here"),
        (GOOD + "parameters:\n  X: {}\n", "6: 'X': a name is made of"),
        (
            GOOD + "parameters:\n  x: {type: integer,\n    default: many}\n",
            "7: x: default does not",
        ),
        (GOOD + "parameters:\n  x: {\n    pattern: '('}\n", "7: x: pattern does not fit"),
        (GOOD + "parameters:\n  x: {type: boolean, enum: [1]}\n", "6: x: boolean takes no enum"),
        (GOOD + "parameters:\n  x: {type: integer, enum: [a]}\n", "6: x: enum does not fit"),
        (GOOD + "parameters:\n  x: {}\n", "4: command: the parameter x is never used"),
        (GOOD.replace("ls", "ls {{pth}}") + "parameters: {path: {}}\n", "4: command: no parameter"),
        (
            GOOD.replace("ls", "ls '{{x}}'") + "parameters: {x: {}}\n",
            "4: command: a value inside '",
        ),
        (GOOD.replace("ls", "|\n  ls\n  # {{x}}"), "6: command: a value inside a comment"),
        (GOOD.replace("ls", "ssh {{x}}") + "parameters: {x: {}}\n", "4: command: ssh reads its"),
        (GOOD + "needs:\n  program: [x]\n", "6: program is not known here; did you mean programs?"),
        (GOOD + "needs: {programs: x}\n", "5: programs: expected `array`, got `str`"),
        (GOOD + "? [1]\n: 2\n", "5: "),
        (
            GOOD + "timeout: !!python/object:os.system 5\n",
            "5:10: not valid YAML: could not determine a constructor",
        ),
    ],
)
def test_every_mistake_is_told_with_file_line_and_cause(folder: Path, text: str, told: str) -> None:
    assert mistake(folder, text).startswith(told)


def test_a_mistake_costs_only_the_tool_it_is_in(folder: Path) -> None:
    (folder / "a.yaml").write_text("- " + GOOD.strip().replace("\n", "\n  ") + "\n- name: b\n")
    (folder / "b.yml").write_text(GOOD)
    (folder / "c.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / "d.yaml").write_text(GOOD.replace("name: a", "name: terminal"))
    found = load_tool_folder(folder, taken={"terminal"})
    assert list(found.tools) == ["a"]
    told = [line.removeprefix(f"{folder}/") for line in found.problems]
    assert told[0] == "a.yaml:5: description is missing"
    assert told[1] == "b.yml:1: there is a tool 'a' already"
    assert told[2].startswith("c.yaml:1: cannot be read")
    assert told[3] == "d.yaml:1: there is a tool 'terminal' already"


def test_a_folder_that_is_not_there_holds_no_tools(tmp_path: Path) -> None:
    assert load_tool_folder(tmp_path / "none").tools == {}
