"""A private key on disk: made once, and for nobody else to read."""

import os
import stat
import tempfile
from pathlib import Path

from hermes.core.errors import SettingsError


def read_key(file: Path, what: str = "key") -> bytes:
    """Raises `FileNotFoundError` when there is none, and `SettingsError` when it cannot be used."""
    status = file.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{file} can be read by others: chmod 600 {file}")
    try:
        return bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"the {what} {file} cannot be read: {error}") from error


def make_key(file: Path, what: str = "key") -> bytes:
    """Written whole and then put in its place: of two processes, one wins and both see its key."""
    private = os.urandom(32)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(private.hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, file)
    except FileExistsError:
        return read_key(file, what)
    finally:
        Path(temporary).unlink()
    return private


def read_or_make_key(file: Path, what: str = "key") -> bytes:
    try:
        return read_key(file, what)
    except FileNotFoundError:
        return make_key(file, what)
