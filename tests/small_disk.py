"""Real filesystems of a few megabytes that tests can fill, break and take away."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, size: str = "4m") -> Iterator[Path]:
    """A tmpfs; skips the test where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        unmount(folder)


@contextmanager
def breakable_disk(folder: Path, image: Path, *, mib: int = 24) -> Iterator[Path]:
    """An ext4 filesystem in a file: `fail` makes it read-only as an I/O error would."""
    with image.open("wb") as file:
        file.truncate(mib * 1024 * 1024)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    folder.mkdir(parents=True, exist_ok=True)
    mount("-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        unmount(folder)


def fail(folder: Path) -> None:
    """From now on nothing can be written there, also by those who have a file open."""
    subprocess.run(["mount", "-o", "remount,abort", str(folder)], check=True)


def repair(folder: Path, image: Path) -> None:
    """As an administrator does it: unmount, check, mount. Fails while a file is kept open."""
    subprocess.run(["umount", str(folder)], check=True)
    subprocess.run(["fsck.ext4", "-y", str(image)], check=False, capture_output=True)
    mount("-o", "loop", str(image), str(folder))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The same files, mounted over themselves so that nothing can be written."""
    mount("--bind", str(folder), str(folder))
    mount("-o", "remount,ro,bind", str(folder))
    try:
        yield
    finally:
        unmount(folder)


def unmount(folder: Path) -> None:
    """Also while files are open there."""
    subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def fill(folder: Path, *, name: str = "ballast") -> Path:
    """Use up every byte."""
    ballast = folder / name
    with ballast.open("ab", buffering=0) as file:
        for piece in (65536, 4096, 512):
            try:
                while file.write(b"x" * piece) == piece:
                    pass
            except OSError:
                continue
    return ballast


def mount(*words: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small filesystem needs root")
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small filesystem cannot be mounted here: {done.stderr.strip()}")
