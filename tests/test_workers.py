"""Tests in several processes: loaded once, kept apart, and none is lost with its process."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SHARED_FIXTURE = """
import uuid
import pytest
print("loaded once")

@pytest.fixture(scope="session")
def process():
    return uuid.uuid4().hex
"""
TESTS_THAT_SHOW_THEIR_PROCESS = """
import os, time, warnings
from pathlib import Path
import pytest

@pytest.mark.parametrize("number", range(20))
def test_place(number, process, tmp_path):
    mine = Path("/tmp/of-one-process")
    mine.touch()
    time.sleep(0.01)
    print("SEEN", __name__, process, os.readlink("/proc/self/ns/net"), mine.stat().st_ino)
    assert [each for each in tmp_path.parent.iterdir() if each.is_dir()]
"""
TESTS_OF_ENDS = """
import os, signal, time, warnings
import pytest

@pytest.fixture(scope="session")
def broken_end():
    yield
    raise OSError("cannot be stopped")

def test_before(): ...

def test_exit():
    os._exit(0)

def test_kill():
    os.kill(os.getpid(), signal.SIGKILL)

def test_output():
    print("what it printed")
    assert [1, 2] == [1, 3]

@pytest.mark.skip(reason="no reason")
def test_skipped(): ...

def test_warning():
    warnings.warn("a warning of a test")

def test_after(broken_end): ...
"""
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def start(*words: str, **files: str) -> str:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "workers", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "-c", "/dev/null", "--rootdir", ".", "--jobs", "2", *words],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(TESTS),
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
            capture_output=True,
            text=True,
        )
        return f"{done.stdout}\n{done.stderr}\nexit code {done.returncode}"

    return start


def test_a_file_runs_in_one_process_which_has_its_own_network_and_folder(run: Run) -> None:
    texts = {f"test_{name}": TESTS_THAT_SHOW_THEIR_PROCESS for name in "abc"}
    shown = run("-rP", conftest=SHARED_FIXTURE, **texts)
    assert "60 passed" in shown, shown
    seen = re.findall(r"^SEEN (\S+) (\S+) (\S+) (\S+)$", shown, re.MULTILINE)
    assert len(seen) == 60
    assert len({(file, process) for file, process, _, _ in seen}) == 3
    processes, networks, folders = (len({each[column] for each in seen}) for column in (1, 2, 3))
    assert processes == 2
    assert (networks, folders) == ((2, 2) if os.geteuid() == 0 else (1, 1))


def test_test_files_are_loaded_once(run: Run) -> None:
    loaded = "print('LOADED')\ndef test_it(): ..."
    shown = run("-s", test_a=loaded, test_b=loaded)
    assert "2 passed" in shown, shown
    assert shown.count("LOADED") == 2


def test_a_test_that_ends_its_process_fails_alone(run: Run) -> None:
    shown = run("-rA", test_ends=TESTS_OF_ENDS)
    outcomes = set(re.findall(r"^([A-Z]+) test_ends\.py::(\w+)", shown, re.MULTILINE))
    assert outcomes == {
        *(("PASSED", f"test_{name}") for name in ("before", "warning", "after")),
        *(("FAILED", f"test_{name}") for name in ("exit", "kill", "output")),
        ("ERROR", "test_after"),
    }, shown
    for code in (0, 137 if os.geteuid() == 0 else -9):
        assert f"its process ended with {code} while it ran" in shown
    for text in ("what it printed", "assert [1, 2] == [1, 3]", "cannot be stopped", "no reason"):
        assert text in shown
    assert "UserWarning: a warning of a test" in shown
    assert "3 failed, 3 passed, 1 skipped, 1 warning, 1 error" in shown


def test_a_test_that_hangs_ends_with_its_trace(run: Run) -> None:
    limit = ("-o", "faulthandler_timeout=0.5", "-o", "faulthandler_exit_on_timeout=true")
    shown = run(*limit, test_hang="import time\ndef test_hang():\n    time.sleep(60)")
    assert "Timeout (0:00:00.500000)!" in shown, shown
    assert "in test_hang" in shown
    assert "its process ended with 1 while it ran" in shown


def test_no_test_begins_after_a_failure_that_ends_the_run(run: Run) -> None:
    texts = {f"test_{name}": "def test_a(): assert 0\ndef test_b(): ..." for name in "abcd"}
    shown = run("-x", **texts)
    assert re.search(r"stopping after \d failures", shown), shown
    assert len(re.findall(r"^FAILED", shown, re.MULTILINE)) <= 2


def test_a_thread_of_a_test_file_is_refused(run: Run) -> None:
    shown = run(
        test_a="import threading, time\n"
        "threading.Thread(target=time.sleep, args=[1]).start()\n"
        "def test_a(): ..."
    )
    assert "a test file starts a thread" in shown
    assert shown.endswith("exit code 4")
