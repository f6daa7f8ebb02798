"""Tokens of the API: created once, kept as digests in the journal, with person, rights and end."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.access import ACCESS_RUN, AccessRight, TokenCreated, TokenRevoked
from hermes.core.messages import Value
from hermes.core.protocols import Journal

TOKEN_PREFIX = "hermes_"
TOKEN_BYTES = 32
TOKEN_KINDS = ("token.created", "token.revoked")
ALL_RIGHTS: tuple[AccessRight, ...] = ("read", "chat", "approve", "act", "alert")


class ApiToken(Value, kw_only=True, frozen=True):
    id: str
    digest: str
    person: str
    rights: tuple[AccessRight, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    label: str = ""

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


def create_token(
    person: str,
    rights: Sequence[AccessRight],
    *,
    expires_at: datetime | None = None,
    by: str = "",
    label: str = "",
) -> tuple[str, TokenCreated]:
    """The token itself, which is shown once, and the event that makes it valid."""
    text = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    event = TokenCreated(
        run=ACCESS_RUN,
        token=f"token-{secrets.token_hex(3)}",
        digest=token_digest(text),
        person=person,
        rights=tuple(each for each in ALL_RIGHTS if each in rights),
        expires_at=expires_at,
        by=by,
        label=label,
    )
    return text, event


def token_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class TokenRegistry:
    """All tokens, read from the journal; later calls read only what was added since."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tokens: dict[str, ApiToken] = {}
        self._ids_by_digest: dict[str, str] = {}
        self._read_to = 0

    async def list_tokens(self) -> list[ApiToken]:
        """Raises `StoreError`."""
        await self._refresh()
        return list(self._tokens.values())

    async def find(self, text: str) -> ApiToken | None:
        """The valid token with this text. Raises `StoreError`.

        It is found by its digest, so that the time of a lookup says nothing about the token.
        """
        await self._refresh()
        token = self._tokens.get(self._ids_by_digest.get(token_digest(text), ""))
        return token if token is not None and token.state(datetime.now(UTC)) == "valid" else None

    async def _refresh(self) -> None:
        newest = await self._journal.last()
        if newest == self._read_to:
            return
        async for recorded in self._journal.read(after=self._read_to, kinds=TOKEN_KINDS):
            if isinstance(recorded.event, Event):
                self._apply(recorded.event)
        self._read_to = newest

    def _apply(self, event: Event) -> None:
        if isinstance(event, TokenCreated):
            self._ids_by_digest[event.digest] = event.token
            self._tokens[event.token] = ApiToken(
                id=event.token,
                digest=event.digest,
                person=event.person,
                rights=event.rights,
                created_at=event.at,
                expires_at=event.expires_at,
                label=event.label,
            )
        elif isinstance(event, TokenRevoked) and (known := self._tokens.get(event.token)):
            self._tokens[event.token] = replace(known, revoked_at=event.at)
