"""Servers that break the protocol, lie or hang: each ends in a clear word, and nothing is left."""

import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams

from hermes.app.mcp.servers import open_servers
from hermes.core.errors import SettingsError, ToolError
from hermes.core.messages import Risk
from hermes.integrations.mcp.connection import ConnectionHooks
from hermes.integrations.mcp.pins import ForeignTool, ServerAddress, ServerPin, ToolPin, make_pin
from hermes.integrations.mcp.review import propose_classes
from hermes.integrations.mcp.servers import McpServer, ServerLimits
from hermes.settings.load import load

pytestmark = [pytest.mark.anyio, pytest.mark.command]
SERVER = Path(__file__).parents[1] / "standins" / "mcp_server.py"
TOOL = {"name": "show", "description": "Shows it.", "inputSchema": {"type": "object"}}
PATIENT = ServerLimits(restart_delays_s=())
HASTY_CALL = ServerLimits(call_s=0.5, restart_delays_s=())
HASTY = ServerLimits(connect_s=1.5, list_s=1.5, call_s=1.5, restart_delays_s=())


class HostileServer:
    def __init__(self, server: McpServer, folder: Path) -> None:
        self.server, self._log = server, folder / "script.log"

    async def tools(self) -> dict[str, ForeignTool]:
        return {tool.name: tool for tool in (await self.server.listing())[1]}

    async def pin(self, risk: Risk | None = None) -> ToolPin:
        return make_pin((await self.tools())["show"], risk, "ann")

    async def call(self, pin: ToolPin | None = None, ask: Any = None) -> Any:
        return await self.server.call(pin or await self.pin(), {}, run="r", ask=ask)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@asynccontextmanager
async def hostile(
    folder: Path, *bad: str, limits: ServerLimits = PATIENT, **plan: Any
) -> AsyncIterator[HostileServer]:
    script = folder / "script.json"
    script.write_text(json.dumps({"tools": [TOOL], "bad": bad, **plan}))
    command = (sys.executable, "-I", str(SERVER), str(script))
    pin = ServerPin(name="shop", address=ServerAddress(command=command))
    async with open_servers(load(home=folder), folder, None, limits) as servers:
        yield HostileServer(servers.server(pin), folder)


