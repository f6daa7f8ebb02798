"""The settings of the section `declared`: states of hosts and changes."""

import msgspec


class DeclaredSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `declared`."""

    record: bool = True
    """Whether the watch records states and changes."""
    every: float = 300.0
    """Seconds between two looks at the host; more where one look takes long."""
    settled: float = 600.0
    """Seconds for which the checks of all services must have passed before a state counts as known
    good; for the first one of a host it is enough that they pass."""
    roots: tuple[str, ...] = ()
    """Folders whose files are recorded, in place of /etc, /opt, /srv and others."""
    skip: tuple[str, ...] = ()
    """Paths that are never recorded; a name without a slash matches in every folder."""
    max_files: int = 60_000
    """Files in one state; what is left out is listed with the state."""
    states: int = 12
    """States that are kept, of each host and source."""
    size_mb: int = 200
    """Megabytes of content that are kept; the oldest states go first."""
    secret_files: bool = False
    """Keep the content of files that the policy knows as secret, so that they can be reverted.
    It is never shown. Without it only their digest is recorded."""
    server_settings: bool = True
    """Ask running redis and PostgreSQL servers for their settings."""
    respect_people: float = 4 * 3600.0
    """Seconds for which a change by a person, or by an unknown author, is reverted only after
    approval, unless a rule of the policy allows it for that path or unit."""
