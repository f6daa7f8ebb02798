"""A journal, a clock that is turned by hand, and a triage that follows the one by the other."""

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    AlertSuppressed,
    IncidentClosed,
    IncidentOpened,
)
from hermes.core.events.operations import MaintenanceAdded, MaintenanceEnded, NotificationQueued
from hermes.core.incident import Incident, fold_incidents
from hermes.core.notifications import SinkFilter
from hermes.core.protocols import JournalRecord
from hermes.sre.notifications.composer import NotificationComposer
from hermes.sre.notifications.notification_state import NotificationState
from hermes.sre.settings import NoticeSettings, TriageSettings
from hermes.sre.triage.triage import Triage

Kind = TypeVar("Kind")
Outcome = Literal["resolved", "escalated", "no-incident", "recovered", "closed"]
BEGIN = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)


class World:
    def __init__(self, settings: TriageSettings | None = None) -> None:
        self.settings = settings or TriageSettings()
        self.now = BEGIN
        self.journal: list[JournalRecord] = []
        self._names = 0
        self._read = 0
        self.triage = self._fresh()

    def write(self, *events: Event) -> None:
        for event in events:
            self.journal.append(JournalRecord(len(self.journal) + 1, event))

    def pump(self) -> None:
        """Follow the journal to its end; what triage answers is written behind it."""
        while self._read < len(self.journal):
            recorded = self.journal[self._read]
            self._read += 1
            self.triage.apply(recorded)
            if isinstance(recorded.event, AlertRaised):
                self.write(*self.triage.handle_alert(recorded, self.now))

    def wait(self, seconds: float, step: float = 1.0) -> None:
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now = min(end, self.now + timedelta(seconds=step))
            self.write(*self.triage.tick(self.now))
            self.pump()

    def say(self, fingerprint: str, title: str = "", **labels: str) -> None:
        """An alert is written down; nobody has heard it yet."""
        source, severity = labels.pop("source", "probe"), labels.pop("severity", "")
        resolved = labels.pop("resolved", "") == "yes"
        check, text = labels.pop("check", ""), labels.pop("alert_text", f"more about {fingerprint}")
        self.write(
            AlertRaised(
                run="watch",
                at=self.now,
                fingerprint=fingerprint,
                title=title or f"{fingerprint} is bad",
                text=text,
                source=source,
                labels=tuple(labels.items()),
                severity=severity,
                resolved=resolved,
                check=check,
            )
        )

    def hear(self, fingerprint: str, title: str = "", **labels: str) -> None:
        self.say(fingerprint, title, **labels)
        self.pump()

    def resolve(self, fingerprint: str, **labels: str) -> None:
        self.hear(fingerprint, resolved="yes", **labels)

    def open(self, fingerprint: str, title: str = "", **labels: str) -> IncidentOpened:
        """Heard, and opened as the last one."""
        self.hear(fingerprint, title, **labels)
        self.wait(2)
        return self.all(IncidentOpened)[-1]

    def close(self, incident: str, outcome: Outcome = "resolved") -> None:
        self.write(IncidentClosed(run=incident, at=self.now, incident=incident, outcome=outcome))
        self.pump()

    def maintain(self, target: str, seconds: float, window: str = "maintenance-1") -> None:
        until = self.now + timedelta(seconds=seconds)
        self.write(
            MaintenanceAdded(
                run="watch",
                at=self.now,
                window=window,
                target=target,
                begins=self.now,
                until=until,
            )
        )
        self.pump()

    def end_maintenance(self, window: str = "maintenance-1") -> None:
        self.write(MaintenanceEnded(run="watch", at=self.now, window=window))
        self.pump()

    def crash(self) -> None:
        """What was in memory is gone; the journal is not."""
        self.triage = self._fresh()
        for recorded in self.journal:
            self.triage.apply(recorded)
        self._read = len(self.journal)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [each.event for each in self.journal if isinstance(each.event, kind)]

    def incidents(self) -> dict[str, Incident]:
        return fold_incidents(self.journal)

    def open_now(self) -> list[str]:
        return [name for name, each in self.incidents().items() if each.status == "open"]

    def holding(self, fingerprint: str, *, escalated: bool = False) -> list[str]:
        """Open incidents that this alert belongs to, by the journal alone."""
        found = {e.incident for e in self.all(IncidentOpened) if e.fingerprint == fingerprint}
        found |= {e.incident for e in self.all(AlertsJoined) if fingerprint in e.fingerprints}
        if escalated:
            return [
                name for name, each in self.incidents().items() if name in found and each.unresolved
            ]
        return [name for name in self.open_now() if name in found]

    def counted(self) -> int:
        opened = sum(len(each.alerts) for each in self.all(IncidentOpened))
        return opened + sum(each.count for each in self.all(AlertsJoined))

    def notices(self) -> list[NotificationQueued]:
        """What people are told of this journal, without any limit on how much."""
        told = NoticeSettings(update=0, briefing="", most=1_000_000)
        ledger, composer = NotificationState(), NotificationComposer(told, [SinkFilter(sink="log")])
        found: list[NotificationQueued] = []
        for recorded in self.journal:
            ledger.apply(recorded)
            owed = composer.compose(ledger, recorded.event.at)
            for notice in owed:
                ledger.mark_queued(notice)
            found += owed
        return found

    def suppressed(self) -> list[AlertSuppressed]:
        return self.all(AlertSuppressed)

    def _fresh(self) -> Triage:
        return Triage(self.settings, name=self._name)

    def _name(self) -> str:
        self._names += 1
        return f"incident-{self._names}"
