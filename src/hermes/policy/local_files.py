"""What the gate may look up on this very machine: where symlinks lead, what is in a script."""

import hashlib
import os
from pathlib import Path

_LARGEST = 8 * 1024 * 1024


def follow(path: str) -> str:
    """The real path; the path itself where there is nothing to follow."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a loop of links, or a byte no file name has
        return path


def digest(path: str) -> str:
    """Of the content of a script, empty if it cannot be read; of a huge file only its face."""
    try:
        file = Path(path)
        status = file.stat()
        if not file.is_file():
            return ""
        if status.st_size > _LARGEST:
            return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ino}"
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""
