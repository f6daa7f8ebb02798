"""The state of one incident in triage: its alerts, its impact, and what is not yet published."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from hermes.core.events.incidents import (
    AlertRaised,
    AlertsJoined,
    IncidentClosed,
    IncidentGraded,
    IncidentOpened,
    IncidentPhase,
    IncidentRecovered,
    IncidentReopened,
    JoinedPart,
)
from hermes.core.incident import incident_after, opened_incident
from hermes.sre.settings import GroupSettings, ServiceWeight
from hermes.sre.triage.alert_series import LASTING_WORDS, AlertSeries, alarm_name
from hermes.sre.triage.severity import (
    IncidentImpact,
    alert_impact,
    alert_problem,
    failure_gravity,
    is_early_warning,
    is_graver,
)
from hermes.sre.triage.topology import AlertLocation, alert_location

MAX_TITLES, MAX_REASONS, MAX_FINGERPRINTS = 5, 3, 1_000
"""How many of each one event contains."""
MAX_TITLE_CHARS = 200
MAX_LOCATIONS = 1_000
"""Locations by which an incident can be found."""
MAX_PARTS = 10_000
"""Remembered names of parts of an incident; a notification cannot contain more."""
REOPENED_BY = "hermes"
MAX_REOPENINGS = 2
"""How often triage opens one incident again."""
LOG_KINDS = ("log", "answers")
"""Kinds of probes that see only the consequences of a failure."""
LATE_PHASES: tuple[IncidentPhase, ...] = ("remediate", "verify", "undo", "document", "learn")
"""Phases in which the problem is already known."""


class JoinedAlerts:
    """Alerts that joined since the last event about them."""

    def __init__(self) -> None:
        self.count = self.up_to = 0
        self.fingerprints: dict[str, None] = {}
        self.titles: dict[str, None] = {}
        self.reasons: dict[str, None] = {}
        self.parts: dict[str, JoinedPart] = {}

    def add(self, series: AlertSeries, why: str, part: JoinedPart | None) -> None:
        if part is not None:
            self.parts[series.fingerprint] = part
        self.count += len(series.waiting)
        self.up_to = max(self.up_to, *series.waiting)
        self.fingerprints[series.fingerprint] = None
        if len(self.titles) < MAX_TITLES:
            self.titles[series.title] = None
        if len(self.reasons) < MAX_REASONS:
            self.reasons[why] = None

    def joined_events(self, incident: str, now: datetime) -> Iterator[AlertsJoined]:
        names = list(self.fingerprints)
        for start in range(0, len(names), MAX_FINGERPRINTS):
            some = names[start : start + MAX_FINGERPRINTS]
            yield AlertsJoined(
                run=incident,
                at=now,
                incident=incident,
                count=0 if start else self.count,
                fingerprints=tuple(some),
                titles=() if start else tuple(self.titles),
                why="; ".join(self.reasons),
                up_to=self.up_to,
                parts=tuple(self.parts[name] for name in some if name in self.parts),
            )


class IncidentTitle:
    """The first alert gives an incident its title. Another one replaces it where it shows a graver
    failure of the same service, or a service that does not work where a log opened the incident: a
    log only shows what a service suffers from."""

    def __init__(self, service: str, opening: AlertRaised, *, of_log: bool) -> None:
        self._service, self._of_log = service, of_log
        self._gravity = failure_gravity(opening)
        self._opened = False
        self._outage: AlertSeries | None = None
        self._gravest: AlertSeries | None = None
        self._titled_by = ""
        """The fingerprint of the alert that gave the last title."""

    def add(self, series: AlertSeries, alert: AlertRaised) -> None:
        """What fails may have become graver in the same alert, too."""
        gravity = failure_gravity(alert)
        if not self._opened:  # its own first alert, with all that is known of it
            self._opened, self._gravity = True, gravity
        if series.is_outage:
            self._outage = self._outage or series
        own = bool(self._service) and series.location.service == self._service
        if own and series.firing and gravity > self._gravity:
            self._gravest, self._gravity = series, gravity

    def replacement(self, present: str) -> str:
        """Return the title from now on; empty where the present one stays."""
        named = self._source()
        if named is None or named.fingerprint == self._titled_by:
            return ""
        title = named.title[:MAX_TITLE_CHARS]
        return title if title != present else ""

    def mark_replaced(self) -> None:
        named = self._source()
        self._titled_by = named.fingerprint if named is not None else ""

    def _source(self) -> AlertSeries | None:
        return (self._outage if self._of_log else None) or self._gravest


class IncidentState:
    """An incident with its alerts and its impact. `recorded` is the fold of its events; triage
    applies its own decisions to it before they come back from the journal."""

    def __init__(self, event: IncidentOpened, weights: Mapping[str, ServiceWeight]) -> None:
        self.recorded = opened_incident(event)
        self.id, self.service, self.fingerprint = event.incident, event.service, event.fingerprint
        labels = dict(event.facts)
        self.alarm = alarm_name(labels, event.title)
        self.opened_at = self.last_alert_at = event.at
        self.published_at: datetime | None = None
        self.leftovers_checked = False
        """Whether alerts that fire after its end were handled."""
        self.members: set[str] = set()
        self.forgotten_firing = 0
        """Alerts that fired and were evicted, because there were too many."""
        self.question = self.recorded.question
        self.quiet_since: datetime | None = None
        """When the last of its alerts was resolved; None while one fires."""
        self.named_parts: set[str] = set()
        """Services and host problems that notifications have named."""
        self._weights = weights
        self.impact, self.batch = IncidentImpact(weights), JoinedAlerts()
        self.locations: dict[str, AlertLocation] = {}
        """One location for each key of the index."""
        location = alert_location(labels)
        self.location = AlertLocation(
            event.service or location.service, location.host, location.namespace
        )
        alert = AlertRaised(run="", fingerprint="", title=event.title, labels=event.facts)
        self.problem = alert_problem(alert, self.alarm)
        self.warns_of_host = not self.location.service and alert_impact(alert).effect == "warning"
        """A warning about the host, such as its load: outages of services do not join it."""
        self._reopened_at: set[datetime] = set()
        """When triage opened it again."""
        self._opened_by_log = labels.get("kind", "") in LOG_KINDS
        self._effect_known = alert_impact(alert).known
        """Whether it was known when it was opened what users notice."""
        self._concerns_itself = is_early_warning(alert)
        """It explains no failure of anything else on its host, such as a certificate."""
        self._title = IncidentTitle(self.service, alert, of_log=self._opened_by_log)
        self.add_location(self.location)

    @property
    def in_progress(self) -> bool:
        """Hermes or people work on it: its alerts open no new incident."""
        return self.recorded.unresolved

    @property
    def is_worked_on(self) -> bool:
        """Hermes works on it, and people neither have taken it over nor are asked about it."""
        known = self.recorded
        begun = known.status == "open" and known.phase is not None
        return begun and not (known.acknowledged or self.question)

    @property
    def over_at(self) -> datetime | None:
        ends = (self.recorded.closed, self.recorded.recovered)
        return max((event.at for event in ends if event is not None), default=None)

    def accepts_new(self, now: datetime, settings: GroupSettings) -> bool:
        """Return whether further alerts may join, also after an escalation: a storm may
        continue."""
        return (
            self.in_progress
            and now - self.last_alert_at <= timedelta(seconds=settings.window)
            and now - self.opened_at <= timedelta(seconds=settings.longest)
        )

    @property
    def accepts_own_problem_only(self) -> bool:
        """People work on it or are asked: only alerts about the same problem join."""
        escalated = self.recorded.status == "escalated"
        return escalated or self.recorded.acknowledged or bool(self.question)

    def accepts(self, series: AlertSeries, by_service: bool) -> bool:
        """Return whether a related alert may join it in its current phase.

        `by_service`: it is related by its service or a dependency, not only by its host.
        """
        if self.recorded.status == "open" and series.location.service == self.service != "":
            return True  # two commanders must not work on one service
        if self.accepts_own_problem_only:
            return self.same_problem(series)
        if not by_service and (self._concerns_itself or is_early_warning(series.alert)):
            return self.same_problem(series)
        if self.warns_of_host and not series.is_warning:
            return False
        begun, apart = self.recorded.phase is not None, bool(self.service) or self._opened_by_log
        apart = apart or series.is_unresponsive
        if begun and apart and series.location.service and not by_service:
            # The work is about another service, about what a log shows, or about the host, such as
            # its disk, while this service has ended, which may have another cause.
            return False
        if begun and not series.location.service and not series.is_warning:
            return False  # such as a disk that fills while a service is worked on
        return by_service or self.recorded.phase not in LATE_PHASES

    def same_problem(self, series: AlertSeries) -> bool:
        """Two alerts of one host without a service are two problems: two disks, for instance."""
        if series.fingerprint == self.fingerprint:
            return True
        same = bool(self.location.service) and series.location.service == self.location.service
        return same and series.problem == self.problem

    def is_side_warning(self, series: AlertSeries) -> bool:
        """A warning about the host, such as its load, that joined a problem of something else."""
        return not series.location.service and not self.same_problem(series) and series.is_warning

    def was_worked_on(self, series: AlertSeries) -> bool:
        """Return whether its check was among those that failed when the work began."""
        return series.check in (self.recorded.failing or ()) and series.alert is not None

    def new_failure(
        self, series: AlertSeries, members: Iterable[AlertSeries], calm: timedelta
    ) -> str:
        """Return why an alert is about something that began after the escalation, so that nobody
        has worked on it; empty when it is not. What a person has acknowledged is left to them."""
        known, service = self.recorded, series.location.service
        closed = known.closed if known.status == "escalated" else None
        own = service or series.fingerprint == self.fingerprint
        if closed is None or known.acknowledged or self.question or not own:
            return ""
        if series.flapping or len(self._reopened_at) >= MAX_REOPENINGS:
            return ""
        if series.news:
            return series.news
        if not service:
            return ""
        others = (each for each in members if each is not series and each.firing)
        if any(each.is_unresponsive and each.location.service == service for each in others):
            return ""  # without an answer everything else of it fails as well
        if series.silent_at is not None and series.silent_at > closed.at:
            return "it gives no answer since it was escalated"
        fine = series.raised_at - closed.at if series.fine_for is None else series.fine_for
        if series.raised_at > closed.at and fine >= calm:
            return f"it was fine for {fine.total_seconds():.0f} s since it was escalated"
        return ""

    def new_part(
        self, series: AlertSeries, members: Iterable[AlertSeries], window: timedelta
    ) -> JoinedPart | None:
        """Return what this alert adds to what notifications have named; None when it adds
        nothing."""
        known = self._name(series) in self.named_parts and not self._stopped_answering(series)
        known = known and not self._is_news(series) and not self._is_late(series, members, window)
        if len(self.named_parts) >= MAX_PARTS or known:
            return None
        impact = IncidentImpact(self._weights)
        if series.alert is not None:
            impact.add(series.location, alert_impact(series.alert))
        return JoinedPart(
            fingerprint=series.fingerprint,
            name=series.label[:MAX_TITLE_CHARS],
            title=series.title[:MAX_TITLE_CHARS],
            severity=impact.grade()[0],
        )

    def _name(self, series: AlertSeries) -> str:
        service = series.location.service
        if not service:
            return f"\n{series.fingerprint}"
        apart = self.recorded.acknowledged or is_early_warning(series.alert)
        return f"{service}\n{series.problem}" if apart else service

    def _is_news(self, series: AlertSeries) -> bool:
        """Return whether it fails in another way than reported. A service without an answer is
        known, whatever its checks say about that."""
        reported = series.is_unresponsive and _silence_of(series) in self.named_parts
        return bool(series.news) and (not reported or series.news.startswith(LASTING_WORDS))

    def _is_late(
        self, series: AlertSeries, members: Iterable[AlertSeries], window: timedelta
    ) -> bool:
        """Return whether another check of its service fails so long after the others that they may
        have another cause. Of a service that gives no answer everything fails."""
        service = series.location.service
        if series.fingerprint in self.members or series.raised_at - self.last_alert_at <= window:
            return False
        silent = (each.is_unresponsive and each.firing for each in members)
        return bool(service) and not any(silent)

    def _stopped_answering(self, series: AlertSeries) -> bool:
        """Return whether the service, which was reported for wrong answers, now gives no answer."""
        return series.is_unresponsive and _silence_of(series) not in self.named_parts

    def add_location(self, location: AlertLocation) -> None:
        for key in location_keys(location):
            known = key in self.locations
            if (known and not location.service) or (
                not known and len(self.locations) < MAX_LOCATIONS
            ):
                self.locations[key] = (
                    location  # a location without a service matches all services of the host
                )

    def add_series(self, series: AlertSeries) -> None:
        self.members.add(series.fingerprint)
        series.assign_to(self.id)
        if series.alert is not None:
            self.impact.add(series.location, alert_impact(series.alert))
            self._title.add(series, series.alert)
            self.add_location(series.location)
            if len(self.named_parts) < MAX_PARTS:
                service = series.location.service
                self.named_parts.update(
                    (self._name(series), service, f"{service}\n{series.problem}")
                )
                self.named_parts.update([_silence_of(series)] if series.is_unresponsive else [])
        if series.firing:
            self.quiet_since = None

    def take_events(self, now: datetime, every: float) -> list[AlertsJoined | IncidentGraded]:
        """Events about alerts that joined, at most every `every` seconds, and a higher severity."""
        early = self.published_at is not None and now - self.published_at < timedelta(seconds=every)
        if not self.batch.count or early:
            return []
        events: list[AlertsJoined | IncidentGraded] = list(self.batch.joined_events(self.id, now))
        self.batch, self.published_at = JoinedAlerts(), now
        return events + self._severity_events(now)

    def _severity_events(self, now: datetime) -> list[IncidentGraded]:
        (severity, why), before = self.impact.grade(), self.recorded.severity
        known_now = self.impact.known and not self._effect_known and severity == before
        news = is_graver(severity, before) or (known_now and why != self.recorded.reason)
        title = self._title.replacement(self.recorded.details.title)
        if self.recorded.graded_by_person or not news:
            severity, why = before, ""
        if not why and not title:
            return []
        graded = IncidentGraded(
            run=self.id,
            at=now,
            incident=self.id,
            severity=severity,
            before=before,
            reason=why,
            title=title,
        )
        self.apply(graded)
        return [graded]

    def apply(self, event: object) -> None:
        self.recorded = incident_after(self.recorded, event)
        match event:
            case IncidentClosed():
                # The answer to a question is valid until its reason has ended.
                self.leftovers_checked = bool(self.question)
            case IncidentGraded() if event.title:
                self._title.mark_replaced()
            case IncidentRecovered():
                self.leftovers_checked = True  # nothing of it fires
            case IncidentReopened():
                self.quiet_since = None
                if event.by == REOPENED_BY:
                    self._reopened_at.add(event.at)  # an event may be applied twice
            case _:
                pass


def _silence_of(series: AlertSeries) -> str:
    return f"{series.location.service}\nsilent"


def location_keys(location: AlertLocation) -> list[str]:
    pairs = (
        ("service", location.service),
        ("host", location.host),
        ("namespace", location.namespace),
    )
    return [f"{name}\n{value}" for name, value in pairs if value]
