"""What is left of the commands of a Hermes that was killed with `kill -9`: a real process."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hermes
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)
START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0


def wait_until(true: Callable[[], object], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def processes_with(value: str, name: str = "cmdline") -> set[int]:
    """Running processes with this among their arguments, or in another file of /proc."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / name).read_bytes().split(b"\0")
        except OSError:
            continue
        if value.encode() in words:
            found.add(int(folder.name))
    return found


@contextmanager
def killed_hermes(folder: Path, command: str, started: Callable[[], object]) -> Iterator[None]:
    """`hermes chat` runs the command, and is killed once the command has started."""
    replies, work = folder / "replies.jsonl", folder / "work"
    work.mkdir()
    call = {"id": "c1", "name": "terminal", "arguments": {"command": command}}
    replies.write_text(json.dumps({"role": "assistant", "calls": [call]}))
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes.cli", "chat", "-q", "x", "-m", f"scripted:{replies}"],
        cwd=work,
        env={
            "HERMES_HOME": str(folder / "home"),
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(hermes.__file__).parents[1]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_until(lambda: started() or process.poll() is not None, START_TIMEOUT_S)
        shown = process.communicate()[0] if process.poll() is not None else b""
        assert started(), shown
    finally:
        process.kill()
        process.communicate()
    yield


def test_a_command_that_only_reads_ends_with_hermes(tmp_path: Path) -> None:
    seconds = f"300.{os.getpid()}"
    command = f"(env -i sleep {seconds} &); setsid sleep {seconds} & sleep {seconds} | cat"
    with killed_hermes(tmp_path, command, lambda: len(processes_with(seconds)) >= 3):
        left = [
            lambda: processes_with(seconds),
            lambda: processes_with(f"HOME={tmp_path}", "environ"),
        ]
        try:
            assert wait_until(lambda: not any(find() for find in left), END_TIMEOUT_S), left[0]()
        finally:
            for pid in processes_with(seconds):
                os.kill(pid, signal.SIGKILL)


def test_a_command_that_changes_something_is_finished(tmp_path: Path) -> None:
    work = tmp_path / "work"
    command = "echo 1 > begun; sleep 2; echo 2 > finished"
    with killed_hermes(tmp_path, command, (work / "begun").exists):
        assert wait_until((work / "finished").exists, 120)
