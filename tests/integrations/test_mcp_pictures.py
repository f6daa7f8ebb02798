"""Pictures that a tool of an MCP server returns reach the result as pictures."""

import base64
import json
import sys
from pathlib import Path

import pytest

from hermes.app.application import open_application
from hermes.core.messages import Risk, ToolCall
from hermes.core.protocols import ToolContext
from hermes.integrations.mcp.pins import (
    ForeignTool,
    PinStore,
    ServerAddress,
    ServerPin,
    make_pin,
)
from hermes.settings.load import load
from picture_samples import bomb, picture

pytestmark = [pytest.mark.anyio, pytest.mark.command]
SERVER = Path(__file__).parents[1] / "standins" / "mcp_server.py"


async def test_a_picture_of_a_server_is_kept_and_a_bomb_is_left_out(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "the graph"}] + [
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(data).decode()}
        for data in (picture("PNG", (80, 60)), bomb())
    ]
    tool = {"name": "show", "description": "Shows it.", "inputSchema": {"type": "object"}}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"tools": [tool], "answers": {"show": {"content": content}}}))
    foreign = ForeignTool(name="show", description="Shows it.", input_schema={"type": "object"})
    pin = ServerPin(
        name="shop",
        address=ServerAddress(command=(sys.executable, "-I", str(SERVER), str(script))),
        tools=(make_pin(foreign, Risk.READ, "ann"),),
    )
    home = tmp_path / "home"
    home.mkdir()
    PinStore(home).save(pin)
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home), "OPENROUTER_API_KEY": "sk-or-x"}
    loaded = load(home=home, variables=variables)
    async with open_application(loaded, directory=tmp_path) as application:
        dependencies = application.agent_dependencies
        context = ToolContext(
            run="r",
            environment=dependencies.environment,
            publish=application.bus.publish,
            call=lambda _: pytest.fail("no inner calls"),
            artifacts=dependencies.artifacts,
        )
        result = await dependencies.executor.execute(ToolCall("c1", "mcp_shop_show", {}), context)
    assert result.status == "ok", result.content
    (shown,) = result.pictures
    assert (shown.width, shown.height, shown.alt) == (80, 60, "from the MCP server shop")
    assert f"kept as {shown.artifact}" in result.content
    assert "left out: the picture says that it has 30,000 × 30,000 pixels" in result.content
