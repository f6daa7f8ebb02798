"""The earlier name of `hermes.core.notifications`, for notification channels of other authors."""

import logging
from functools import cache
from typing import Any

from hermes.core import notifications

PUBLISHED_NAMES = frozenset(
    {
        "ChannelOpening",
        "DeliveryError",
        "NotificationSink",
        "notification_payload",
        "notification_title",
    }
)
_log = logging.getLogger(__name__)


def __getattr__(name: str) -> Any:
    if name not in PUBLISHED_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _report_new_name(name)
    return getattr(notifications, name)


@cache
def _report_new_name(name: str) -> None:
    """Once for each name in a process.

    A log record and not a warning: a plug-in must also load in a process that treats warnings as
    errors.
    """
    new = f"{notifications.__name__}.{name}"
    _log.warning("%s.%s is now %s; the old name will be removed", __name__, name, new)
