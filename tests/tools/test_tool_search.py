"""Many tools: found by words, called by `tool_call`, and decided about like any other call."""

from tool_questions import QUESTIONS, TOOLS

from hermes.core.messages import Risk, ToolSpec
from hermes.tools.tool_search import search_tools

SPECS = [
    ToolSpec(
        name=f"mcp_{server}_{name}",
        description=f"[words of the MCP server {server}] {text}",
        parameters={},
        risk=Risk.READ,
    )
    for server, tools in TOOLS.items()
    for name, text in tools.items()
]


def test_the_right_tool_is_among_the_first_five_for_nearly_all_questions() -> None:
    missed = []
    for question, wanted in QUESTIONS:
        name = f"mcp_{wanted.replace('/', '_', 1)}"
        found = [spec.name for spec in search_tools(SPECS, question, 5)]
        if name not in found:
            missed.append((question, found))
    assert len(QUESTIONS) == 30
    assert len(missed) <= 3, missed
