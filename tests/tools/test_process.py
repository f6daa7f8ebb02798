"""Looking after background processes, as the model does it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tool_setup import ToolSetup

from hermes.core.errors import ToolError
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry
from hermes.environments.settings import TerminalSettings
from hermes.tools.terminal import process

pytestmark = pytest.mark.anyio


class ProcessToolSetup:
    """A registry with one process in it, and the tool in hand."""

    def __init__(self, tools: ToolSetup, registry: ProcessRegistry) -> None:
        self.tools, self.registry = tools, registry

    async def start(self, command: str, run: str = "run") -> str:
        view = await self.registry.start(self.tools.environment, command, run=run)
        return view.id

    async def ask(self, action: str, id: str = "", origin: str = "cli", **more: Any) -> str:
        context = self.tools.context(processes=self.registry, origin=origin)
        return await process(context, {"action": action, "session_id": id, **more})

    async def until(self, id: str, text: str) -> None:
        with anyio.fail_after(120):
            while True:
                if text in await self.registry.log(id):
                    return
                await anyio.sleep(0.01)


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[ProcessToolSetup]:
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}) as environment:
        tools = ToolSetup(environment, {})
        settings = TerminalSettings(max_wait=1.0)
        async with ProcessRegistry(
            tmp_path / "home", tools.bus.publish, settings=settings
        ) as registry:
            yield ProcessToolSetup(tools, registry)


async def test_a_conversation_with_a_process(processes: ProcessToolSetup) -> None:
    id = await processes.start("echo name?; read -r x; echo hello $x; exit 2")
    await processes.until(id, "name?")
    assert (await processes.ask("poll", id)).startswith("name?\n[running for ")
    assert (await processes.ask("poll", id)).startswith("[nothing new]\n[running for ")
    assert await processes.ask("write", id, data="wor") == "sent 3 bytes"
    assert await processes.ask("submit", id, data="ld") == "sent 3 bytes"
    assert await processes.ask("wait", id) == "hello world\n[exit 2]"
    assert await processes.ask("log", id, offset=0) == "name?\nhello world\n[lines 0–2 of 2]"
    assert await processes.ask("log", id, offset=-1) == "hello world\n[lines 1–2 of 2]"


async def test_the_list_says_how_each_is(processes: ProcessToolSetup) -> None:
    assert await processes.ask("list") == "no background processes"
    one = await processes.start("sleep 60")
    two = await processes.start("true\n# a second line")
    await processes.ask("wait", two)
    first, second = (await processes.ask("list")).splitlines()
    assert first.startswith(f"{one}  running for ")
    assert first.endswith("sleep 60")
    assert second.startswith(f"{two}  exit 0  local  0 bytes  true…")
    assert (await processes.ask("kill", one)).startswith(f"{one}  killed")


async def test_a_wait_that_is_cut_short_says_so(processes: ProcessToolSetup) -> None:
    id = await processes.start("sleep 60")
    told = await processes.ask("wait", id, timeout=500)
    assert "still running after 1 s" in told
    assert "you asked for 500 s" in told
    assert "you asked for" not in await processes.ask("wait", id, timeout=0.1)
    await processes.ask("kill", id)


async def test_elsewhere_than_at_home_a_run_sees_only_its_own(processes: ProcessToolSetup) -> None:
    mine, other = await processes.start("sleep 60"), await processes.start("sleep 60", run="other")
    told = await processes.ask("list", origin="chat")
    assert mine in told
    assert other not in told
    with pytest.raises(ToolError, match="there is no process"):
        await processes.ask("kill", other, origin="chat")
    assert len((await processes.ask("list")).splitlines()) == 2
    await processes.registry.end("run")
    await processes.registry.end("other")


async def test_what_is_wrong_is_told(processes: ProcessToolSetup) -> None:
    with pytest.raises(ToolError, match="there is no process 'proc_1'"):
        await processes.ask("poll", "proc_1")
    with pytest.raises(ToolError, match="arguments do not fit"):
        await processes.ask("restart", "proc_1")
    with pytest.raises(ToolError, match="no background processes here"):
        await process(processes.tools.context(), {"action": "list"})


def test_its_face_is_small() -> None:
    assert len(msgspec.json.encode(process.spec)) < 800
