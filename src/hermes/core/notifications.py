"""The protocol of notification sinks, their filters and the JSON payload."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from hermes.core.errors import DeliveryError as DeliveryError  # part of the plug-in interface
from hermes.core.events.incidents import Severity
from hermes.core.events.operations import NotificationKind, NotificationQueued
from hermes.core.messages import Value

SEVERITIES_GRAVEST_FIRST: tuple[Severity, ...] = ("P0", "P1", "P2", "P3")
REPEATED_SUFFIX = " (repeated)"


class SinkOptions(Protocol):
    """The settings of one sink, an item of `sre.notices.sinks`."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def about(self) -> Sequence[NotificationKind]: ...
    @property
    def secret_variable(self) -> str: ...


class DeliveryOptions(Protocol):
    """The settings of delivery, those of `sre.notices`."""

    @property
    def tries(self) -> int: ...
    @property
    def pause(self) -> float: ...
    @property
    def timeout(self) -> float: ...
    @property
    def stale(self) -> float: ...


class SinkListOptions(DeliveryOptions, Protocol):
    @property
    def log(self) -> str: ...
    @property
    def sinks(self) -> Sequence[SinkOptions]: ...


class NotificationSink(Protocol):
    """A destination of notifications. Raises `DeliveryError`; other exceptions count as one."""

    name: str

    async def send(self, notice: NotificationQueued, repeated: bool) -> None: ...


@dataclass(frozen=True)
class ChannelOpening:
    """The arguments with which a notification channel is opened."""

    name: str
    """The name of the sink in the journal."""
    settings: SinkOptions
    home: Path
    secret: Callable[[str], str | None]
    """The value of a secret by its name; None when it is not set."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    own: Any = None
    """The section of a plug-in in this sink, as the struct that it declares."""


class SinkFilter(Value, kw_only=True, frozen=True):
    """Selects the notifications that one sink accepts."""

    sink: str
    severity: Severity = "P3"
    """The lowest severity."""
    about: tuple[NotificationKind, ...] = ()
    """Empty: everything."""

    def takes(self, about: NotificationKind, severity: str) -> bool:
        if self.about and about not in self.about:
            return False
        return severity not in SEVERITIES_GRAVEST_FIRST or severity <= self.severity


def notification_title(notice: NotificationQueued, repeated: bool) -> str:
    """Marked when it may have been sent before: after a crash it is sent again."""
    return notice.title + (REPEATED_SUFFIX if repeated else "")


class NotificationPayload(Value, kw_only=True, frozen=True):
    id: str
    """The same for every delivery of one notification."""
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
