"""Names for runs and other things: short, sortable by time, safe as a file name."""

import secrets
from datetime import UTC, datetime


def new_id(prefix: str) -> str:
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
