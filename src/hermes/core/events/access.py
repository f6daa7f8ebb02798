"""Events about access to the HTTP API."""

from datetime import datetime
from typing import Literal

from hermes.core.events.base import BaseEvent

ACCESS_RUN = "access"
"""The run of all events about access: they belong to no conversation."""

AccessRight = Literal["read", "chat", "approve", "act", "alert"]
"""read: look at everything; chat: talk to the agent; approve: answer approval requests; act:
acknowledge and close incidents, change jobs; alert: send alerts."""


class TokenCreated(BaseEvent, tag="token.created", kw_only=True, frozen=True):
    """A token for the API. The journal has its digest alone."""

    token: str
    """Its id."""
    digest: str
    """SHA-256 of the token, in hex."""
    person: str
    """Who acts when it is used."""
    rights: tuple[AccessRight, ...]
    expires_at: datetime | None = None
    by: str = ""
    label: str = ""


class TokenRevoked(BaseEvent, tag="token.revoked", kw_only=True, frozen=True):
    token: str
    by: str = ""


class ApiHistoryRecorded(BaseEvent, tag="api.history", kw_only=True, frozen=True):
    """After this turn a client of the API has a history with this digest: sent again with one
    message more, it continues the run."""

    digest: str
    person: str
