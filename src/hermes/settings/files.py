"""Reads and atomically replaces files of the home folder, with one writer at a time.

Every failure is a `SettingsError` that names the file and the remedy.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hermes.core.errors import SettingsError

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


def replace_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace the text of the file in one step. A symbolic link stays a link."""
    target = path.resolve()
    try:
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
        try:
            _write_new(temporary, text, mode)
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise unwritable_error(path, error) from error


def _write_new(path: Path, text: str, mode: int) -> None:
    # Created with mode 0600, so that others can never read a secret.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)


@contextmanager
def lock_settings(home: Path) -> Iterator[None]:
    """Lock the settings of this home against other writers; create the home if needed."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(home / LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable_error(home, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # releases the lock


def unwritable_error(path: Path, error: OSError) -> SettingsError:
    advice = (
        "Free some space and try again."
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "Make it writable for this user, or set HERMES_HOME to a folder of yours."
    )
    return SettingsError(f"cannot write {path}: {error.strerror}. {advice}")
