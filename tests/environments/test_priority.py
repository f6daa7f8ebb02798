"""A watch on a busy host keeps running; what it starts is not preferred to other programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.environments.processes.spawn import normal_priority, raise_priority
from hermes.environments.sandboxing.support import no_sandbox_reason

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")

IN_A_PROCESS = """
import os, sys
from hermes.environments.processes.spawn import raise_priority
from hermes.environments.processes.spawn import ChildProcess, spawn
assert raise_priority(-10)
with open(sys.argv[1], "wb") as output:
    child = ChildProcess(spawn(["/usr/bin/nice"], {}, stdin=None, output=output.fileno()))
    while child.reap() is None:
        pass
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


@needs_root
def test_a_program_does_not_inherit_the_priority_of_the_watch(tmp_path: Path) -> None:
    target = tmp_path / "niceness"
    own = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, str(target)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert own.stdout.strip() == "-10"
    assert target.read_text().strip() == "0"


IN_A_BOX = """
import anyio
from hermes.environments.boxes.box import Box
from hermes.environments.processes.spawn import raise_priority
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostSpec

async def main():
    assert raise_priority(-10)
    async with Box([build_host_plan(HostSpec(name="web-1"))]) as box:
        print((await box.run("nice")).output.strip())

anyio.run(main)
"""


@needs_root
@pytest.mark.skipif(bool(no_sandbox_reason()), reason=str(no_sandbox_reason()))
def test_the_services_of_a_copy_are_not_preferred_to_those_of_the_host() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_BOX], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("0", "")


def test_a_lower_priority_is_inherited() -> None:
    """A review in the background stays in the background, with all that it starts."""
    child = os.fork()
    if child == 0:
        os.nice(5)
        with normal_priority():
            os._exit(os.getpriority(os.PRIO_PROCESS, 0))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


@needs_root
def test_without_the_right_the_priority_stays() -> None:
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(7 if raise_priority(-10) else os.getpriority(os.PRIO_PROCESS, 0))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
