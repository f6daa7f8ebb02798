"""Triage with a journal in memory and a clock that the test advances."""

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


class TriageHarness:
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

    def follow_journal(self) -> None:
        """Apply the rest of the journal, and append what triage answers."""
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
            self.follow_journal()

    def record_alert(self, fingerprint: str, title: str = "", **labels: str) -> None:
        """Write an alert to the journal, which triage has not read yet."""
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

    def raise_alert(self, fingerprint: str, title: str = "", **labels: str) -> None:
        self.record_alert(fingerprint, title, **labels)
        self.follow_journal()

    def resolve(self, fingerprint: str, **labels: str) -> None:
        self.raise_alert(fingerprint, resolved="yes", **labels)

    def open_incident(self, fingerprint: str, title: str = "", **labels: str) -> IncidentOpened:
        """Raise an alert that opens an incident, which is the last one opened."""
        self.raise_alert(fingerprint, title, **labels)
        self.wait(2)
        return self.events(IncidentOpened)[-1]

    def close_incident(self, incident: str, outcome: Outcome = "resolved") -> None:
        self.write(IncidentClosed(run=incident, at=self.now, incident=incident, outcome=outcome))
        self.follow_journal()

    def begin_maintenance(self, target: str, seconds: float, window: str = "maintenance-1") -> None:
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
        self.follow_journal()

    def end_maintenance(self, window: str = "maintenance-1") -> None:
        self.write(MaintenanceEnded(run="watch", at=self.now, window=window))
        self.follow_journal()

    def restart(self) -> None:
        """Start triage again with nothing but the journal."""
        self.triage = self._fresh()
        for recorded in self.journal:
            self.triage.apply(recorded)
        self._read = len(self.journal)

    def events(self, kind: type[Kind]) -> list[Kind]:
        return [each.event for each in self.journal if isinstance(each.event, kind)]

    def incidents(self) -> dict[str, Incident]:
        return fold_incidents(self.journal)

    def open_incidents(self) -> list[str]:
        return [name for name, each in self.incidents().items() if each.status == "open"]

    def incidents_with(self, fingerprint: str, *, escalated: bool = False) -> list[str]:
        """Open incidents that this alert belongs to, by the journal alone."""
        found = {e.incident for e in self.events(IncidentOpened) if e.fingerprint == fingerprint}
        found |= {e.incident for e in self.events(AlertsJoined) if fingerprint in e.fingerprints}
        if escalated:
            return [
                name for name, each in self.incidents().items() if name in found and each.unresolved
            ]
        return [name for name in self.open_incidents() if name in found]

    def count_alerts(self) -> int:
        opened = sum(len(each.alerts) for each in self.events(IncidentOpened))
        return opened + sum(each.count for each in self.events(AlertsJoined))

    def notifications(self) -> list[NotificationQueued]:
        """The notifications about this journal, with no limit on their number."""
        settings = NoticeSettings(update=0, briefing="", most=1_000_000)
        state = NotificationState()
        composer = NotificationComposer(settings, [SinkFilter(sink="log")])
        found: list[NotificationQueued] = []
        for recorded in self.journal:
            state.apply(recorded)
            owed = composer.compose(state, recorded.event.at)
            for notice in owed:
                state.mark_queued(notice)
            found += owed
        return found

    def suppressed_alerts(self) -> list[AlertSuppressed]:
        return self.events(AlertSuppressed)

    def _fresh(self) -> Triage:
        return Triage(self.settings, name=self._name)

    def _name(self) -> str:
        self._names += 1
        return f"incident-{self._names}"
