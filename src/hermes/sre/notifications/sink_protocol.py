"""The earlier name of `hermes.core.notifications`, for notification channels of other authors."""

from typing import Any

from hermes.core import notifications
from hermes.plumbing.renamed import find_renamed

PUBLISHED_NAMES = frozenset(
    {
        "ChannelOpening",
        "DeliveryError",
        "NotificationSink",
        "notification_payload",
        "notification_title",
    }
)


def __getattr__(name: str) -> Any:
    same = {each: each for each in PUBLISHED_NAMES}
    return find_renamed(__name__, notifications.__name__, same, name)
