"""What a home remembers of publishers, of their keys, and of what it took in from them."""

from datetime import UTC, datetime

from msgspec import field

from hermes.core.messages import Value
from hermes.skills.exchange.sealing import Sealed, short


class SeenIndex(Value, kw_only=True, frozen=True):
    """The latest index of a publisher that was looked at: nothing older is believed again."""

    number: int
    digest: str
    made: datetime


class Publisher(Value, kw_only=True, frozen=True):
    name: str
    key: str
    former: tuple[str, ...] = ()
    ended: dict[str, datetime] = {}
    """By former key: when another took its place. What it signed before stays valid."""
    pinned: datetime = field(default_factory=lambda: datetime.now(UTC))
    versions: dict[str, tuple[int, str]] = {}
    """By skill: the highest version that was seen, and its digest."""
    taken_back: tuple[str, ...] = ()
    """Digests of its own that it revoked."""
    issuer: bool = False
    """A person here decided that its revocations also count for keys and bundles of others."""
    list_number: int = 0
    facts_number: int = 0
    index: SeenIndex | None = None
    address: str = ""
    """Where its index is looked up, when it was subscribed to."""
    said: tuple[Sealed, ...] = ()
    """Its changes of key and its latest list of revocations, to be passed on."""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.former)


class Installed(Value, kw_only=True, frozen=True):
    """Where a skill of this home came from."""

    publisher: str
    key: str
    version: int
    digest: str
    """As it was signed; merged with ours it may lie here with another."""
    fallen: str = ""
    """Why it lost its state, once it has: a person may prove it again after that."""


class Known(Value, kw_only=True, frozen=True):
    publishers: dict[str, Publisher] = {}
    revoked_keys: tuple[str, ...] = ()
    revoked_digests: tuple[str, ...] = ()
    installed: dict[str, Installed] = {}
    """By the folder of the skill."""

    def affected(self) -> dict[str, str]:
        """Skills here that came from what was revoked, and why; each until it has fallen."""
        found = {folder: self._objection(one) for folder, one in self.installed.items()}
        return {folder: why for folder, why in found.items() if why}

    def _objection(self, one: Installed) -> str:
        if one.fallen:
            return ""
        if one.key in self.revoked_keys:
            return f"key {short(one.key)} of {one.publisher}, which signed it, was revoked"
        publisher = self.publishers.get(one.publisher)
        own = publisher.taken_back if publisher else ()
        if one.digest in (*self.revoked_digests, *own):
            return f"version {one.version} of {one.publisher} was revoked"
        return ""