@pytest.mark.parametrize(
    "bad",
    ["banner", "duplicate answers", "list_changed flood", "list_changed loop", "log flood"],
)
async def test_noise_and_floods_do_not_disturb_a_call(tmp_path: Path, bad: str) -> None:
    async with hostile(tmp_path, bad) as server:
        for _ in range(3):
            assert (await server.call()).text in ("fine", "first")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("half a line", "did not answer in"),
        ("sleeps in the handshake", "did not answer in"),
        ("prints for ever", "text that is not the protocol"),
        ("NaN", "did not list its tools"),
        ("endless pages", "more tools than anybody can review"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told(tmp_path: Path, bad: str, said: str) -> None:
    limits = HASTY if said == "did not answer in" else PATIENT
    async with hostile(tmp_path, bad, limits=limits) as server:
        with pytest.raises(ToolError, match=said):
            await server.tools()


async def test_a_server_with_too_many_tools_cannot_be_reviewed(tmp_path: Path) -> None:
    async with hostile(tmp_path, "5,000 tools") as server:
        with pytest.raises(SettingsError, match="nobody can review"):
            propose_classes((await server.tools()).values())


async def test_a_call_that_is_never_answered_ends_and_the_next_one_is_told_the_same(
    tmp_path: Path,
) -> None:
    async with hostile(tmp_path, "never answers", limits=HASTY_CALL) as server:
        pin = await server.pin()
        for _ in range(2):
            with pytest.raises(ToolError, match="did not end in time"):
                await server.call(pin)


async def test_orders_to_the_terminal_do_not_reach_anybody(tmp_path: Path) -> None:
    orders = "a\x1b[2J\x1b]0;title\x07b\x9b31mc\x08\r"
    answer = {"content": [{"type": "text", "text": orders}]}
    tool = {**TOOL, "description": "Shows\x1b[31m it.", "title": "\x1b]8;;http://x\x07"}
    async with hostile(tmp_path, tools=[tool], answers={"show": answer}) as server:
        text = (await server.call()).text
        shown = (await server.tools())["show"].shown_description
    for said in (text, shown):
        assert not {each for each in said if ord(each) < 32 or 127 <= ord(each) < 160}


async def test_a_message_of_64_mb_ends_the_connection(tmp_path: Path) -> None:
    async with hostile(tmp_path, "64 MB in one line") as server:
        with pytest.raises(ToolError, match="shop"):
            await server.call()


async def test_a_server_that_dies_in_a_call_is_started_again_and_then_given_up(
    tmp_path: Path,
) -> None:
    limits = ServerLimits(restart_delays_s=(0.01, 0.01, 0.01), down_s=1_000.0)
    async with hostile(tmp_path, "dies in the call", limits=limits) as server:
        pin = await server.pin()
        for _ in range(4):
            with pytest.raises(ToolError, match="did not run show"):
                await server.call(pin)
        for _ in range(2):
            with pytest.raises(ToolError, match=r"is down|ends at each call"):
                await server.call(pin)
    assert sum("called" in entry for entry in server.log()) == 4


async def test_a_server_that_exits_after_each_call_works_all_the_same(tmp_path: Path) -> None:
    async with hostile(tmp_path, "exits after each call") as server:
        pin = await server.pin(Risk.READ)
        for _ in range(3):
            assert (await server.call(pin)).text == "fine"


async def test_a_tool_that_changes_between_two_calls_is_withheld(tmp_path: Path) -> None:
    async with hostile(tmp_path, "rug pull") as server:
        pin = await server.pin()
        assert (await server.call(pin)).text == "fine"
        with pytest.raises(ToolError, match="hermes mcp review shop"):
            await server.call(pin)
    assert sum("called" in entry for entry in server.log()) == 1


async def test_a_server_gets_no_answers_of_the_model_and_no_passwords(tmp_path: Path) -> None:
    asked: list[str] = []

    async def ask(question: str, _choices: Sequence[str]) -> str:
        asked.append(question)
        return "hunter2"

    async with hostile(tmp_path, "sampling loop", "asks for a password") as server:
        assert (await server.call(ask=ask)).text == "fine"
    assert asked == []
    answers = [entry["answer"] for entry in server.log() if "asked" in entry]
    assert len(answers) == 31
    assert all("not supported" in str(answer) for answer in answers[:30])
    assert answers[30]["action"] == "decline"


async def test_an_empty_answer_to_a_server_is_the_default_of_its_field(tmp_path: Path) -> None:
    async def ask(question: str, _choices: Sequence[str]) -> str:
        return "7" if "(count)" in question else ""

    fields = {
        "count": {"type": "integer", "default": 1},
        "share": {"type": "number", "default": 0.5},
        "name": {"type": "string", "default": "Ann"},
    }
    hooks = ConnectionHooks("shop", str(tmp_path))
    hooks.ask = ask
    asked = ElicitRequestFormParams(
        message="Who?", requested_schema={"type": "object", "properties": fields}
    )
    answer = await hooks.elicit(None, asked)
    assert answer.content == {"count": 7, "share": 0.5, "name": "Ann"}


async def test_roots_are_the_workspace_and_nothing_else(tmp_path: Path) -> None:
    async with hostile(tmp_path, "asks for roots") as server:
        await server.call()
    (answer,) = [entry["answer"] for entry in server.log() if "asked" in entry]
    assert [root["uri"] for root in answer["roots"]] == [f"file://{tmp_path}"]


async def test_results_are_read_with_care(tmp_path: Path) -> None:
    picture = base64.b64encode(b"\x89PNG").decode()
    content = [
        {"type": "text", "text": "a\u202eb\u200b"},
        {"type": "image", "mimeType": "image/png", "data": picture},
        {"type": "image", "mimeType": "image/png", "data": "%%%"},
        {"type": "resource_link", "uri": "file:///etc/passwd", "name": "x"},
    ]
    async with hostile(tmp_path, answers={"show": {"content": content}}) as server:
        found = await server.call()
    assert (
        found.text == "ab\n[image/png that is not base64]\n[link, not fetched: file:///etc/passwd]"
    )
    assert [(each.media, each.data) for each in found.media] == [("image/png", b"\x89PNG")]


async def test_a_result_of_2_mb_is_cut(tmp_path: Path) -> None:
    long = {"content": [{"type": "text", "text": "x" * 2_000_000}]}
    async with hostile(tmp_path, answers={"show": long}) as server:
        text = (await server.call()).text
    assert len(text) < 1_000_200
    assert "the rest was left out" in text


async def test_an_answer_that_does_not_fit_its_schema_is_an_error(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {**TOOL, "outputSchema": schema}
    wrong = {"content": [], "structuredContent": {"n": "many"}}
    async with hostile(tmp_path, tools=[tool], answers={"show": wrong}) as server:
        with pytest.raises(ToolError, match="did not run show"):
            await server.call()


async def test_a_server_that_ignores_signals_and_leaves_children_is_ended(tmp_path: Path) -> None:
    seconds = f"305.{os.getpid()}"
    async with hostile(tmp_path, "ignores signals", "leaves children", sleep=seconds) as server:
        await server.call()
        assert _running(seconds)
    assert not _running(seconds)
    assert not _running(str(tmp_path / "script.json"))


async def test_a_server_runs_in_the_sandbox_and_sees_nothing_of_the_home(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / ".env").write_text("SHOP_TOKEN=t-123456\nOTHER_TOKEN=o-123456\n")
    (work / "server.py").write_text(SERVER.read_text())
    (work / "script.json").write_text(json.dumps({"tools": [TOOL]}))
    address = ServerAddress(
        command=("/usr/bin/python3", "-I", str(work / "server.py"), str(work / "script.json")),
        env=("SHOP_TOKEN",),
        environment="sandbox",
    )
    pin = ServerPin(name="shop", address=address)
    loaded = load(home=home, variables={"PATH": "/usr/bin:/bin", "HOME": "/root"})
    async with open_servers(loaded, work, None, PATIENT) as servers:
        server = HostileServer(servers.server(pin), work)
        assert (await server.call()).text == "fine"
    (names,) = [entry["variables"] for entry in server.log() if "variables" in entry]
    usual = {"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR", "PWD", "LC_CTYPE", "OLDPWD"}
    assert set(names) - usual == {"SHOP_TOKEN"}


def _running(word: str) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
