"""Real MCP servers of other authors, started for real: mcp-server-time and mcp-server-git."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from hermes.app.mcp.servers import open_servers
from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.integrations.mcp.pins import ServerAddress, ServerPin, make_pin
from hermes.integrations.mcp.review import propose_classes
from hermes.integrations.mcp.servers import McpServers, NeedsPerson, ServerLimits
from hermes.settings.load import load

pytestmark = [pytest.mark.anyio, pytest.mark.command]
PROGRAMS = Path(sys.executable).parent
PATIENT = ServerLimits(connect_s=300.0, list_s=300.0)
"""They import much, on a machine that may be busy."""


def server(name: str, *arguments: str) -> ServerPin:
    command = (str(PROGRAMS / f"mcp-server-{name}"), *arguments)
    return ServerPin(name=name, address=ServerAddress(command=command))


@asynccontextmanager
async def servers_of(home: Path) -> AsyncIterator[McpServers]:
    async with open_servers(load(home=home), home, None, PATIENT) as servers:
        yield servers


async def test_the_time_server_answers_and_a_changed_pin_is_withheld(tmp_path: Path) -> None:
    pin = server("time")
    async with servers_of(tmp_path) as servers:
        one = servers.server(pin)
        protocol, listed = await one.listing()
        assert protocol >= "2025"
        tools = {tool.name: make_pin(tool, None, "ann") for tool in listed}
        now = tools["get_current_time"]
        answer = await one.call(now, {"timezone": "Europe/Berlin"}, run="r", ask=None)
        assert "Europe/Berlin" in answer.text
        wrong = await one.call(now, {"timezone": "Mars/Olympus"}, run="r", ask=None)
        assert wrong.failed
        reviewed = replace(now, tool=replace(now.tool, description="Shows the time."), digest="0")
        with pytest.raises(ToolError, match="hermes mcp review time") as refused:
            await one.call(reviewed, {"timezone": "UTC"}, run="r", ask=None)
        assert "description: Shows the time. →" in str(refused.value)


async def test_the_git_server_is_classed_as_its_tools_are(tmp_path: Path) -> None:
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    pin = server("git", "--repository", str(tmp_path))
    async with servers_of(tmp_path) as servers:
        _, listed = await servers.server(pin).listing()
        proposed = {each.tool.name: each.risk for each in propose_classes(listed)}
        changing = {"git_commit", "git_add", "git_reset", "git_create_branch", "git_checkout"}
        reads = {name for name, risk in proposed.items() if risk is Risk.READ}
        assert reads == set(proposed) - changing
        assert {"git_status", "git_log"} <= reads
        tools = {tool.name: make_pin(tool, None, "ann") for tool in listed}
        answer = await servers.server(pin).call(
            tools["git_status"], {"repo_path": str(tmp_path)}, run="r", ask=None
        )
        assert "No commits yet" in answer.text


async def test_a_program_that_is_not_installed_is_named_at_once(tmp_path: Path) -> None:
    pin = ServerPin(name="none", address=ServerAddress(command=("no-such-server",)))
    async with servers_of(tmp_path) as servers:
        with pytest.raises(NeedsPerson, match="no-such-server"):
            await servers.server(pin).listing()
