"""Programs with raw pipes in a sandbox, a real container and over a real ssh: the same everywhere,
and nothing is left of a Hermes that is killed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import real_docker
import real_ssh

import hermes
from conftest import PLACES
from hermes.core.errors import EnvironmentFailed
from hermes.core.protocols import PipedProcess, StartsPipedProcesses
from hermes.environments.open import EnvironmentOpening
from hermes.environments.settings import TerminalSettings

pytestmark = [pytest.mark.anyio, pytest.mark.box]
ELSEWHERE = ("sandbox", "docker", "ssh")
DEADLINE_S = 60.0


def running(word: str) -> bool:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ended = (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if word.encode() in words and not ended:
            return True
    return False


def wait_until(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def read_all(process: PipedProcess) -> list[str]:
    output = b""
    while data := await process.receive():
        output += data
    return output.decode().splitlines()


@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_bytes_variables_errors_and_exit_code(kind: str, tmp_path: Path) -> None:
    script = "read line; echo got $line; echo aside >&2; echo $TOKEN; env; exit 7"
    async with PLACES[kind](tmp_path) as environment:
        assert isinstance(environment, StartsPipedProcesses)
        log = tmp_path / "server.log"
        async with environment.open_piped(
            ["sh", "-c", script], variables={"TOKEN": "a 'b' $c"}, log=log
        ) as process:
            await process.send(b"hello\n")
            lines = await read_all(process)
            assert await process.wait() == 7
    assert lines[:2] == ["got hello", "a 'b' $c"]
    names = {line.partition("=")[0] for line in lines[2:]}
    usual = {"PWD", "OLDPWD", "SHLVL", "_", "HERMES_TREE", "LANG", "USER", "LOGNAME", "SHELL"}
    assert names - usual - {"TMPDIR"} == {"PATH", "HOME", "TOKEN"}
    assert "aside" in process.last_errors()
    assert "aside" in log.read_text()


@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_the_whole_tree_ends_with_the_block(kind: str, tmp_path: Path) -> None:
    seconds = f"31{ELSEWHERE.index(kind)}.{os.getpid()}"
    script = f"trap '' TERM HUP; sleep {seconds} & echo up; sleep {seconds}; sleep {seconds}"
    async with PLACES[kind](tmp_path) as environment:
        assert isinstance(environment, StartsPipedProcesses)
        async with environment.open_piped(["sh", "-c", script], variables={}) as process:
            assert await process.receive() == b"up\n"
            assert wait_until(lambda: running(seconds))
        assert wait_until(lambda: not running(seconds))


@pytest.mark.parametrize("kind", ELSEWHERE)
async def test_what_cannot_be_started_says_so(kind: str, tmp_path: Path) -> None:
    async with PLACES[kind](tmp_path) as environment:
        assert isinstance(environment, StartsPipedProcesses)
        async with environment.open_piped(["no-such-program"], variables={}) as process:
            assert await read_all(process) == []
            assert await process.wait() == 127
            assert "no-such-program" in process.last_errors()
        with pytest.raises(EnvironmentFailed):
            async with environment.open_piped(["x"], variables={}, scratch=tmp_path / "s"):
                pass


OWNER = """
import sys, anyio, msgspec
from pathlib import Path
from hermes.environments.open import EnvironmentOpening, open_environment
from hermes.environments.settings import TerminalSettings
async def main():
    seconds, folder, settings = sys.argv[1:]
    script = f"trap '' TERM HUP; sleep {seconds} & echo up; sleep {seconds}; sleep {seconds}"
    home = Path(folder)
    opening = EnvironmentOpening(
        msgspec.json.decode(settings, type=TerminalSettings), home, home,
        {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder})
    async with open_environment(opening) as environment:
        async with environment.open_piped(["sh", "-c", script], variables={}) as process:
            await process.receive()
            print("up", flush=True)
            await anyio.sleep_forever()
anyio.run(main)
"""


def opening(kind: str, folder: Path) -> EnvironmentOpening:
    if kind == "docker":
        return real_docker.opening(folder)
    if kind == "ssh":
        return real_ssh.opening(folder)
    return EnvironmentOpening(TerminalSettings(backend="sandbox"), folder, folder)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_nothing_is_left_of_a_killed_owner(kind: str, tmp_path: Path) -> None:
    seconds = f"32{ELSEWHERE.index(kind)}.{os.getpid()}"
    settings = msgspec.json.encode(opening(kind, tmp_path).settings).decode()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, seconds, str(tmp_path), settings],
        env={"PYTHONPATH": str(Path(hermes.__file__).parents[1]), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    assert wait_until(lambda: running(seconds))
    owner.kill()
    owner.communicate()
    assert wait_until(lambda: not running(seconds))
