"""The key that signs checkpoints: creates and reads it, and signs for other processes.

The public key is enough to verify; only `audit.key` can sign. Loaded only when something is signed
or verified: importing the library takes 20 ms.
"""

import sys
from pathlib import Path

from hermes.core.errors import SettingsError
from hermes.policy.signing import SigningKeyPair, create_key, read_key

KEY_FILE_NAME, PUBLIC_KEY_FILE_NAME = "audit.key", "audit.pub"
KEY_DESCRIPTION = "audit key"


def open_audit_key(home: Path) -> SigningKeyPair:
    """The key of a home, created the first time. Raises `SettingsError` and `OSError`."""
    file = home / KEY_FILE_NAME
    try:
        return _read_key_pair(file)
    except FileNotFoundError:
        key = SigningKeyPair(create_key(file, KEY_DESCRIPTION))
        public = home / PUBLIC_KEY_FILE_NAME
        public.touch(mode=0o600)
        public.write_text(key.public.hex() + "\n")
        return key


def _read_key_pair(file: Path) -> SigningKeyPair:
    private = read_key(file, KEY_DESCRIPTION)
    try:
        return SigningKeyPair(private)
    except SettingsError as error:
        raise SettingsError(f"the audit key is damaged: {error}") from error


def serve_signatures(home: str) -> None:
    """The program of a `SigningProcess`: answers with the public key, then signs each line of the
    input, all in hex, until the input ends."""
    try:
        key = open_audit_key(Path(home))
    except SettingsError as error:
        _write_answer(f"settings {error}")
        return
    except OSError as error:
        _write_answer(f"system {error.errno}")
        return
    _write_answer(f"ok {key.public.hex()}")
    for line in sys.stdin:
        _write_answer(f"ok {key.sign_bare(bytes.fromhex(line))}")


def _write_answer(text: str) -> None:
    sys.stdout.write(" ".join(text.splitlines()) + "\n")
    sys.stdout.flush()


def read_public_key(file: Path) -> bytes:
    """A public key from its file. Raises `SettingsError` when there is none."""
    try:
        public = bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"no public audit key in {file}: {error}") from error
    if len(public) != 32:
        raise SettingsError(f"no public audit key in {file}: it has {len(public)} bytes, not 32")
    return public


def read_own_public_key(home: Path) -> tuple[bytes | None, str]:
    """The public key of a home, and what is wrong with it.

    The public key is derived from the private one, so a replaced `audit.pub` is detected.
    """
    try:
        own = _read_key_pair(home / KEY_FILE_NAME).public
    except FileNotFoundError:
        own = None
    try:
        public = read_public_key(home / PUBLIC_KEY_FILE_NAME)
    except SettingsError as error:
        return own, "" if own is not None else str(error)
    if own is not None and public != own:
        path = home / PUBLIC_KEY_FILE_NAME
        return own, f"{path} is not the public half of {KEY_FILE_NAME}: it was replaced"
    return public, ""
