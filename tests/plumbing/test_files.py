import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.plumbing.files import (
    PUBLIC_MODE,
    FileLock,
    is_locked,
    temporary_copy,
    write_atomically,
)

HOLD_LOCK = """
import sys
from pathlib import Path
from hermes.plumbing.files import FileLock
lock = FileLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_private_and_has_the_whole_content(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_atomically(file, "ä\n")
    assert file.read_bytes() == "ä\n".encode()
    assert mode_of(file) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_an_existing_file_keeps_its_mode_unless_told_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    file.chmod(0o666)  # more than any umask would leave
    write_atomically(file, b"new")
    assert (file.read_text(), mode_of(file)) == ("new", 0o666)
    write_atomically(file, b"secret", keep_mode=False)
    assert mode_of(file) == 0o600


def test_a_public_file_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"", mode=PUBLIC_MODE)
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == 0o640


def test_after_a_failure_the_old_content_is_there_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "half \ud800")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(folder, b"new")
    assert file.read_text() == "old"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.txt", "folder"]


def test_a_symbolic_link_is_replaced_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("untouched")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert (target.read_text(), link.read_text(), link.is_symlink()) == ("untouched", "new", False)


def test_a_temporary_copy_is_complete_and_leaves_when_unused(tmp_path: Path) -> None:
    with temporary_copy(tmp_path / "key", b"0123") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.read_bytes() == b"0123"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.command
def test_a_lock_excludes_other_processes_and_ends_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "a.lock"
    argv = [sys.executable, "-c", HOLD_LOCK, str(file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        assert is_locked(file)
        with pytest.raises(BlockingIOError):
            FileLock(file, wait=False)
        holder.kill()
        holder.wait()
    with FileLock(file, wait=False):
        assert is_locked(file)
    assert not is_locked(file)


def test_a_lock_file_that_does_not_exist_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "none.lock")
