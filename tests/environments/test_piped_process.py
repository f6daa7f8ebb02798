"""Programs with raw pipes, which end with their block and with a Hermes that is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import hermes
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import StartsPipedProcesses
from hermes.environments.local import LocalEnvironment
from hermes.environments.processes.piped_process import end_orphans, open_piped

pytestmark = [pytest.mark.anyio, pytest.mark.box]
VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/", "LANG": "C.UTF-8"}
DEADLINE_S = 120.0


def processes_with(word: str) -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if word.encode() in words and not ended:
            found.add(int(folder.name))
    return found


def wait_until(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


async def test_bytes_go_in_and_out_and_the_error_stream_has_its_own_log(tmp_path: Path) -> None:
    script = "read line; echo got $line; echo aside >&2; pwd; env"
    async with LocalEnvironment(tmp_path, VARIABLES) as environment:
        assert isinstance(environment, StartsPipedProcesses)
        log = tmp_path / "logs" / "server.log"
        async with environment.open_piped(
            ["sh", "-c", script], variables={**VARIABLES, "TOKEN": "t"}, log=log
        ) as process:
            await process.send(b"hello\n")
            output = b""
            while data := await process.receive():
                output += data
            assert await process.wait() == 0
        lines = output.decode().splitlines()
    assert lines[:2] == ["got hello", str(tmp_path)]
    names = {line.partition("=")[0] for line in lines[2:]}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        "PATH",
        "HOME",
        "LANG",
        "TOKEN",
        "HERMES_TREE",
    }
    assert log.read_text() == "aside\n"
    assert process.last_errors() == "aside\n"


async def test_the_whole_tree_ends_with_the_block_although_it_ignores_signals(
    tmp_path: Path,
) -> None:
    seconds = f"301.{os.getpid()}"
    script = f"trap '' TERM HUP; setsid sleep {seconds} & sleep {seconds} & echo up; wait; sleep 9"
    async with open_piped(
        ["sh", "-c", script],
        variables=VARIABLES,
        cwd=str(tmp_path),
        records=tmp_path / "r",
        grace_s=0.2,
    ) as process:
        assert await process.receive() == b"up\n"
        assert wait_until(lambda: len(processes_with(seconds)) == 2)
    assert not processes_with(seconds)
    assert list((tmp_path / "r").iterdir()) == []


async def test_a_program_whose_parent_dies_at_once_ends_with_the_block(tmp_path: Path) -> None:
    seconds = f"302.{os.getpid()}"
    script = f"(setsid sleep {seconds} &) ; echo up"
    async with open_piped(
        ["sh", "-c", script], variables=VARIABLES, cwd=str(tmp_path), grace_s=0.2
    ) as process:
        assert await process.receive() == b"up\n"
        await process.wait()
        assert wait_until(lambda: processes_with(seconds))
    assert not processes_with(seconds)


async def test_a_cancelled_block_ends_its_program(tmp_path: Path) -> None:
    seconds = f"303.{os.getpid()}"
    with anyio.CancelScope() as scope:
        async with open_piped(
            ["sleep", seconds], variables=VARIABLES, cwd=str(tmp_path), grace_s=0.2
        ) as process:
            scope.cancel()
            await process.receive()
    assert scope.cancelled_caught
    assert not processes_with(seconds)


async def test_a_program_that_floods_its_streams_can_be_ended(tmp_path: Path) -> None:
    async with open_piped(
        ["sh", "-c", "yes >&2 & exec yes"],
        variables=VARIABLES,
        cwd=str(tmp_path),
        log=tmp_path / "log",
        grace_s=0.2,
    ) as process:
        assert await process.receive()
    assert (tmp_path / "log").stat().st_size < 4_000_000


async def test_the_watchdog_of_a_program_without_a_record_removes_no_file(tmp_path: Path) -> None:
    """It was told to remove /dev/null, and as root it could."""
    async with open_piped(["cat"], variables=VARIABLES, cwd=str(tmp_path), grace_s=0.2):
        own = [Path(f"/proc/{pid}/cmdline") for pid in _children(os.getpid())]
        words = [file.read_bytes().split(b"\0") for file in own]
    (watchdog,) = [each for each in words if any(b"HERMES_TREE=" in word for word in each)]
    assert watchdog[-3:] == [b"", b"", b""]  # neither a record nor a folder, and the end


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in tasks for child in file.read_text().split()]


async def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async with open_piped(
        ["no-such-program"], variables=VARIABLES, cwd=str(tmp_path), grace_s=0.2
    ) as process:
        assert await process.receive() == b""
        assert await process.wait() == 127
        assert "no-such-program" in process.last_errors()
        with pytest.raises(EnvironmentFailed):
            await process.send(b"x")
    with pytest.raises(ToolError):
        async with open_piped(["a\0b"], variables=VARIABLES, cwd=str(tmp_path)):
            pass


OWNER = """
import anyio, sys
from pathlib import Path
from hermes.environments.processes.piped_process import open_piped
async def main():
    seconds, folder = sys.argv[1:]
    script = f"trap '' TERM HUP; (setsid sleep {seconds} &); sleep {seconds} & echo up; wait"
    async with open_piped(["sh", "-c", script], variables={"PATH": "/usr/bin:/bin"}, cwd="/",
                          records=Path(folder)) as process:
        await process.receive()
        print("up", flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


def start_owner(seconds: str, records: Path) -> "subprocess.Popen[str]":
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, seconds, str(records)],
        env={"PYTHONPATH": str(Path(hermes.__file__).parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    assert wait_until(lambda: len(processes_with(seconds) - {owner.pid}) == 2)
    return owner


def test_nothing_is_left_of_a_killed_owner(tmp_path: Path) -> None:
    for number in range(3):
        seconds = f"30{number}.9{os.getpid()}"
        owner = start_owner(seconds, tmp_path / "r")
        owner.kill()
        owner.communicate()
        assert wait_until(lambda seconds=seconds: not processes_with(seconds))  # type: ignore[misc]
    assert wait_until(lambda: not list((tmp_path / "r").iterdir()))


async def test_a_later_start_ends_what_a_killed_watchdog_left(tmp_path: Path) -> None:
    seconds, records = f"309.{os.getpid()}", tmp_path / "r"
    owner = start_owner(seconds, records)
    assert await end_orphans(records) == 0  # its owner is alive
    (mark,) = [file.name for file in records.iterdir()]
    for pid in processes_with(f"HERMES_TREE={mark}"):  # the watchdog has it among its arguments
        os.kill(pid, signal.SIGKILL)
    owner.kill()
    owner.communicate()
    assert len(processes_with(seconds)) == 2
    assert await end_orphans(records) == 1
    assert not processes_with(seconds)
    assert list(records.iterdir()) == []
