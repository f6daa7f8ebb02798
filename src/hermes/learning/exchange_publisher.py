"""Signs and publishes skills of this home for the exchange, and checks the signatures of others."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.plumbing.files import write_atomically
from hermes.skills.exchange.signed_statements import (
    KeyRotation,
    RevocationList,
    SignedStatement,
    StatementSigner,
    shorten_key,
    sign_statement,
)

if TYPE_CHECKING:
    from hermes.policy.signing import SigningKeyPair


def shell_effects(text: str) -> frozenset[str]:
    from hermes.policy.command_analysis import analyse_command

    return frozenset(analyse_command(text).effects)


def check_signature(key: str, signature: str, domain: str, message: bytes) -> bool:
    from hermes.policy.signing import verify_signature

    try:
        public = bytes.fromhex(key)
    except ValueError:
        return False
    return verify_signature(public, signature, domain, message)


def signer_for(pair: "SigningKeyPair") -> StatementSigner:
    return StatementSigner(key=pair.public.hex(), sign=pair.sign)


STATE_FILE, KEY_FILE = "own.json", "signing.key"


class PublisherState(Value, kw_only=True, frozen=True):
    publisher: str = ""
    versions: dict[str, tuple[int, str]] = {}
    given: tuple[str, ...] = ()
    """Digests of every version that was ever published from this home."""
    rotations: tuple[SignedStatement, ...] = ()
    number: int = 0
    """Serial number of the list of revocations."""
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    index_number: int = 0
    facts: tuple[str, ...] = ()
    """Facts that others may import from here."""


class HomePublisher:
    """Stored in a file of the home; a published key is never forgotten."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def publisher_state(self) -> PublisherState:
        try:
            return msgspec.json.decode((self.folder / STATE_FILE).read_bytes(), type=PublisherState)
        except FileNotFoundError:
            return PublisherState()
        except msgspec.DecodeError as error:
            raise SettingsError(f"{self.folder / STATE_FILE} is damaged: {error}") from error

    def save(self, own: PublisherState) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.format(msgspec.json.encode(own), indent=1)
        write_atomically(self.folder / STATE_FILE, data)

    def name(self, wanted: str = "") -> str:
        """The name of this publisher: chosen once, never changed."""
        own = self.publisher_state()
        if wanted and own.publisher and wanted != own.publisher:
            raise SettingsError(f"this home publishes as {own.publisher!r} already")
        if not own.publisher:
            own = replace(own, publisher=wanted or platform.node() or "hermes")
            self.save(own)
        return own.publisher

    def signer(self) -> StatementSigner:
        from hermes.policy.signing import SigningKeyPair, read_or_create_key

        private = read_or_create_key(self.folder / KEY_FILE, "key of the exchange")
        return signer_for(SigningKeyPair(private))

    def rotate(self) -> tuple[str, str]:
        """Create a new key, signed by the old one; returns both in short form."""
        old, name = self.signer(), self.name()
        count = len(self.publisher_state().rotations) + 1
        (self.folder / KEY_FILE).rename(self.folder / f"{KEY_FILE}.{count}")
        new = self.signer()
        statement = KeyRotation(publisher=name, new=new.key, at=datetime.now(UTC))
        own = self.publisher_state()
        self.save(
            replace(own, rotations=(*own.rotations, sign_statement("rotation", statement, old)))
        )
        return shorten_key(old.key), shorten_key(new.key)

    def list_revoked(self, digests: Sequence[str], keys: Sequence[str], *, every: bool) -> bool:
        """List what is revoked of ours, or of others too; True when the list has grown."""
        own = self.publisher_state()
        mine = {digest for _, digest in own.versions.values()} | set(own.given)
        ours = {self.signer().key, *(each.key for each in own.rotations)} if keys else set()
        gone = {*own.digests, *(each for each in digests if every or each in mine)}
        lost = {*own.keys, *(each for each in keys if every or each in ours)}
        if gone == set(own.digests) and lost == set(own.keys):
            return False
        listed = replace(own, digests=tuple(sorted(gone)), keys=tuple(sorted(lost)))
        self.save(replace(listed, number=own.number + 1))
        return True

    def statements(self) -> list[SignedStatement]:
        """Key changes and the list of revocations: every index contains them."""
        own = self.publisher_state()
        if not own.number:
            return list(own.rotations)
        listed = RevocationList(
            publisher=own.publisher, number=own.number, digests=own.digests, keys=own.keys
        )
        return [*own.rotations, sign_statement("revocations", listed, self.signer())]
