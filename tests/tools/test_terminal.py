"""The agent's shell, as the model meets it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tool_setup import ToolSetup

from hermes.core.events.tools import ProcessMatched
from hermes.core.messages import Risk
from hermes.core.protocols import CommandResult
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry
from hermes.tools.terminal import make_terminal, render_command_result, terminal

pytestmark = pytest.mark.anyio


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[ToolSetup]:
    async with LocalEnvironment(tmp_path, {"PATH": os.environ["PATH"]}) as environment:
        yield ToolSetup(environment, {"terminal": make_terminal(timeout=120, max_timeout=120)})


async def test_output_comes_back_without_noise(setup: ToolSetup) -> None:
    assert await setup.ok("terminal", command="echo hello") == "hello"


async def test_the_session_goes_on_from_call_to_call(setup: ToolSetup) -> None:
    await setup.ok("terminal", command="mkdir -p a && cd a && x=1")
    assert (await setup.ok("terminal", command="echo $x ${PWD##*/}")) == "1 a"


async def test_a_failure_is_a_result_that_says_its_code(setup: ToolSetup) -> None:
    told = await setup.ok("terminal", command="echo oops >&2; exit 3")
    first, second = told.splitlines()
    assert first == "oops"
    assert second.startswith("[exit 3 · 0.")


async def test_silence_is_said(setup: ToolSetup) -> None:
    assert await setup.ok("terminal", command="true") == "[no output]"


async def test_a_timeout_says_what_to_do(setup: ToolSetup) -> None:
    told = await setup.ok("terminal", command="echo begun; sleep 60", timeout=1)
    assert told.startswith("begun")
    assert "timed out after 1 s" in told
    assert "background=true" in told


async def test_a_folder_is_for_one_command(setup: ToolSetup, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await setup.ok("terminal", command="echo ${PWD##*/}", workdir="sub") == "sub"
    assert await setup.ok("terminal", command="echo ${PWD##*/}") != "sub"


async def test_without_a_registry_there_is_no_background(setup: ToolSetup) -> None:
    assert "without background" in await setup.fails("terminal", command="x", background=True)


async def test_wrong_arguments_are_told(setup: ToolSetup) -> None:
    assert "command" in await setup.fails("terminal", cmd="ls")


def test_a_result_is_shown_as_briefly_as_it_can_be() -> None:
    def shown(**more: object) -> str:
        return render_command_result(CommandResult(**{"exit_code": 0, "output": "", **more}), 120)  # type: ignore[arg-type]

    assert shown(output="x\n\n") == "x"
    assert shown(output="x", seconds=2.34) == "x\n[2.3 s]"
    assert shown(exit_code=1, seconds=0.26) == "[exit 1 · 0.3 s]"
    assert shown(timed_out=True, exit_code=124).startswith("[timed out after 120 s")


def test_its_face_is_small_and_honest() -> None:
    assert terminal.spec.risk is Risk.CHANGE
    assert len(msgspec.json.encode(terminal.spec)) < 1000
    limited = make_terminal(timeout=7, max_timeout=9).spec.parameters["properties"]["timeout"]
    assert limited["default"] == 7
    assert "9" in limited["description"]


async def test_background_work_is_started_with_what_to_watch(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"]}
    async with LocalEnvironment(tmp_path, variables) as environment:
        setup = ToolSetup(environment, {})
        async with ProcessRegistry(tmp_path / "home", setup.bus.publish) as registry:
            context = setup.context(processes=registry)
            told = await terminal(
                context, {"command": "echo ready", "background": True, "watch": ["ready"]}
            )
            assert told.startswith("started: session_id proc_")
            (view,) = registry.list("run")
            assert view.id in told
            await registry.wait(view.id, timeout=120)
            assert any(isinstance(event, ProcessMatched) for event in setup.journal.events)
            await terminal(context, {"command": "[ -t 0 ] && echo yes", "pty": True})
            _, second = registry.list("run")
            await registry.wait(second.id, timeout=120)
            assert (await registry.poll(second.id))[1] == "yes\r\n"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("sudo: a password is required", True),
        ("x\nsudo: a terminal is required to read the password; either use -S", True),
        ("sudo: unknown user nobodyy", False),
        ("hermes: sudo does not accept SUDO_PASSWORD\nsudo: a password is required", False),
        ("grep sudo: a password is required", False),
    ],
)
async def test_sudo_without_a_password_says_what_to_set(
    setup: ToolSetup, said: str, wanted: bool
) -> None:
    told = await setup.ok("terminal", command=f"cat <<'END'\n{said}\nEND\nexit 1")
    assert ("SUDO_PASSWORD in ~/.hermes/.env" in told) == wanted
