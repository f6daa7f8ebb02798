"""Looking after background processes, as the model does it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tool_setup import House

from hermes.core.errors import ToolError
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry
from hermes.environments.settings import TerminalSettings
from hermes.tools.terminal import process

pytestmark = pytest.mark.anyio


class Desk:
    """A registry with one process in it, and the tool in hand."""

    def __init__(self, house: House, registry: ProcessRegistry) -> None:
        self.house, self.registry = house, registry

    async def start(self, command: str, run: str = "run") -> str:
        view = await self.registry.start(self.house.environment, command, run=run)
        return view.id

    async def ask(self, action: str, id: str = "", origin: str = "cli", **more: Any) -> str:
        context = self.house.context(processes=self.registry, origin=origin)
        return await process(context, {"action": action, "session_id": id, **more})

    async def until(self, id: str, text: str) -> None:
        with anyio.fail_after(120):
            while True:
                if text in await self.registry.log(id):
                    return
                await anyio.sleep(0.01)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}) as environment:
        house = House(environment, {})
        settings = TerminalSettings(max_wait=1.0)
        async with ProcessRegistry(
            tmp_path / "home", house.bus.publish, settings=settings
        ) as registry:
            yield Desk(house, registry)


async def test_a_conversation_with_a_process(desk: Desk) -> None:
    id = await desk.start("echo name?; read -r x; echo hello $x; exit 2")
    await desk.until(id, "name?")
    assert (await desk.ask("poll", id)).startswith("name?\n[running for ")
    assert (await desk.ask("poll", id)).startswith("[nothing new]\n[running for ")
    assert await desk.ask("write", id, data="wor") == "sent 3 bytes"
    assert await desk.ask("submit", id, data="ld") == "sent 3 bytes"
    assert await desk.ask("wait", id) == "hello world\n[exit 2]"
    assert await desk.ask("log", id, offset=0) == "name?\nhello world\n[lines 0–2 of 2]"
    assert await desk.ask("log", id, offset=-1) == "hello world\n[lines 1–2 of 2]"


async def test_the_list_says_how_each_is(desk: Desk) -> None:
    assert await desk.ask("list") == "no background processes"
    one = await desk.start("sleep 60")
    two = await desk.start("true\n# a second line")
    await desk.ask("wait", two)
    first, second = (await desk.ask("list")).splitlines()
    assert first.startswith(f"{one}  running for ")
    assert first.endswith("sleep 60")
    assert second.startswith(f"{two}  exit 0  local  0 bytes  true…")
    assert (await desk.ask("kill", one)).startswith(f"{one}  killed")


async def test_a_wait_that_is_cut_short_says_so(desk: Desk) -> None:
    id = await desk.start("sleep 60")
    told = await desk.ask("wait", id, timeout=500)
    assert "still running after 1 s" in told
    assert "you asked for 500 s" in told
    assert "you asked for" not in await desk.ask("wait", id, timeout=0.1)
    await desk.ask("kill", id)


async def test_elsewhere_than_at_home_a_run_sees_only_its_own(desk: Desk) -> None:
    mine, other = await desk.start("sleep 60"), await desk.start("sleep 60", run="other")
    told = await desk.ask("list", origin="chat")
    assert mine in told
    assert other not in told
    with pytest.raises(ToolError, match="there is no process"):
        await desk.ask("kill", other, origin="chat")
    assert len((await desk.ask("list")).splitlines()) == 2
    await desk.registry.end("run")
    await desk.registry.end("other")


async def test_what_is_wrong_is_told(desk: Desk) -> None:
    with pytest.raises(ToolError, match="there is no process 'proc_1'"):
        await desk.ask("poll", "proc_1")
    with pytest.raises(ToolError, match="arguments do not fit"):
        await desk.ask("restart", "proc_1")
    with pytest.raises(ToolError, match="no background processes here"):
        await process(desk.house.context(), {"action": "list"})


def test_its_face_is_small() -> None:
    assert len(msgspec.json.encode(process.spec)) < 800
