"""What people are owed and have not been told: pure, from the ledger and the clock.

Ids follow from what a notice is about, so that nothing is composed twice: not after a crash, not
by two watches of one journal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import partial

from msgspec.structs import replace

from hermes.core.events.incidents import AlertsJoined
from hermes.core.events.watching import NoticeKind, NoticeQueued
from hermes.sre.incident import Incident
from hermes.sre.notices import words
from hermes.sre.notices.ledger import Ledger, part_id
from hermes.sre.notices.settings import NoticeSettings
from hermes.sre.notices.sink import Wanted
from hermes.sre.notices.words import Said

RUN = "watch"
FRESH = timedelta(hours=1)
"""What ended before that, and was never told of, is history: it stands in the briefing."""
MANY = 3
"""More open ones than this share one update."""
LATE = timedelta(hours=4)
"""A briefing later than that is not one."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class _Debt:
    """Somebody should be told; the words are found only if they have not been."""

    notice: str
    kind: NoticeKind
    say: Callable[[], Said]
    incident: str = ""
    severity: str = ""
    everywhere: bool = False
    """It concerns the watch itself: every sink is told, whatever it wants to be told about."""


class Composer:
    """Remembers only since when something waits to be told together with others."""

    def __init__(self, settings: NoticeSettings, wanted: Sequence[Wanted]) -> None:
        self._settings, self._wanted = settings, tuple(wanted)
        self._held: dict[str, datetime] = {}

    def owed(self, ledger: Ledger, now: datetime) -> list[NoticeQueued]:
        """What is to be queued now."""
        ledger.forget(now - FRESH)
        found = [
            self._notice(debt, now)
            for debt in self._debts(ledger, now)
            if debt.notice not in ledger.queued
        ]
        return self._throttled(found, ledger, now)

    def _debts(self, ledger: Ledger, now: datetime) -> Iterator[_Debt]:
        for id in ledger.live:
            incident = ledger.incidents[id]
            if incident.recovered is not None:
                end = f"resolved:{ledger.ended[id]}"
                yield _of(incident, "resolved", end, partial(words.recovered, incident))
            elif incident.status == "open":
                yield from _begun(ledger, id, incident)
            elif incident.closed is not None:
                kind: NoticeKind = (
                    "escalated" if incident.closed.outcome == "escalated" else "resolved"
                )
                end = f"{kind}:{ledger.ended[id]}"
                yield _of(incident, kind, end, partial(words.ended, incident))
        for seq, event in ledger.parts.items():
            yield _part(ledger.incidents[event.incident], seq, event)
        for approval, (asked, id) in ledger.asked.items():
            incident = ledger.incidents[id]
            say = partial(words.approval, asked, incident)
            yield _of(incident, "approval-needed", f"approval:{approval}", say)
        for seq, missed in ledger.missed.items():
            yield _Debt(f"health:missed:{seq}", "health", partial(words.missed, missed))
        for notice, happened in ledger.home.items():
            say = partial(words.home, happened)
            yield _Debt(notice, "health", say, everywhere=True)
        yield from self._updates(ledger, now)
        yield from self._briefing(ledger, now)

    def _updates(self, ledger: Ledger, now: datetime) -> Iterator[_Debt]:
        every = self._settings.update
        if every <= 0:
            return
        due = []
        for incident in (ledger.incidents[id] for id in ledger.live):
            passed = int((now - incident.case.opened_at).total_seconds() // every)
            if incident.status == "open" and not incident.question and passed >= 1:
                due.append((incident, f"update:{passed}"))
        if len(due) > MANY:
            gravest = min(incident.severity for incident, _ in due)
            say = partial(words.updates, [incident for incident, _ in due], now)
            id = f"{RUN}:update:{int(now.timestamp() // every)}"
            yield _Debt(id, "update", say, severity=gravest)
            return
        waiting = [id for _, id in ledger.asked.values()]
        for incident, name in due:
            id = incident.case.incident
            doing = ledger.doing.get(id, "")
            say = partial(words.update, incident, doing, waiting.count(id), now)
            yield _of(incident, "update", name, say)

    def _briefing(self, ledger: Ledger, now: datetime) -> Iterator[_Debt]:
        if not self._settings.briefing:
            return
        here = now.astimezone()
        at = datetime.combine(here.date(), time.fromisoformat(self._settings.briefing), here.tzinfo)
        if not at <= here < at + LATE or ledger.first_at is None or ledger.first_at > at:
            return
        since = now - timedelta(days=1)

        def say() -> Said:
            known = [each for each in ledger.incidents.values() if _of_late(each, since)]
            return words.briefing(known, f"{here:%Y-%m-%d}")

        yield _Debt(f"briefing:{here:%Y-%m-%d}", "briefing", say)

    def _throttled(
        self, found: Sequence[NoticeQueued], ledger: Ledger, now: datetime
    ) -> list[NoticeQueued]:
        """So many a minute; what is not urgent waits a little and is told together."""
        recent = sum(now - at < MINUTE for at in ledger.queued_at)
        room = max(0, self._settings.most - recent)
        urgent = [each for each in found if _urgent(each)]
        others = [each for each in found if not _urgent(each)]
        at_once, late = others[:room], others[room:]
        late = [each for each in late if each.about != "update"]  # the next one tells more
        self._held = {each.notice: self._held.get(each.notice, now) for each in late}
        if late and now - min(self._held.values()) >= timedelta(seconds=self._settings.together):
            self._held = {}
            at_once.append(self._together(late, now))
        return [*urgent, *at_once]

    def _together(self, late: Sequence[NoticeQueued], now: datetime) -> NoticeQueued:
        gravest = min((each.severity for each in late if each.severity), default="")
        kind: NoticeKind = "declared" if any(e.about == "declared" for e in late) else "update"
        say = partial(words.together, [each.title for each in late])
        debt = _Debt(f"storm:{late[0].notice}", kind, say, severity=gravest)
        return replace(
            self._notice(debt, now),
            covers=tuple(each.notice for each in late),
            sinks=tuple({name: None for each in late for name in each.sinks}),
        )

    def _notice(self, debt: _Debt, now: datetime) -> NoticeQueued:
        said = debt.say()
        takers = (
            each.sink
            for each in self._wanted
            if debt.everywhere or each.takes(debt.kind, debt.severity)
        )
        return NoticeQueued(
            run=debt.incident or RUN,
            at=now,
            notice=debt.notice,
            about=debt.kind,
            title=said.title,
            text=said.text,
            incident=debt.incident,
            severity=debt.severity,
            sinks=tuple(takers),
        )


def _begun(ledger: Ledger, id: str, incident: Incident) -> Iterator[_Debt]:
    seq, again = ledger.begun[id]
    first = f"declared:{seq}"
    if incident.question:
        yield _of(incident, "declared", first, partial(words.question, incident))
        return
    yield _of(incident, "declared", first, partial(words.declared, incident, again=again))
    number, before = ledger.graver.get(id, (0, ""))
    if number > seq and f"{id}:{first}" in ledger.queued:
        # Told as a declaration: it may now concern those whom it did not wake before.
        say = partial(words.declared, incident, before=before)
        yield _of(incident, "declared", f"graver:{number}", say)


def _part(incident: Incident, seq: int, event: AlertsJoined) -> _Debt:
    """A declaration of its own: whoever wants to hear of outages wants to hear of this one."""
    gravest = min(part.severity for part in event.parts)
    say = partial(words.joined, incident, event)
    id = incident.case.incident
    return _Debt(part_id(seq, event), "declared", say, incident=id, severity=gravest)


def _of(incident: Incident, kind: NoticeKind, name: str, say: Callable[[], Said]) -> _Debt:
    id = incident.case.incident
    return _Debt(f"{id}:{name}", kind, say, incident=id, severity=incident.severity)


def _urgent(notice: NoticeQueued) -> bool:
    """A person's answer is waited for, or everything is down."""
    if notice.about in ("approval-needed", "briefing", "health"):
        return True
    return notice.severity == "P0" and notice.about != "update"


def _of_late(incident: Incident, since: datetime) -> bool:
    if incident.unresolved or incident.case.opened_at >= since:
        return True
    last = incident.recovered or incident.closed
    return last is not None and last.at >= since
