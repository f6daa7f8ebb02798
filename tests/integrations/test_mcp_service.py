"""Hermes as an MCP server, spoken to by the client of the official library."""

import json
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import hermes

pytestmark = [pytest.mark.anyio, pytest.mark.command]
READING = {
    *("incident_list", "incident_show", "incident_timeline", "memory_search", "skill_list"),
    *("skill_view", "policy_check", "drill_list"),
}


def stdio_server(home: Path, replies: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "hermes.cli", "-s", f"model.default=scripted:{replies}", "mcp", "serve"],
        env={
            "HERMES_HOME": str(home),
            "HOME": str(home),
            "PYTHONPATH": str(Path(hermes.__file__).parents[1]),
        },
        cwd=str(home),
    )


async def test_a_client_over_stdio_reads_reports_and_gives_tasks(tmp_path: Path) -> None:
    replies = tmp_path / "replies.jsonl"
    command = {"id": "c1", "name": "terminal", "arguments": {"command": "touch made"}}
    lines = [
        {"role": "assistant", "calls": [command]},
        {"role": "assistant", "text": "I may not."},
    ]
    replies.write_text("\n".join(map(json.dumps, lines)))
    # The default is the standard error of the time at which the library was loaded.
    transport = stdio_client(stdio_server(tmp_path, replies), errlog=sys.stderr)
    async with Client(transport) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == READING | {"alert_raise", "ask"}
        for name, tool in listed.items():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name in READING), name

        async def call(name: str, **arguments: object) -> str:
            result = await client.call_tool(name, arguments)
            text: str = result.content[0].text  # type: ignore[union-attr]
            return f"error: {text}" if result.is_error else text

        assert json.loads(await call("incident_list")) == []
        assert "error:" in await call("incident_show", id="nothing")
        raised = await call("alert_raise", title="the shop is slow", service="shop")
        assert raised.endswith("was recorded")
        judged = json.loads(
            await call("policy_check", tool="terminal", arguments={"command": "rm -rf /etc"})
        )
        assert judged["verdict"] in ("ask", "deny")
        assert await call("ask", task="make a file") == "I may not."
        assert not (tmp_path / "made").exists()
        assert "error: there is no tool" in await call("approve", id="x")
        assert (await client.list_resources()).resources == []
        with pytest.raises(Exception, match="there is no resource"):
            await client.read_resource("hermes://approvals/1")
