"""What an operator may set about the store."""

import msgspec


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = ""
    """File of the journal; empty means `journal.db` in the home folder."""
    url: str = ""
    """PostgreSQL database in place of the file: postgresql://user:password@host:5432/name."""
    reserve_mib: int = 16
    """MiB that the watch sets aside beside the journal and uses when the disk is full; 0: none."""
    patience: float = 10.0
    """Seconds to wait for the store's server, or for another process that writes."""
