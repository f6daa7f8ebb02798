"""What an operator may set about the store."""

import msgspec


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = ""
    """File of the journal; empty means `journal.db` in the home folder."""
