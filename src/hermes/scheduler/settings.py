"""Settings of the section `schedule`. Nothing of the scheduler is imported here."""

import msgspec


class ScheduleSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `schedule` of the configuration."""

    zone: str = ""
    """The time zone of jobs that name none, such as Europe/Berlin; empty: that of this machine."""
    at_once: int = 4
    """Jobs at work at once; further ones wait. Built-in jobs do not count."""
    time_limit: float = 900.0
    """Seconds for one run of a job without its own limit; then it is cancelled whole."""
    audit: str = "every hour"
    """When the host is audited; empty: never."""
    review: str = "every monday at 09:00"
    """When the weekly review is written; empty: never."""
    heartbeat_url: str = ""
    """Requested after each healthy round of checks, so that a monitor elsewhere notices when
    Hermes is gone; empty: none."""
