"""A notice as programs read it: in the log, and in the body of a webhook."""

from datetime import datetime

from hermes.core.events.watching import NoticeQueued
from hermes.core.messages import Value
from hermes.sre.notices.sink import title_of


class Shape(Value, kw_only=True, frozen=True):
    id: str
    """The same for the same notice, however often it arrives."""
    about: str
    title: str
    text: str
    incident: str
    severity: str
    at: datetime
    repeated: bool


def shape(notice: NoticeQueued, repeated: bool) -> Shape:
    return Shape(
        id=notice.notice,
        about=notice.about,
        title=title_of(notice, repeated),
        text=notice.text,
        incident=notice.incident,
        severity=notice.severity,
        at=notice.at,
        repeated=repeated,
    )
