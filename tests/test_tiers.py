"""Each entry of the table of tiers names test files that exist, and each tier has tests."""

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
    words = ["--collect-only", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "torture", folder]
    done = _pytest(*map(str, words))
    assert "no tests collected" in done.stdout
    assert "deselected" not in done.stdout, done.stdout


@pytest.mark.command
def test_tests_of_one_file_run_in_one_process() -> None:
    done = _pytest("-n", "2", "-vv", "-p", "no:cacheprovider", "-k", "an_entry_names", __file__)
    workers = re.findall(r"^\[(gw\d)\] .* PASSED", done.stdout, re.MULTILINE)
    assert len(workers) == len(ENTRIES), done.stdout
    assert len(set(workers)) == 1


def _pytest(*words: str) -> "subprocess.CompletedProcess[str]":
    variables = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        env=variables,
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
