"""What an operator can decide about the probes of the watch."""

import msgspec


class ProbeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.probes`."""

    file: str = "probes.yaml"
    """Which probes there are; a relative path is in the home folder."""
    side_by_side: int = 16
    """Looks of one round that run at the same time."""
    quick: float = 1.5
    """Seconds that a round waits for everybody; who needs longer is asked again alone."""
    confirm: float = 0.5
    """Seconds until a bad look is repeated, where a second look says something."""
    samples: int = 20
    """Values that must be known before one can be unusual."""
    spread: float = 6.0
    """How many times the usual spread a value may be above the usual value."""
    settle: float = 300.0
    """Seconds that an unsupervised process must have been seen before its end is an incident."""
    survey: float = 3600.0
    """Seconds between two surveys for new services; on this host a port that is opened or closed
    starts one earlier."""
