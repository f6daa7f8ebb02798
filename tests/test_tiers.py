"""Each entry of the table of tiers names test files that exist, and tests keep to their tier."""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import tiers

TESTS = Path(__file__).parent
FILES = [each.relative_to(TESTS).as_posix() for each in TESTS.rglob("test_*.py")]
ENTRIES = [entry for files in tiers.FILES_BY_TIER.values() for entry in files]


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_names_files(entry: str) -> None:
    assert any(each.startswith(entry) for each in FILES)


def test_the_longest_entry_counts() -> None:
    assert tiers.tier_of(PurePosixPath("gym/test_box.py")) == "box"
    assert tiers.tier_of(PurePosixPath("gym/test_docker_boxes.py")) == "daemon"
    assert tiers.tier_of(PurePosixPath("core/test_bus.py")) == "unit"


def test_no_file_is_in_two_tiers() -> None:
    assert len(ENTRIES) == len(set(ENTRIES))
    assert set(tiers.FILES_BY_TIER) < set(tiers.TIERS)


def test_a_file_with_a_test_of_another_tier_may_be_in_both() -> None:
    path = PurePosixPath("core/test_bus.py")
    assert tiers.possible_tiers(path, "pytestmark = pytest.mark.anyio\n") == {"unit"}
    marked = "@pytest.mark.torture\ndef test_a(): ...\nb = pytest.param(1, marks=mark.daemon)\n"
    assert tiers.possible_tiers(path, marked) == {"unit", "torture", "daemon"}


@pytest.mark.parametrize(
    ("expression", "only"),
    [("unit", True), ("not (box or daemon)", True), ("unit and anyio", False), ("", False)],
)
def test_only_an_expression_of_tiers_leaves_files_out(expression: str, only: bool) -> None:
    assert tiers.selects_only_tiers(expression) == only


@pytest.mark.command
def test_a_file_without_a_test_of_the_chosen_tier_is_not_loaded() -> None:
    folder = TESTS / "core"
    words = ["--collect-only", "-p", "no:cacheprovider", "-m", "torture", folder]
    done = _pytest(*map(str, words))
    assert "no tests collected" in done.stdout
    assert "deselected" not in done.stdout, done.stdout


@pytest.mark.command
def test_the_processor_time_of_tests_in_other_processes_is_shown() -> None:
    words = ["--jobs", "2", "-p", "no:cacheprovider", "--cpu-times", "1"]
    done = _pytest(*words, "-k", "an_entry_names", __file__)
    assert re.search(rf" s +{len(ENTRIES)}  \S*test_tiers\.py", done.stdout), done.stdout


PROGRAM_TESTS = """
import os, subprocess, threading
import pytest, program_starts

@pytest.fixture
def started_before():
    subprocess.run(["true"], check=True)

@pytest.fixture
def started_after():
    yield
    os.system("true")

@pytest.fixture
def forked():
    yield
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)

@pytest.mark.unit
def test_in_a_thread():
    thread = threading.Thread(target=subprocess.run, args=[["true"]])
    thread.start()
    thread.join()

@pytest.mark.corpus
def test_of_the_corpus():
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

@pytest.mark.unit
def test_setup(started_before): ...

@pytest.mark.unit
def test_teardown(started_after): ...

@pytest.mark.corpus
def test_fork(forked): ...

@pytest.mark.unit
def test_nothing(): ...

@pytest.mark.command
def test_of_programs(started_before, started_after, forked): ...
"""


@pytest.mark.command
def test_a_unit_test_that_starts_a_program_fails(tmp_path: Path) -> None:
    file = tmp_path / "test_programs.py"
    file.write_text(PROGRAM_TESTS)
    marks = "\n".join(f"{name}: {needs}" for name, needs in tiers.TIERS.items())
    done = _pytest(
        *["-p", "program_starts", "-p", "no:cacheprovider", "-rA", "-c"],
        *["/dev/null", "-o", f"markers={marks}", "--rootdir", str(tmp_path), str(file)],
        PYTHONPATH=str(TESTS),
    )
    outcomes = set(re.findall(r"^([A-Z]+) \S+::(\w+)", done.stdout, re.MULTILINE))
    assert outcomes == {
        ("FAILED", "test_in_a_thread"),
        ("FAILED", "test_of_the_corpus"),
        ("ERROR", "test_setup"),
        *(("PASSED", "test_teardown"), ("ERROR", "test_teardown")),
        *(("PASSED", "test_fork"), ("ERROR", "test_fork")),
        ("PASSED", "test_nothing"),
        ("PASSED", "test_of_programs"),
    }, done.stdout
    assert "starts /bin/true: give the file or the test a tier in tests/tiers.py" in done.stdout


def _pytest(*words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env={**os.environ, **more},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("test", "group"),
    [
        ("environments/test_contract.py::TestEnvironments::test_a[docker]", "docker"),
        ("environments/test_docker.py::test_a", "docker"),
        ("environments/test_contract.py::TestEnvironments::test_a[ssh]", "ssh"),
        (
            "environments/test_contract.py::TestEnvironments::test_a[kubernetes-stand-in]",
            "environments/test_contract.py kubernetes",
        ),
        ("core/test_bus.py::test_a[docker]", "core/test_bus.py"),
    ],
)
def test_tests_with_one_daemon_are_one_group(test: str, group: str) -> None:
    assert tiers.process_group(f"tests/{test}") == group
