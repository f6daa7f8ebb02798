"""What an operator can decide about notices."""

from typing import Literal

import msgspec

# As in core.events, which would be loaded with every command if it were imported here.
Severity = Literal["P0", "P1", "P2", "P3"]
NoticeKind = Literal[
    "declared", "update", "approval-needed", "resolved", "escalated", "briefing", "health"
]


class SinkSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One place where notices go."""

    kind: Literal["webhook", "ntfy", "log"]
    """webhook: JSON by POST; ntfy: text by POST, title and priority as headers; log: a file."""
    name: str = ""
    """How the journal calls it; empty: its kind. Two of one kind need names."""
    url: str = ""
    """Where to; for ntfy with the topic, such as https://ntfy.example/ops."""
    path: str = ""
    """Of a log: the file; relative to the home folder."""
    severity: Severity = "P2"
    """The least grave that is told there. A log takes everything."""
    about: tuple[NoticeKind, ...] = ()
    """Which kinds; empty: all of them."""
    secret_variable: str = ""
    """Name of a secret: webhooks are signed with it, ntfy gets it as bearer token."""


class NoticeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.notices`."""

    sinks: tuple[SinkSettings, ...] = ()
    """Beside the terminal of the watch and the log."""
    log: str = "notices.log"
    """The file in the home folder that has every notice as a line of JSON; empty: none."""
    update: float = 60.0
    """Seconds between two words about an incident that goes on; 0 for none."""
    briefing: str = "08:00"
    """When the last day is summed up, by the local clock; empty: never."""
    most: int = 10
    """Notices a minute; what comes on top is told together. The gravest are never held back."""
    together: float = 20.0
    """Seconds for which they are held back to be told together."""
    tries: int = 8
    """Tries for each notice and sink, with growing pauses, before the others are told of it."""
    pause: float = 1.0
    """Seconds before the second try; doubled with each further one, up to a minute."""
    timeout: float = 10.0
    """Seconds for one try."""
    stale: float = 21600.0
    """Seconds after which a notice that could not be told is not worth telling any more."""
