"""The key pair of a home: made once, private for nobody else, public for whoever verifies."""

from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.policy.audit import Signer
from hermes.policy.key_file import make_key, read_key

KEY_FILE, PUBLIC_FILE = "audit.key", "audit.pub"
WHAT = "audit key"


def open_signer(home: Path) -> Signer:
    """The signer of a home; its key is made the first time. Raises `SettingsError`."""
    file = home / KEY_FILE
    try:
        return Signer(read_key(file, WHAT))
    except FileNotFoundError:
        signer = Signer(make_key(file, WHAT))
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
        own = Signer(read_key(home / KEY_FILE, WHAT)).public
    except FileNotFoundError:
        own = None
    try:
        public = read_public(home / PUBLIC_FILE)
    except SettingsError as error:
        return own, "" if own is not None else str(error)
    if own is not None and public != own:
        return own, f"{home / PUBLIC_FILE} is not the public half of {KEY_FILE}: it was replaced"
    return public, ""
