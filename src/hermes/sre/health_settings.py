"""What an operator can decide about the rhythm of health rounds."""

import msgspec


class HealthSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.health`."""

    every: float = 300.0
    """Seconds between two rounds; 0 for none."""
    timeout: float = 60.0
    """Seconds for one round; what did not answer by then is unknown, which is not fine."""
