"""Where notices go. A chat channel is another one of these, and nothing else here changes."""

from datetime import datetime
from typing import Protocol

from hermes.core.errors import HermesError
from hermes.core.events.incidents import Severity
from hermes.core.events.operations import NotificationKind, NotificationQueued
from hermes.core.messages import Value

SEVERITIES_GRAVEST_FIRST: tuple[Severity, ...] = ("P0", "P1", "P2", "P3")
REPEATED_SUFFIX = " (repeated)"


class DeliveryError(HermesError):
    """A try failed. `hopeless`: another one would, too; `unsure`: it may have arrived."""

    def __init__(
        self, message: str, *, permanent: bool = False, may_have_arrived: bool = False
    ) -> None:
        super().__init__(message)
        self.permanent, self.may_have_arrived = permanent, may_have_arrived


class NotificationSink(Protocol):
    """Raises `DeliveryError`; whatever else it raises counts as one, too."""

    name: str

    async def send(self, notice: NotificationQueued, repeated: bool) -> None: ...


class SinkFilter(Value, kw_only=True, frozen=True):
    """What one sink is told."""

    sink: str
    severity: Severity = "P3"
    """The least grave."""
    about: tuple[NotificationKind, ...] = ()
    """Empty: everything."""

    def takes(self, about: NotificationKind, severity: str) -> bool:
        if self.about and about not in self.about:
            return False
        return severity not in SEVERITIES_GRAVEST_FIRST or severity <= self.severity


def notification_title(notice: NotificationQueued, repeated: bool) -> str:
    """After a crash it is told again rather than not at all, and says so."""
    return notice.title + (REPEATED_SUFFIX if repeated else "")


class NotificationPayload(Value, kw_only=True, frozen=True):
    id: str
    """The same for the same notice, however often it arrives."""
    about: str
    title: str
    text: str
    incident: str
    severity: str
    at: datetime
    repeated: bool


def notification_payload(notice: NotificationQueued, repeated: bool) -> NotificationPayload:
    return NotificationPayload(
        id=notice.notice,
        about=notice.about,
        title=notification_title(notice, repeated),
        text=notice.text,
        incident=notice.incident,
        severity=notice.severity,
        at=notice.at,
        repeated=repeated,
    )
