"""kill -9 in the middle of a command, a real journal, and another life that goes on from it."""

import os
import signal
import sys
import time
from pathlib import Path

import agent_victim
import anyio
import pytest
from agent_setup import call, calls, check_valid, says

from hermes.agent.conversation import Conversation
from hermes.agent.history import find_interrupted_runs

pytestmark = pytest.mark.anyio


async def until_there(path: Path) -> None:
    def look() -> None:
        deadline = time.monotonic() + 120
        while not path.exists():
            assert time.monotonic() < deadline, f"{path.name} never came"
            time.sleep(0.01)

    await anyio.to_thread.run_sync(look)


async def test_a_killed_run_goes_on_by_itself_and_repeats_no_command(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(agent_victim.__file__)), str(tmp_path)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await anyio.open_process(command, stdout=None, stderr=None, env=variables)
    try:
        await until_there(tmp_path / "started")
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        (tmp_path / "stop").touch()  # the command itself may have outlived us
    async with agent_victim.living(tmp_path, agent_victim.SCRIPT) as dependencies:
        assert await find_interrupted_runs(dependencies.bus.journal) == ["victim"]
        talk = await Conversation.resume(dependencies, "victim")
        check_valid(talk.messages)
        assert await talk.finish_open_turn() == "it had been started, so I looked first"
        results = [m.result for m in talk.messages if m.result]
        assert [r.status for r in results] == ["ok", "error"]
        assert "not known whether it took effect" in results[1].content
        assert await find_interrupted_runs(dependencies.bus.journal) == []
    assert (tmp_path / "log").read_text() == "before\nonce\n"


async def test_interrupting_ends_a_real_command_at_once(tmp_path: Path) -> None:
    script = [calls(call("terminal", id="c", command="touch started; sleep 60")), says("ok")]
    async with agent_victim.living(tmp_path, script) as dependencies:
        talk = await Conversation.begin(dependencies)
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                group.start_soon(talk.say, "go")
                await until_there(tmp_path / "started")
                talk.interrupt()
        check_valid(talk.messages)
        assert talk.ended is not None
        assert talk.ended.outcome == "interrupted"
        assert (await Conversation.resume(dependencies, talk.run)).messages == talk.messages
