"""Alerts on their way into the journal: who sent them hears "yes" only once they are kept.

While the watch goes on from memory, the answer is 202 and says that the alert is not stored yet.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Protocol, runtime_checkable

import msgspec

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.messages import Value
from hermes.web import alertmanager, generic
from hermes.web.alertmanager import SAID, Read, Unreadable
from hermes.web.http import Reply, Request, refusal
from hermes.web.tally import Tally

PIECE = 500
"""Alerts of one append: a giant payload must not hold up everybody else's."""


@runtime_checkable
class HoldsEvents(Protocol):
    """A journal that goes on in memory: what it took is acted upon, and not yet stored."""

    @property
    def outage(self) -> object | None: ...


class Trouble(Value, kw_only=True, frozen=True):
    """The journal refused an alert, and took nothing since."""

    at: datetime
    newest: int | None = None
    """The last event as of the first look after that; a later one is the all-clear."""


class Intake:
    def __init__(self, bus: Bus, tally: Tally) -> None:
        self._bus = bus
        self._tally = tally
        self._trouble: Trouble | None = None

    async def alertmanager(self, request: Request) -> Reply:
        return await self._take(lambda: alertmanager.read(request.body))

    async def generic(self, request: Request) -> Reply:
        return await self._take(lambda: Read(alerts=(generic.read(request.body),)))

    def still_in_trouble(self, newest: int) -> Trouble | None:
        """Anybody's later event shows that the journal can be written again."""
        trouble = self._trouble
        if trouble is not None and trouble.newest is None:
            self._trouble = Trouble(at=trouble.at, newest=newest)
        elif trouble is not None and trouble.newest is not None and newest > trouble.newest:
            self._trouble = None
        return self._trouble

    async def _take(self, read: Callable[[], Read]) -> Reply:
        began = time.monotonic()
        try:
            found = read()
        except Unreadable as error:
            self._tally.refused("malformed")
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        try:
            await self._keep(found.alerts)
        except StoreError as error:
            self._tally.refused("store", len(found.alerts))
            self._trouble = Trouble(at=datetime.now(UTC))
            words = f"not kept, send it again: {error}"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, words, ("retry-after", "5"))
        if found.alerts:
            self._trouble = None
        self._tally.took(time.monotonic() - began)
        self._count(found)
        journal = self._bus.journal
        held = isinstance(journal, HoldsEvents) and journal.outage is not None
        told = {
            "accepted": len(found.alerts),
            "refused": found.refused[:SAID],
            **({"stored": False} if held else {}),
        }
        status = HTTPStatus.ACCEPTED if held else HTTPStatus.OK
        return Reply(status=status, body=msgspec.json.encode(told))

    async def _keep(self, alerts: Sequence[AlertRaised]) -> None:
        for first in range(0, len(alerts), PIECE):
            await self._bus.publish(*alerts[first : first + PIECE])

    def _count(self, found: Read) -> None:
        for alert in found.alerts:
            self._tally.received(alert.source, resolved=alert.resolved)
        if found.refused:
            self._tally.refused("malformed", len(found.refused))
        self._tally.left_out(found.left_out)
