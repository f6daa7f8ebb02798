"""What proves that nobody rewrote the past."""

from hermes.core.events.happening import Happening


class CheckpointSigned(Happening, tag="audit.signed", kw_only=True, frozen=True):
    """At this moment the event with number `seq`, the one right before this, carried `digest`."""

    seq: int
    digest: str
    previous: str
    """Digest of the checkpoint before this one, so that none can be left out."""
    key: str
    """Fingerprint of the public key."""
    signature: str
