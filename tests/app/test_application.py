"""The rooms joined: a whole house on embedded defaults, with a scripted model and real commands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes import Agent, AIAgent
from hermes.app import open_application
from hermes.app.application import resume_unattended_runs
from hermes.app.run_locks import RunLocked, RunLocks
from hermes.core.actions import Action, Approval, Decision
from hermes.core.errors import ModelError, SettingsError
from hermes.core.events.runs import ModelFailed
from hermes.core.events.tools import ToolApproved, ToolFinished
from hermes.settings.load import LoadedSettings, load

pytestmark = pytest.mark.anyio

Script = Callable[..., Path]


def says(text: str) -> dict[str, object]:
    return {"role": "assistant", "text": text}


def runs(command: str, call: str = "c1") -> dict[str, object]:
    arguments = {"command": command}
    return {
        "role": "assistant",
        "calls": [{"id": call, "name": "terminal", "arguments": arguments}],
    }


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(*replies: dict[str, object]) -> Path:
        path = tmp_path / f"script-{len(list(tmp_path.glob('script-*')))}.jsonl"
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return path

    return write


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def home_with_key(home: Path) -> Path:
    home.mkdir()
    env = home / ".env"
    env.write_text("OPENROUTER_API_KEY=sk-very-secret\n")
    env.chmod(0o600)
    return home


def settings(home: Path, script: Path, **more: str) -> LoadedSettings:
    variables = {"PATH": os.environ["PATH"], "SHELL_VISITOR": "no"}
    overrides = {"model.default": f"scripted:{script}", **more}
    return load(home=home, variables=variables, overrides=overrides)


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="test")


async def test_a_question_runs_a_command_in_the_working_folder(
    home: Path, script: Script, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    loaded = settings(home, script(runs("echo hello > greeting; pwd"), says("done")))
    async with open_application(loaded, approver=yes, directory=work) as house:
        conversation = await house.begin("greet")
        assert await conversation.say("greet") == "done"
        assert str(work) in str(conversation.messages[-2].result)
    assert (work / "greeting").read_text() == "hello\n"


async def test_with_nobody_to_ask_nothing_is_changed(
    home: Path, script: Script, tmp_path: Path
) -> None:
    loaded = settings(home, script(runs("touch changed; $UNKNOWN true"), says("it was refused")))
    async with open_application(loaded, directory=tmp_path) as house:
        conversation = await house.begin()
        assert await conversation.say("change it") == "it was refused"
        events = [r.event async for r in house.journal.read(run=conversation.run)]
    assert not (tmp_path / "changed").exists()
    assert [e.by for e in events if isinstance(e, ToolApproved)] == ["nobody"]
    assert [e.result.status for e in events if isinstance(e, ToolFinished)] == ["denied"]


async def test_a_command_never_sees_our_keys(home_with_key: Path, script: Script) -> None:
    loaded = settings(home_with_key, script(runs("env; cat /proc/$$/environ"), says("done")))
    assert loaded.secrets["OPENROUTER_API_KEY"] == "sk-very-secret"
    async with open_application(loaded, approver=yes) as house:
        conversation = await house.begin()
        await conversation.say("look")
        seen = str(conversation.messages[-2].result)
    assert "PATH=" in seen
    assert "sk-very-secret" not in seen


async def test_a_failing_model_is_journalled_in_the_run_it_failed(
    home: Path, script: Script
) -> None:
    empty, spare = script(), script(says("hello"))
    loaded = settings(home, empty, **{"model.fallbacks": f"scripted:{spare}"})
    async with open_application(loaded) as house:
        conversation = await house.begin()
        assert await conversation.say("hi") == "hello"
        events = [r.event async for r in house.journal.read(run=conversation.run)]
    failures = [event for event in events if isinstance(event, ModelFailed)]
    assert [event.run for event in failures] == [conversation.run]
    assert failures[0].next == f"scripted:{spare}"


async def test_the_python_door_asks_and_resumes(home: Path, script: Script) -> None:
    first = Agent(f"scripted:{script(says('one'))}", home=home)
    async with first as agent:
        assert await agent.ask("first") == "one"
        run = agent.conversation.run
    async with Agent(f"scripted:{script(says('two'))}", home=home, resume=run) as agent:
        assert await agent.ask("second") == "two"
        assert [m.text for m in agent.messages if m.role == "user"] == ["first", "second"]


async def test_a_drill_is_never_gone_on_with_outside_its_box(home: Path, script: Script) -> None:
    loaded = load(home=home, overrides={"model.default": f"scripted:{script(says('one'))}"})
    async with open_application(loaded) as house:
        talk = await house.begin("a conversation")
    async with open_application(loaded, origin="gym") as house:
        drill = await house.begin("mend the host")
    async with open_application(loaded) as house:
        with pytest.raises(SettingsError, match="was a drill"):
            await house.resume(drill.run)
        assert (await house.resume()).run == talk.run


def test_code_without_async_chats_too(home: Path, script: Script) -> None:
    told: list[str] = []
    replies = script(runs("true"), says("ran it"), says("hello again"))
    with AIAgent(
        model=f"scripted:{replies}",
        home=home,
        max_iterations=5,
        enabled_toolsets=["terminal"],
        quiet_mode=True,
        tool_progress_callback=lambda name, arguments: told.append(f"{name} {arguments}"),
    ) as agent:
        assert agent.chat("run") == "ran it"
        assert agent.chat("and now?") == "hello again"
    assert told == ["terminal {'command': 'true'}"]


@pytest.mark.parametrize(
    ("base_url", "wanted"),
    [
        ("http://127.0.0.1:9/v1", "cannot reach own"),
        ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    ],
)
def test_an_address_without_a_key_is_tried_as_it_is(home: Path, base_url: str, wanted: str) -> None:
    patience = {"model.retries": "0"}
    agent = AIAgent(model="m", base_url=base_url, home=home, settings=patience)
    with agent, pytest.raises(ModelError, match=wanted):
        agent.chat("hello")


KILLED = """
import anyio, os, signal, sys
from pathlib import Path
from hermes.app import open_application
from hermes.core.actions import Approval
from hermes.settings.load import load

