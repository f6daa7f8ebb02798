"""Reads and atomically replaces files of the home folder, with one writer at a time.

Every failure is a `SettingsError` that names the file and the remedy.
"""

import errno
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.plumbing.files import FileLock, write_atomically

LOCK_FILE_NAME = ".settings.lock"


def read_text(path: Path) -> str | None:
    """Return the text of the file; None when there is no such file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be read: {error.strerror}. "
            "Give this user the right to read it, or set HERMES_HOME to a folder of yours."
        ) from error


def replace_text(path: Path, text: str, *, private: bool = False) -> None:
    """Replace the text of the file in one step. A symbolic link stays a link; `private` hides the
    file from other users, otherwise it keeps its mode."""
    try:
        write_atomically(path.resolve(), text, keep_mode=not private)
    except OSError as error:
        raise unwritable_error(path, error) from error


def lock_settings(home: Path) -> FileLock:
    """Lock the settings of this home against other writers; create the home if needed."""
    try:
        return FileLock(home / LOCK_FILE_NAME)
    except OSError as error:
        raise unwritable_error(home, error) from error


def unwritable_error(path: Path, error: OSError) -> SettingsError:
    advice = (
        "Free some space and try again."
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "Make it writable for this user, or set HERMES_HOME to a folder of yours."
    )
    return SettingsError(f"cannot write {path}: {error.strerror}. {advice}")
