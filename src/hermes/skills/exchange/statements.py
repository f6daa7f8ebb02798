"""What a publisher says beside its skills: another key, and what no longer counts."""

from datetime import datetime

from hermes.core.messages import Value


class Rotation(Value, kw_only=True, frozen=True):
    """Said by the old key: from now on the other one speaks for this publisher."""

    publisher: str
    new: str
    at: datetime


class Revocations(Value, kw_only=True, frozen=True):
    """Everything a publisher has taken back; each list is longer than the one before.

    Of its own keys and bundles its word counts everywhere; of those of others only where it was
    made an issuer.
    """

    publisher: str
    number: int
    digests: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    reason: str = ""