async def yes(action, decision):
    return Approval(approved=True, by="test")

async def main(home, script, work):
    overrides = {"model.default": f"scripted:{script}"}
    async with open_application(
        load(home=Path(home), overrides=overrides), approver=yes, directory=Path(work)
    ) as house:
        conversation = await house.begin("work", unattended=True)
        print(conversation.run, flush=True)
        await conversation.say("work")

anyio.run(main, *sys.argv[1:])
"""


@pytest.fixture
def killed(home: Path, script: Script, tmp_path: Path) -> str:
    """A run whose process was killed while its command, in `tmp_path/work`, was running."""
    work = tmp_path / "work"
    work.mkdir()
    replies = script(runs("echo once >> log; sleep 60"), says("never reached"))
    command = [sys.executable, "-c", KILLED, home, replies, work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        run = child.stdout.readline().strip()
        while not (work / "log").exists():
            assert child.poll() is None
        with pytest.raises(RunLocked, match=str(child.pid)):
            RunLocks(home / "locks").acquire(run)
        child.send_signal(signal.SIGKILL)
    return run


async def test_an_unattended_run_goes_on_after_a_kill_and_changes_nothing_twice(
    home: Path, script: Script, tmp_path: Path, killed: str
) -> None:
    loaded = settings(home, script(says("it was cut off; I looked, and it had run")))
    carried = [one async for one in resume_unattended_runs(loaded)]
    assert [(one.run, one.outcome) for one in carried] == [(killed, "answered")]
    assert (tmp_path / "work/log").read_text() == "once\n"
    assert [one async for one in resume_unattended_runs(loaded)] == []


async def test_one_run_belongs_to_one_process_at_a_time(home: Path, script: Script) -> None:
    loaded = settings(home, script(says("one")))
    async with open_application(loaded) as house:
        conversation = await house.begin()
        async with open_application(loaded) as other:
            with pytest.raises(RunLocked):
                await other.resume(conversation.run)
    async with open_application(loaded) as later:
        assert (await later.resume(conversation.run)).run == conversation.run
