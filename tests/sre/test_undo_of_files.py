"""Copies of files are put back where they were, never through a link that stands there now."""

import subprocess
from pathlib import Path

import pytest

from hermes.sre.undo import UndoPlan


def changed_and_undone(path: Path, change: str) -> None:
    folder = str(path.parent / "kept")
    planned = UndoPlan(paths=(str(path),))
    printed = shell(planned.copy_script(folder))
    shell(change)
    shell(planned.undo_script(folder, printed))


def shell(script: str) -> str:
    done = subprocess.run(["sh", "-ec", script], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """What a link names, as /dev/null for a masked unit: it is nobody's to change."""
    target = tmp_path / "elsewhere"
    target.write_text("other\n")
    target.chmod(0o666)
    return target


def test_a_file_that_became_a_link_is_put_back_as_a_file(tmp_path: Path, elsewhere: Path) -> None:
    unit = tmp_path / "app.service"
    unit.write_text("[Service]\n")
    unit.chmod(0o644)
    changed_and_undone(unit, f"ln -sf {elsewhere} {unit}")
    assert (unit.is_symlink(), unit.read_text()) == (False, "[Service]\n")
    assert (elsewhere.read_text(), elsewhere.stat().st_mode & 0o777) == ("other\n", 0o666)


def test_a_file_in_a_folder_that_became_a_link_is_put_back_as_a_file(
    tmp_path: Path, elsewhere: Path
) -> None:
    unit = tmp_path / "system" / "app.service"
    unit.parent.mkdir()
    unit.write_text("[Service]\n")
    unit.chmod(0o644)
    (unit.parent / "kept.service").symlink_to(elsewhere)
    changed_and_undone(unit.parent, f"ln -sf {elsewhere} {unit}")
    assert (unit.is_symlink(), unit.read_text()) == (False, "[Service]\n")
    assert (unit.parent / "kept.service").is_symlink()
    assert (elsewhere.read_text(), elsewhere.stat().st_mode & 0o777) == ("other\n", 0o666)


def test_a_folder_that_became_a_link_is_put_back_as_a_folder(tmp_path: Path) -> None:
    folder, other = tmp_path / "current", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "file").write_text(each.name)
    changed_and_undone(folder, f"rm -r {folder}; ln -s {other} {folder}")
    assert not folder.is_symlink()
    assert [(each / "file").read_text() for each in (folder, other)] == ["current", "other"]


def test_a_link_that_became_a_folder_is_put_back_as_a_link(tmp_path: Path, elsewhere: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    changed_and_undone(link, f"rm {link}; mkdir {link}; touch {link}/inside")
    assert link.is_symlink()


def test_a_file_keeps_its_inode_where_it_is_still_a_file(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text("before\n")
    inode = path.stat().st_ino
    changed_and_undone(path, f"echo after > {path}")
    assert (path.read_text(), path.stat().st_ino) == ("before\n", inode)
