"""Signs and verifies messages for a domain, and stores keys.

Every signature covers its domain and its message. A domain is a short name such as
`exchange.index`; a signature for one domain is invalid for another, and for the audit log, whose
messages are JSON lists and begin with another byte. Loaded only when something is signed or
verified: importing the library takes 20 ms.
"""

import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hermes.core.errors import SettingsError
from hermes.plumbing.files import temporary_copy

_SIGNATURE_PREFIX = b"hermes signature 1"


class SigningKeyPair:
    """A private key; `public` is the public key of 32 bytes."""

    def __init__(self, private: bytes) -> None:
        """Raises `SettingsError` for an invalid key."""
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(private)
        except ValueError as error:
            raise SettingsError(f"the key is damaged: {error}") from error
        self.public = self._key.public_key().public_bytes_raw()

    def sign(self, domain: str, message: bytes) -> str:
        """The signature in hex."""
        return self.sign_bare(domain_message(domain, message))

    def sign_bare(self, message: bytes) -> str:
        """Signs only these bytes, for a format that needs no domain, such as the audit log."""
        return self._key.sign(message).hex()


def verify_signature(public: bytes, signature: str, domain: str, message: bytes) -> bool:
    """Return whether the signature is valid for this key, domain and message."""
    return verify_bare_signature(public, signature, domain_message(domain, message))


def verify_bare_signature(public: bytes, signature: str, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(signature), message)
    except (ValueError, InvalidSignature):
        return False
    return True


def domain_message(domain: str, message: bytes) -> bytes:
    """The signed bytes. A domain has no zero byte, so different pairs give different bytes."""
    if not domain or "\0" in domain:
        raise SettingsError(f"{domain!r} is no domain of signatures")
    return b"\0".join((_SIGNATURE_PREFIX, domain.encode(), message))


def read_key(file: Path, what: str = "key") -> bytes:
    """Raises `FileNotFoundError` when there is none, and `SettingsError` when it is invalid."""
    status = file.stat()
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(f"{file} can be read by others: chmod 600 {file}")
    try:
        return bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise SettingsError(f"the {what} {file} cannot be read: {error}") from error


def create_key(file: Path, what: str = "key") -> bytes:
    """Created atomically: if two processes create it, both get the same key."""
    private = os.urandom(32)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary_copy(file, private.hex() + "\n") as temporary:
            os.link(temporary, file)
    except FileExistsError:
        return read_key(file, what)
    return private


def read_or_create_key(file: Path, what: str = "key") -> bytes:
    try:
        return read_key(file, what)
    except FileNotFoundError:
        return create_key(file, what)
