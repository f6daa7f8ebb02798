"""The checks of the build can fail: each rule is broken in a copy of the source."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def lint_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `lint-imports` reports of a copy of the source in which four rules are broken."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    package = Path(shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)) / "hermes"
    shutil.copy(ROOT / "pyproject.toml", folder)
    (package / "attic").mkdir()
    (package / "attic/__init__.py").write_text('"""A package that is in no layer."""\n')
    for file, module in (
        ("core/bus.py", "hermes.agent"),
        ("tools/__init__.py", "hermes.memory"),
        ("agent/__init__.py", "apsw"),
    ):
        with (package / file).open("a") as text:
            text.write(f"\nimport {module}\n")
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    return done.stdout


def test_a_package_without_a_layer_fails_the_build(lint_report: str) -> None:
    assert "attic" in lint_report


def test_an_import_of_a_higher_layer_fails_the_build(lint_report: str) -> None:
    assert "imports go down only BROKEN" in lint_report
    assert "hermes.core.bus -> hermes.agent" in lint_report


def test_an_import_of_the_same_layer_fails_the_build(lint_report: str) -> None:
    assert "hermes.tools -> hermes.memory" in lint_report


def test_a_vendor_library_outside_its_package_fails_the_build(lint_report: str) -> None:
    assert "Only memory imports apsw BROKEN" in lint_report
    assert "hermes.agent -> apsw" in lint_report


def gates(folder: Path) -> str:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return subprocess.run(
        [sys.executable, ROOT / "scripts/gates.py"], cwd=folder, capture_output=True, text=True
    ).stdout


def test_a_file_that_is_too_long_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/long.py").write_text("x = 1\n" * 501)
    (tmp_path / "src/fine.py").write_text("x = 1\n" * 500)
    found = gates(tmp_path)
    assert "src/long.py: 501 lines" in found
    assert "fine.py" not in found


def test_a_path_of_this_machine_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("see /ro" + "ot/.cache for more")
    assert "names a machine" in gates(tmp_path)
