"""Sessions of browsers: opened by a link that works once, kept as digests in the journal."""

import secrets
from datetime import UTC, datetime, timedelta

import anyio
from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.access import (
    ACCESS_RUN,
    WebLoginCreated,
    WebSessionEnded,
    WebSessionStarted,
    WebSessionUsed,
)
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.web.tokens import token_digest

LOGIN_VALIDITY = timedelta(minutes=5)
SESSION_VALIDITY = timedelta(days=7)
MAX_IDLE = timedelta(hours=12)
USE_RECORD_INTERVAL = timedelta(hours=1)
"""How often the use of a session is written down."""
SECRET_BYTES = 32
MAX_BROWSER_CHARS = 120
SESSION_KINDS = ("web.login", "web-session.started", "web-session.used", "web-session.ended")


class BrowserSession(Value, kw_only=True, frozen=True):
    id: str
    digest: str
    person: str
    started_at: datetime
    used_at: datetime
    expires_at: datetime
    ended_at: datetime | None = None
    browser: str = ""

    def state(self, now: datetime) -> str:
        if self.ended_at is not None:
            return "ended"
        return "expired" if min(self.expires_at, self.used_at + MAX_IDLE) <= now else "valid"


def create_login(person: str, *, by: str = "") -> tuple[str, WebLoginCreated]:
    """The code of a link, which is shown once, and the event that makes it valid."""
    code = secrets.token_urlsafe(SECRET_BYTES)
    event = WebLoginCreated(
        run=ACCESS_RUN,
        login=f"login-{secrets.token_hex(3)}",
        digest=token_digest(code),
        person=person,
        expires_at=datetime.now(UTC) + LOGIN_VALIDITY,
        by=by,
    )
    return code, event


class SessionRegistry:
    """All sessions, read from the journal; later calls read only what was added since."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._logins: dict[str, WebLoginCreated] = {}
        """Unused ones, by digest."""
        self._sessions: dict[str, BrowserSession] = {}
        self._ids_by_digest: dict[str, str] = {}
        self._written_use: dict[str, datetime] = {}
        self._read_to = 0
        self._lock = anyio.Lock()
        """Of two requests with one link, the second one must see what the first one wrote."""

    async def list_sessions(self) -> list[BrowserSession]:
        """Raises `StoreError`."""
        async with self._lock:
            await self._refresh()
        return list(self._sessions.values())

    async def find_login(self, code: str) -> WebLoginCreated | None:
        """The link with this code, unless it is used or over. Raises `StoreError`."""
        async with self._lock:
            return await self._open_login(code)

    async def redeem(self, code: str, *, browser: str = "") -> str:
        """Use up a link. Returns the secret of the new session; empty when the link is not valid.

        Raises `StoreError`.
        """
        async with self._lock:
            login = await self._open_login(code)
            if login is None:
                return ""
            secret = secrets.token_urlsafe(SECRET_BYTES)
            event = WebSessionStarted(
                run=ACCESS_RUN,
                session=f"session-{secrets.token_hex(3)}",
                login=login.login,
                digest=token_digest(secret),
                person=login.person,
                expires_at=datetime.now(UTC) + SESSION_VALIDITY,
                browser=visible_line(browser, MAX_BROWSER_CHARS),
            )
            await self._journal.append(event)
            await self._refresh()
            return secret

    async def find(self, secret: str) -> BrowserSession | None:
        """The valid session with this secret; it counts as used now. Raises `StoreError`."""
        async with self._lock:
            await self._refresh()
            now = datetime.now(UTC)
            known = self._sessions.get(self._ids_by_digest.get(token_digest(secret), ""))
            if known is None or known.state(now) != "valid":
                return None
            used = self._sessions[known.id] = replace(known, used_at=now)
            if now - self._written_use.get(known.id, known.started_at) > USE_RECORD_INTERVAL:
                self._written_use[known.id] = now
                await self._journal.append(WebSessionUsed(run=ACCESS_RUN, session=known.id))
            return used

    async def end(self, session: str, *, by: str) -> None:
        """Raises `StoreError`."""
        await self._journal.append(WebSessionEnded(run=ACCESS_RUN, session=session, by=by))

    async def _open_login(self, code: str) -> WebLoginCreated | None:
        await self._refresh()
        login = self._logins.get(token_digest(code))
        return login if login is not None and login.expires_at > datetime.now(UTC) else None

    async def _refresh(self) -> None:
        newest = await self._journal.last()
        if newest == self._read_to:
            return
        async for recorded in self._journal.read(after=self._read_to, kinds=SESSION_KINDS):
            if isinstance(recorded.event, Event):
                self._apply(recorded.event)
        self._read_to = newest

    def _apply(self, event: Event) -> None:
        if isinstance(event, WebLoginCreated):
            self._logins[event.digest] = event
        elif isinstance(event, WebSessionStarted):
            self._logins = {
                digest: each for digest, each in self._logins.items() if each.login != event.login
            }
            self._ids_by_digest[event.digest] = event.session
            self._sessions[event.session] = BrowserSession(
                id=event.session,
                digest=event.digest,
                person=event.person,
                started_at=event.at,
                used_at=event.at,
                expires_at=event.expires_at,
                browser=event.browser,
            )
        elif isinstance(event, WebSessionUsed) and (known := self._sessions.get(event.session)):
            self._written_use[known.id] = event.at
            self._sessions[known.id] = replace(known, used_at=max(known.used_at, event.at))
        elif isinstance(event, WebSessionEnded) and (known := self._sessions.get(event.session)):
            self._sessions[known.id] = replace(known, ended_at=event.at)
