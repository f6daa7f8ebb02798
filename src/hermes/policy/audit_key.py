"""The key pair of a home: made once, private for nobody else, public for whoever verifies."""

import os
import stat
import tempfile
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.policy.audit import Signer

KEY_FILE, PUBLIC_FILE = "audit.key", "audit.pub"


def open_signer(home: Path) -> Signer:
    """The signer of a home; its key is made the first time. Raises `SettingsError`."""
    file = home / KEY_FILE
    try:
        return Signer(_read_key(file))
    except FileNotFoundError:
        signer = Signer(_make_key(file))
        (home / PUBLIC_FILE).write_text(signer.public.hex() + "\n")
        return signer


def read_public(file: Path) -> bytes:
    """A public key from its file. Raises `SettingsError` when there is none."""
    try:
        public = bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"no public audit key in {file}: {error}") from error
    if len(public) != 32:
        raise SettingsError(f"no public audit key in {file}: it has {len(public)} bytes, not 32")
    return public


def own_public(home: Path) -> tuple[bytes | None, str]:
    """The public key of a home, and what is wrong with it.

    The private key says what the public one is: a replaced `audit.pub` convinces nobody here.
    """
    try:
        own = Signer(_read_key(home / KEY_FILE)).public
    except FileNotFoundError:
        own = None
    try:
        public = read_public(home / PUBLIC_FILE)
    except SettingsError as error:
        return own, "" if own is not None else str(error)
    if own is not None and public != own:
        return own, f"{home / PUBLIC_FILE} is not the public half of {KEY_FILE}: it was replaced"
    return public, ""


def _read_key(file: Path) -> bytes:
    status = file.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{file} can be read by others: chmod 600 {file}")
    try:
        return bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"the audit key {file} cannot be read: {error}") from error


def _make_key(file: Path) -> bytes:
    """Written whole and then put in its place: of two processes, one wins and both see its key."""
    private = os.urandom(32)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{KEY_FILE}.")
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(private.hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, file)
    except FileExistsError:
        return _read_key(file)
    finally:
        Path(temporary).unlink()
    return private
