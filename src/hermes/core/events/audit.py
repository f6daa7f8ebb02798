"""What proves that nobody rewrote the past."""

from hermes.core.events.happening import Happening


class CheckpointSigned(Happening, tag="audit.signed", kw_only=True, frozen=True):
    """At this moment the event with number `seq` carried `digest`."""

    seq: int
    digest: str
    previous: str
    key: str
    signature: str
