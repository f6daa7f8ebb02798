"""The checks of the build can fail: each test breaks one rule in a copy of the source."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_a_package_without_a_layer_fails_the_build(copy: Path) -> None:
    package = copy / "src/hermes/attic"
    package.mkdir()
    (package / "__init__.py").write_text('"""A package that is in no layer."""\n')
    built = lint_imports(copy)
    assert built.returncode != 0
    assert "attic" in built.stdout


def test_an_import_of_a_higher_layer_fails_the_build(copy: Path) -> None:
    bus = copy / "src/hermes/core/bus.py"
    bus.write_text(bus.read_text() + "\nimport hermes.agent\n")
    assert "imports go down only BROKEN" in lint_imports(copy).stdout


def test_an_import_of_the_same_layer_fails_the_build(copy: Path) -> None:
    package = copy / "src/hermes/tools/__init__.py"
    package.write_text(package.read_text() + "\nimport hermes.memory\n")
    assert lint_imports(copy).returncode != 0


def test_a_vendor_library_outside_its_package_fails_the_build(copy: Path) -> None:
    package = copy / "src/hermes/agent/__init__.py"
    package.write_text(package.read_text() + "\nimport apsw\n")
    assert "Only memory imports apsw BROKEN" in lint_imports(copy).stdout


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
