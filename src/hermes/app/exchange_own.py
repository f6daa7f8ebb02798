"""What this home has said as a publisher: its name, its key, its versions, what it took back."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hermes.app.exchange_checks import seal_of
from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.skills.exchange.sealing import Seal, Sealed, seal, short
from hermes.skills.exchange.statements import Revocations, Rotation

OWN, KEY = "own.json", "signing.key"


class Own(Value, kw_only=True, frozen=True):
    publisher: str = ""
    versions: dict[str, tuple[int, str]] = {}
    given: tuple[str, ...] = ()
    """Digests of every version that ever left this home."""
    rotations: tuple[Sealed, ...] = ()
    number: int = 0
    """Of the list of revocations."""
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    index_number: int = 0
    facts: tuple[str, ...] = ()
    """Facts that others may have from here."""


class OwnWords:
    """Kept in a file of the home; a key once given out is never forgotten."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Own:
        try:
            return msgspec.json.decode((self._folder / OWN).read_bytes(), type=Own)
        except FileNotFoundError:
            return Own()
        except msgspec.DecodeError as error:
            raise SettingsError(f"{self._folder / OWN} is damaged: {error}") from error

    def keep(self, own: Own) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f".{OWN}.new"
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(own), indent=1))
        unfinished.replace(self._folder / OWN)

    def name(self, wanted: str = "") -> str:
        """Of this publisher: chosen once, kept for ever."""
        own = self.read()
        if wanted and own.publisher and wanted != own.publisher:
            raise SettingsError(f"this home publishes as {own.publisher!r} already")
        if not own.publisher:
            own = replace(own, publisher=wanted or platform.node() or "hermes")
            self.keep(own)
        return own.publisher

    def seal(self) -> Seal:
        from hermes.policy.key_file import read_or_make_key
        from hermes.policy.signatures import KeyPair

        private = read_or_make_key(self._folder / KEY, "key of the exchange")
        return seal_of(KeyPair(private))

    def rotate(self) -> tuple[str, str]:
        """A new key, introduced by the old one; both in short form."""
        old, name = self.seal(), self.name()
        count = len(self.read().rotations) + 1
        (self._folder / KEY).rename(self._folder / f"{KEY}.{count}")
        new = self.seal()
        statement = Rotation(publisher=name, new=new.key, at=datetime.now(UTC))
        own = self.read()
        self.keep(replace(own, rotations=(*own.rotations, seal("rotation", statement, old))))
        return short(old.key), short(new.key)

    def take_back(
        self, *, digests: Sequence[str], keys: Sequence[str], every: bool = False
    ) -> bool:
        """Put on the list what is ours, or all of it; True when the list has grown."""
        own = self.read()
        mine = {digest for _, digest in own.versions.values()} | set(own.given)
        ours = {self.seal().key, *(each.key for each in own.rotations)} if keys else set()
        gone = {*own.digests, *(each for each in digests if every or each in mine)}
        lost = {*own.keys, *(each for each in keys if every or each in ours)}
        if gone == set(own.digests) and lost == set(own.keys):
            return False
        listed = replace(own, digests=tuple(sorted(gone)), keys=tuple(sorted(lost)))
        self.keep(replace(listed, number=own.number + 1))
        return True

    def statements(self) -> list[Sealed]:
        """Changes of key, and the list of revocations: what every index carries."""
        own = self.read()
        if not own.number:
            return list(own.rotations)
        listed = Revocations(
            publisher=own.publisher, number=own.number, digests=own.digests, keys=own.keys
        )
        return [*own.rotations, seal("revocations", listed, self.seal())]
