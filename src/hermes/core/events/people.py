"""Who is who: persons that commands named, and people who were let in with a code.

Persons of the configuration file are not events; the file wins over these.
"""

from hermes.core.events.base import BaseEvent

PEOPLE_RUN = "people"
"""The run of these events: they belong to no conversation."""


class PersonAdded(BaseEvent, tag="person.added", kw_only=True, frozen=True):
    """The person has these ids and groups besides those known before."""

    name: str
    ids: tuple[tuple[str, str], ...] = ()
    """Channel and id of the platform."""
    groups: tuple[str, ...] = ()
    by: str = ""


class PersonRemoved(BaseEvent, tag="person.removed", kw_only=True, frozen=True):
    """The person loses all ids and groups that commands gave."""

    name: str
    by: str = ""


class PairingApproved(BaseEvent, tag="pairing.approved", kw_only=True, frozen=True):
    """A person may talk to Hermes on this channel. The id belongs to the person `name`, if any."""

    channel: str
    id: str
    name: str = ""
    shown: str = ""
    """How the platform displayed them; only to be shown."""
    by: str = ""


class PairingRevoked(BaseEvent, tag="pairing.revoked", kw_only=True, frozen=True):
    """They may no longer talk to Hermes there, and the id belongs to no person."""

    channel: str
    id: str
    by: str = ""
