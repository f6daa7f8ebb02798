"""From settings to tools: what is wanted and there, and why not what is not."""

import json
import subprocess
import sys

import pytest

from hermes.core.errors import SettingsError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import ToolRequirements, tool
from hermes.tools.settings import OwnToolset, ToolSettings
from hermes.tools.toolsets import HostCapabilities, build_catalog

OURS = ("read_file", "write_file", "patch", "search_files", "execute_code", "todo", "clarify")


@tool(risk=Risk.CHANGE, needs=ToolRequirements(variables=("PAGER_KEY",)))
async def page(context: ToolContext) -> str:
    """Call somebody."""
    return ""


@tool(risk=Risk.READ)
async def delegate(context: ToolContext) -> str:
    """Somebody else's tool."""
    return ""


def wanted(*toolsets: str, disabled: tuple[str, ...] = ()) -> ToolSettings:
    return ToolSettings(toolsets=toolsets, disabled=disabled)


def test_the_tools_of_a_set_are_built_in_order() -> None:
    catalogue = build_catalog(wanted("file", "code", "planning"))
    assert tuple(catalogue.tools) == OURS
    assert catalogue.absent == ()
    assert all(name == each.spec.name for name, each in catalogue.tools.items())


def test_every_tool_says_its_risk() -> None:
    risks = {
        name: each.spec.risk for name, each in build_catalog(wanted("file", "code")).tools.items()
    }
    assert risks == {
        "read_file": Risk.READ,
        "search_files": Risk.READ,
        "write_file": Risk.CHANGE,
        "patch": Risk.CHANGE,
        "execute_code": Risk.CHANGE,
    }


def test_a_tool_whose_program_or_key_is_missing_is_absent_and_says_why() -> None:
    here = HostCapabilities(programs=frozenset(), variables=frozenset())
    catalogue = build_catalog(
        wanted("code", "planning", "page"), present=here, extra={"page": page}
    )
    assert list(catalogue.tools) == ["todo", "clarify"]
    code, pager = catalogue.absent
    assert (code.tool, code.why) == ("execute_code", "missing: the program python3")
    assert code.how == "install Python 3 in the environment"
    assert (pager.tool, pager.why) == ("page", "missing: the key PAGER_KEY")


def test_tools_and_whole_sets_can_be_left_out() -> None:
    kept = build_catalog(wanted("file", "planning", disabled=("patch", "planning"))).tools
    assert list(kept) == ["read_file", "write_file", "search_files"]
    with pytest.raises(SettingsError, match="did you mean planning"):
        build_catalog(wanted("file", disabled=("planing",)))


def test_a_single_tool_can_be_asked_for_by_its_name() -> None:
    assert next(iter(build_catalog(wanted("todo", "safe")).tools)) == "todo"
    with pytest.raises(SettingsError, match="no toolset 'flie'; did you mean file"):
        build_catalog(wanted("flie"))


def test_tools_made_elsewhere_join_the_sets_that_name_them() -> None:
    extra: dict[str, Tool] = {"delegate": delegate, "page": page}
    assert list(build_catalog(wanted("delegation"), extra=extra).tools) == ["delegate"]
    default = build_catalog(wanted("default"), extra=extra).tools
    assert {"delegate", "page"} <= set(default)
    assert "page" not in build_catalog(wanted("safe"), extra=extra).tools
    assert "page" not in build_catalog(wanted("default", disabled=("declared",)), extra=extra).tools


def test_a_tool_that_no_package_brings_is_told_and_the_rest_works() -> None:
    settings = ToolSettings(
        toolsets=("mine",), sets={"mine": OwnToolset(tools=("teleport", "todo"))}
    )
    catalogue = build_catalog(settings)
    assert list(catalogue.tools) == ["todo"]
    assert catalogue.absent[0].tool == "teleport"
    assert "no installed package" in catalogue.absent[0].why


def test_two_houses_share_nothing() -> None:
    one, other = build_catalog(wanted("planning")).tools, build_catalog(wanted("planning")).tools
    assert one["todo"] is not other["todo"]


def definitions(names: tuple[str, ...]) -> str:
    """As they go over the wire to an OpenAI-compatible model."""
    tools = build_catalog(wanted(*names)).tools
    return json.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": each.spec.name,
                    "description": each.spec.description,
                    "parameters": each.spec.parameters,
                },
            }
            for each in tools.values()
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def test_our_definitions_leave_room_for_the_others_within_eight_kilobytes() -> None:
    size = len(definitions(OURS).encode())
    assert size <= 5_000, size


def test_every_definition_has_a_description_and_an_object_schema() -> None:
    for entry in json.loads(definitions(OURS)):
        function = entry["function"]
        assert function["description"]
        assert function["parameters"]["type"] == "object"


@pytest.mark.command
def test_the_file_tools_cost_no_yaml() -> None:
    code = (
        "import sys; from hermes.tools.toolsets import build_catalog\n"
        "from hermes.tools.settings import ToolSettings\n"
        "build_catalog(ToolSettings(toolsets=('file', 'code', 'planning')))\n"
        "print('yaml' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
