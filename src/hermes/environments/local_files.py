"""Reads files of this machine, and replaces them atomically.

The functions block: call them in a thread.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hermes.core.errors import ToolError
from hermes.environments.confinement.replacement import replace_file

_NO_SPACE_ERRORS = {errno.ENOSPC, errno.EDQUOT}


def read_bytes(path: Path, *, offset: int = 0, limit: int | None = None) -> bytes:
    with _translate_errors("read", path):
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe or terminal might block forever
            raise ToolError(f"cannot read {path}: it is {_file_kind(path)}, not a file")
        with path.open("rb") as file:
            file.seek(max(0, offset))
            return file.read(-1 if limit is None else max(0, limit))


def real_path(path: Path) -> Path:
    """Raises `ToolError` for a path that changes while it is resolved."""
    with _translate_errors("look up", path):
        return Path(os.path.realpath(path))


def write_bytes(path: Path, data: bytes, *, follow: bool = True) -> None:
    """Keeps the mode and the owner of the replaced file, and follows symlinks. Other hard links
    keep the old text.

    Without `follow`, a symlink anywhere in the path is an error: the path was judged as written,
    and a folder in it may be replaced by a link at any time.
    """
    with _translate_errors("write", path):
        replace_file(os.path.realpath(path) if follow else str(path), data)


def _file_kind(path: Path) -> str:
    return "a folder" if path.is_dir() else "a device or pipe"


@contextlib.contextmanager
def _translate_errors(verb: str, path: Path) -> Iterator[None]:
    """Raises a `ToolError` with a message for the model instead of an `OSError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"cannot {verb} {path}: there is no such file") from error
    except ValueError as error:
        raise ToolError(f"cannot {verb} {str(path)!r}: {error}") from error
    except OSError as error:
        reason = (
            "disk full: free some space first"
            if error.errno in _NO_SPACE_ERRORS
            else error.strerror
        )
        raise ToolError(f"cannot {verb} {path}: {reason}") from error
