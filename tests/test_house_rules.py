"""The rules of the house can fail: each is broken on purpose in a copy, and the build notices."""

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


def floors(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )


def test_a_room_that_was_not_placed_fails_the_build(copy: Path) -> None:
    room = copy / "src/hermes/attic"
    room.mkdir()
    (room / "__init__.py").write_text('"""A room nobody placed."""\n')
    built = floors(copy)
    assert built.returncode != 0
    assert "attic" in built.stdout


def test_a_room_that_calls_upstairs_fails_the_build(copy: Path) -> None:
    bus = copy / "src/hermes/core/bus.py"
    bus.write_text(bus.read_text() + "\nimport hermes.agent\n")
    assert "nobody calls upstairs BROKEN" in floors(copy).stdout


def test_a_room_that_knows_its_neighbour_fails_the_build(copy: Path) -> None:
    room = copy / "src/hermes/tools/__init__.py"
    room.write_text(room.read_text() + "\nimport hermes.memory\n")
    assert floors(copy).returncode != 0


def test_a_vendor_outside_its_room_fails_the_build(copy: Path) -> None:
    room = copy / "src/hermes/agent/__init__.py"
    room.write_text(room.read_text() + "\nimport apsw\n")
    assert "apsw lives in memory BROKEN" in floors(copy).stdout


def gates(folder: Path) -> str:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return subprocess.run(
        [sys.executable, ROOT / "scripts/gates.py"], cwd=folder, capture_output=True, text=True
    ).stdout


def test_a_file_that_is_too_long_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/long.py").write_text("x = 1\n" * 401)
    (tmp_path / "src/fine.py").write_text("x = 1\n" * 400)
    found = gates(tmp_path)
    assert "src/long.py: 401 lines" in found
    assert "fine.py" not in found


def test_a_path_of_this_machine_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("see /ro" + "ot/.cache for more")
    assert "names a machine" in gates(tmp_path)
