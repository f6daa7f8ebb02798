"""A typed function is a tool: its signature is the schema, and misfits are told to the model."""

from typing import Annotated, Any, Literal

import msgspec
import pytest

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import ToolContext
from hermes.tools.declare import FunctionTool, ToolRequirements, about, tool

pytestmark = pytest.mark.anyio


class Step(msgspec.Struct):
    text: str
    status: Literal["open", "done"] = "open"


@tool(risk=Risk.CHANGE, alone=True, needs=ToolRequirements(programs=("tar",)))
async def pack(
    context: ToolContext,
    path: Annotated[str, about("what to pack")],
    level: Annotated[int, msgspec.Meta(ge=1, le=9)] = 5,
    steps: list[Step] = [],  # noqa: B006 - a default like any other here
    mode: Literal["fast", "small"] = "fast",
) -> str:
    """Pack a folder.

    Into one file.
    """
    return f"{path} {level} {len(steps)} {mode}"


@tool(risk=Risk.READ)
async def nothing(context: ToolContext) -> str:
    """Do nothing."""
    return "nothing"


async def use(which: FunctionTool, **arguments: Any) -> str:
    no_context: Any = None
    return await which(no_context, arguments)


def test_the_signature_becomes_the_schema_in_one_piece() -> None:
    schema = pack.spec.parameters
    assert schema["required"] == ["path"]
    assert "additionalProperties" not in schema  # arguments are checked when a call arrives
    assert schema["properties"]["path"] == {"type": "string", "description": "what to pack"}
    assert schema["properties"]["level"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 5,
    }
    assert schema["properties"]["steps"]["items"]["properties"]["text"] == {"type": "string"}
    assert "$ref" not in str(schema)
    assert "title" not in schema


def test_name_description_risk_and_needs_come_from_the_declaration() -> None:
    spec = pack.spec
    assert (spec.name, spec.risk, spec.alone) == ("pack", Risk.CHANGE, True)
    assert spec.description == "Pack a folder.\n\nInto one file."
    assert pack.needs.programs == ("tar",)
    assert nothing.spec.parameters == {"type": "object", "properties": {}}


async def test_defaults_fill_in_and_numbers_sent_as_text_are_understood() -> None:
    assert await use(pack, path="a") == "a 5 0 fast"
    assert await use(pack, path="a", level="7", steps=[{"text": "x"}]) == "a 7 1 fast"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing required field `path`"),
        ({"path": 7}, "Expected `str`, got `int` - at `$.path`"),
        ({"path": "a", "level": 12}, "Expected `int` <= 9"),
        ({"path": "a", "lvl": 3}, "unknown field `lvl`"),
        ({"path": "a", "mode": "tiny"}, "'tiny'"),
        ({"path": "a", "steps": [{"status": "open"}]}, "$.steps[0]"),
    ],
)
async def test_a_misfit_is_told_with_what_would_fit(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError) as caught:
        await use(pack, **arguments)
    assert told in str(caught.value)
    takes = "path: string, level: integer = 5, steps: array (optional), mode: fast | small = 'fast'"
    assert f"It takes: {takes}" in str(caught.value)


async def test_a_tool_without_parameters_says_that_it_takes_nothing() -> None:
    assert await use(nothing) == "nothing"
    with pytest.raises(ToolError, match="It takes: nothing"):
        await use(nothing, force=True)
