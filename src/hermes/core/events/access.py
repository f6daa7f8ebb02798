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


class WebhookReceived(BaseEvent, tag="webhook.received", kw_only=True, frozen=True):
    """A signed request to `/hooks/NAME` has started a job."""

    hook: str
    job: str
    deliveries: tuple[str, ...]
    """Digests of its signature and of its delivery id: a second one is refused."""


class ApiHistoryRecorded(BaseEvent, tag="api.history", kw_only=True, frozen=True):
    """After this turn a client of the API has a history with this digest: sent again with one
    message more, it continues the run."""

    digest: str
    person: str


class WebLoginCreated(BaseEvent, tag="web.login", kw_only=True, frozen=True):
    """A link that opens one session of the dashboard. The journal has the digest of its code."""

    login: str
    """Its id."""
    digest: str
    """SHA-256 of the code, in hex."""
    person: str
    expires_at: datetime
    by: str = ""


class WebSessionStarted(BaseEvent, tag="web-session.started", kw_only=True, frozen=True):
    """A link was used: a browser may act as this person. The digest is of its cookie."""

    session: str
    """Its id."""
    login: str
    """The link, which is used up with this."""
    digest: str
    person: str
    expires_at: datetime
    browser: str = ""
    """What the browser calls itself."""


class WebSessionUsed(BaseEvent, tag="web-session.used", kw_only=True, frozen=True):
    """A session was used, written at most once an hour: an idle one ends."""

    session: str


class WebSessionEnded(BaseEvent, tag="web-session.ended", kw_only=True, frozen=True):
    session: str
    by: str = ""
