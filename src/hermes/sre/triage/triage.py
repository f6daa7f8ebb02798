"""Decides for every alert whether it opens an incident, joins one, or is suppressed, and why.

A state machine without a clock: callers pass the time. The caller publishes the events that it
returns; they come back through `apply` like all other events of the journal.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertSuppressed,
    IncidentOpened,
    IncidentRecovered,
    IncidentReopened,
)
from hermes.core.incident import ALERT_TEXT_FACT, QUESTION_LABEL, WATCH_RUN
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.sre.preceding_fix import find_preceding_fix
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.alert_series import AlertSeries, EarlierIncidents, incident_signature
from hermes.sre.triage.correlation import AlertCorrelation
from hermes.sre.triage.incident_state import LOG_KINDS, REOPENED_BY, IncidentState
from hermes.sre.triage.other_problems import OtherProblems, find_other_problems
from hermes.sre.triage.severity import IncidentImpact, alert_impact, alert_question, is_data_at_risk
from hermes.sre.triage.state import (
    FLAPPING_STRETCH,
    PASSED_STRETCH,
    TriageEviction,
    TriageState,
)
from hermes.sre.triage.topology import AlertLocation

MAX_ALERT_NUMBERS = 50
"""Alerts that an incident names when it is opened; further ones are counted."""
PERSON_SOURCE = "person"
PROBE_RESTART_S = 5.0
"""Seconds after a start before a recovery is reported: the probes have to run again first."""
MAX_NAMED_SOURCES = 5
"""Alerts that a recovery names."""
LOG_ONLY_TEXT = ", by its log alone: whether it was used meanwhile is not known"


class Triage:
    """Pass all events to `apply`, new alerts to `handle_alert`, and call `tick` regularly.

    Alerts are passed in the order of their numbers. After a crash pass the whole journal to
    `apply`; the next `tick` answers the alerts without an answer. Nothing is opened twice.
    """

    def __init__(
        self,
        settings: TriageSettings | None = None,
        *,
        depends_on: Mapping[str, Iterable[str]] | None = None,
        name: Callable[[], str] = lambda: new_id("incident"),
    ) -> None:
        self._settings = settings or TriageSettings()
        self._name = name
        self._state = TriageState(self._settings, depends_on or {})
        self._correlation = AlertCorrelation(self._state)
        self._eviction = TriageEviction(self._state)
        self._began: datetime | None = None

    def apply(self, recorded: JournalRecord) -> None:
        """Update the state from one event of the journal."""
        self._state.apply(recorded)
        self._eviction.evict_when_full()

    def other_problems(self, incident: str) -> OtherProblems:
        return find_other_problems(self._state, incident, datetime.now(UTC))

    def handle_alert(self, recorded: JournalRecord, now: datetime) -> tuple[Event, ...]:
        """Return the events to publish for this alert now; `tick` may return more."""
        self.apply(recorded)
        alert = recorded.event
        series = self._state.series.get(getattr(alert, "fingerprint", ""))
        if series is None or not series.waiting or not isinstance(alert, AlertRaised):
            return ()
        return tuple(self._answer(series, now))

    def tick(self, now: datetime) -> tuple[Event, ...]:
        """Return the events that are due by now."""
        answers = [
            *self._answer_lasting(now),
            *self._answer_unmuted(now),
            *self._answer_leftovers(now),
            *self._answer_released(now),
            *self._answer_waiting(now),
        ]
        self._began = self._began or now
        if now - self._began >= timedelta(seconds=min(PROBE_RESTART_S, self._settings.recovery)):
            answers += self._recoveries(now)
        for incident in self._state.incidents.values():
            if incident.batch.count:
                answers += incident.take_events(now, self._settings.group.batch)
        self._eviction.evict_old(now)
        return tuple(answers)

    def is_quiet(self, id: str) -> bool:
        """Return whether the sources have resolved all its alerts, and nothing was changed."""
        incident = self._state.incidents.get(id)
        if incident is None or incident.forgotten_firing:
            return False
        if incident.recorded.status != "open" or incident.recorded.changed:
            return False
        members = list(self._state.members(incident))
        return bool(members) and not any(each.firing or each.flapping for each in members)

    def count_firing(self, id: str) -> int:
        """Return how many of its alerts fire."""
        incident = self._state.incidents.get(id)
        members = self._state.members(incident) if incident is not None else ()
        return sum(each.firing for each in members)

    def unanswered(self) -> tuple[int, ...]:
        """Return the numbers of the alerts without an answer."""
        by_fingerprint = self._state.series
        return tuple(
            sorted(n for each in self._state.waiting for n in by_fingerprint[each].waiting)
        )

    def _answer(self, series: AlertSeries, now: datetime, *, due: bool = False) -> list[Event]:
        incident = self._state.incident_of(series)
        steady = series.steady(now, self._settings.flapping)
        flapping_reported = series.flapping and series.flapping_reported and not steady
        if incident is not None and self._is_another_problem(incident, series):
            self._state.leave_incident(incident, series, now)
            incident = None
        if incident is not None and incident.in_progress:
            if flapping_reported:
                return self._mute(
                    series,
                    FLAPPING_STRETCH,
                    f"{series.flapping_text()}; {incident.id} reports it",
                    now,
                )
            return self._join(incident, series, _join_reason(series), now)
        alert = series.alert
        if alert is None:
            return []
        window = self._state.calendar.covering(alert, now)
        if window is not None and not (self._settings.pierce and is_data_at_risk(alert)):
            return self._mute(series, window.id, _maintenance_reason(window.why, alert), now)
        if flapping_reported:
            return self._mute(series, FLAPPING_STRETCH, series.flapping_text(), now)
        if not series.firing and not series.flapping:
            return self._mute(series, PASSED_STRETCH, "it was over before it was handled", now)
        if incident is not None and (why := self._echo_reason(series, incident, now)):
            return self._mute(series, incident.id, why, now)
        return self._join_or_open(series, alert, now, due=due)

    def _join_or_open(
        self, series: AlertSeries, alert: AlertRaised, now: datetime, *, due: bool
    ) -> list[Event]:
        related = self._correlation.find_incident(series, now)
        if related is not None:
            return self._join(related[0], series, related[1], now)
        waited = (now - series.since).total_seconds()
        without_delay = due or series.flapping or alert.source == PERSON_SOURCE
        if not without_delay and 0 <= waited < self._settings.group.delay:
            return []
        return self._open(series, alert, now)

    def _join(
        self, incident: IncidentState, series: AlertSeries, why: str, now: datetime
    ) -> list[Event]:
        if not series.waiting:  # it was muted and still fires
            series.waiting.append(series.number)
        reopened = self._reopen(incident, series, now)
        window = timedelta(seconds=self._settings.group.window)
        part = incident.new_part(series, self._state.members(incident), window)
        incident.batch.add(series, why, None if reopened else part)
        incident.last_alert_at = max(incident.last_alert_at, now)
        self._state.mark_answered(series, series.waiting[-1])
        self._state.add_to_incident(incident, series)
        self._correlation.index_incident(incident)
        return [*reopened, *incident.take_events(now, self._settings.group.batch)]

    def _new_failure(self, incident: IncidentState, series: AlertSeries) -> str:
        calm = timedelta(seconds=self._settings.recovery)
        return incident.new_failure(series, self._state.members(incident), calm)

    def _is_another_problem(self, incident: IncidentState, series: AlertSeries) -> bool:
        """Return whether it is a new failure, and not of what the incident is about."""
        if not incident.in_progress or incident.same_problem(series):
            return False
        return bool(self._new_failure(incident, series))

    def _reopen(self, incident: IncidentState, series: AlertSeries, now: datetime) -> list[Event]:
        why = self._new_failure(incident, series)
        if not why:
            return []
        event = IncidentReopened(
            run=incident.id,
            at=now,
            incident=incident.id,
            by=REOPENED_BY,
            reason=f"{series.title}: {why}"[:300],
            title=series.title[:200],
            text=series.alert.text if series.alert is not None else "",
            titled_at=series.alert.at if series.alert is not None else None,
        )
        incident.apply(event)
        return [event]

    def _open(self, series: AlertSeries, alert: AlertRaised, now: datetime) -> list[Event]:
        if not self._is_question(series, alert):
            labels = tuple(each for each in alert.labels if each[0] != QUESTION_LABEL)
            alert = replace(alert, labels=labels)
        numbers = tuple(series.waiting[:MAX_ALERT_NUMBERS]) or (series.number,)
        service = series.location.service
        signature = incident_signature(service, dict(alert.labels), alert.title)
        before = self._state.recurrences.find_earlier(series.fingerprint, signature, now)
        impact = IncidentImpact(self._settings.services)
        impact.add(series.location, alert_impact(alert))
        severity, why = impact.grade()
        reasons = (
            why,
            series.flapping_text() if series.flapping else "",
            before.words(self._settings.days),
        )
        name = self._name()
        event = IncidentOpened(
            run=name,
            at=now,
            incident=name,
            title=f"flaps: {alert.title}"[:200] if series.flapping else alert.title[:200],
            severity=severity,
            reason="; ".join(filter(None, reasons)),
            service=service,
            fingerprint=series.fingerprint,
            seen_before=before.times,
            alerts=numbers,
            facts=self._facts(series, alert, before, now),
            since=alert.since,
            titled_at=alert.at,
        )
        incident = self._state.open_incident(event)
        self._correlation.index_incident(incident)
        return [event, *(self._answer(series, now) if series.waiting else ())]

    def _facts(
        self, series: AlertSeries, alert: AlertRaised, before: EarlierIncidents, now: datetime
    ) -> tuple[tuple[str, str], ...]:
        facts = {name: value for name, value in alert.labels if name != ALERT_TEXT_FACT}
        if words := before.words(self._settings.days):
            facts["recurrence"] = words
        if series.fingerprint in self._state.released:
            facts["split_from"] = self._state.released[series.fingerprint][1]
        last = self._state.incident_of(series)
        span = timedelta(seconds=self._settings.reopen)
        if last is not None and last.over_at is not None and now - last.over_at <= span:
            facts["again_after"] = last.id
        return (*facts.items(), (ALERT_TEXT_FACT, alert.text))

    def _mute(self, series: AlertSeries, muted_by: str, why: str, now: datetime) -> list[Event]:
        newest = max(series.waiting, default=series.number)
        known = bool(muted_by) and series.muted_by == muted_by
        self._state.mark_answered(series, newest)
        self._state.mute(series, muted_by)
        if known:
            return []
        return [
            AlertSuppressed(
                run=WATCH_RUN,
                at=now,
                fingerprint=series.fingerprint,
                title=series.title,
                why=why,
                stretch=muted_by,
                up_to=newest,
            )
        ]

    def _echo_reason(self, series: AlertSeries, incident: IncidentState, now: datetime) -> str:
        """Return why an alert of an ended incident is not new; empty when it is."""
        if incident.over_at is None or series.raised_at > incident.over_at:
            return ""
        if series.alert is not None and series.alert.source == PERSON_SOURCE:
            return ""  # a person who repeats it means a new problem
        until = self._state.echo_until(series, incident, incident.over_at)
        if now >= until:
            return ""
        outcome = incident.recorded.status
        return f"{incident.id} is over ({outcome}); suppressed until {until:%H:%M}"

    def _answer_lasting(self, now: datetime) -> list[Event]:
        """Answer alerts that flapped and now fire for longer than that."""
        answers: list[Event] = []
        for fingerprint in list(self._state.flapping):
            series = self._state.series[fingerprint]
            if not series.end_flapping(now, self._settings.flapping) and series.flapping:
                continue
            del self._state.flapping[fingerprint]
            if series.news and not series.muted_by:
                answers += self._answer(series, now, due=True)
        return answers

    def _answer_unmuted(self, now: datetime) -> list[Event]:
        """Answer alerts that are no longer muted and still fire."""
        answers: list[Event] = []
        for fingerprint in list(self._state.muted):
            series = self._state.series[fingerprint]
            series.end_flapping(now, self._settings.flapping)
            if series.muted_by and self._state.is_still_muted(series, now):
                continue
            del self._state.muted[fingerprint]
            series.muted_by = ""
            incident = self._state.incident_of(series)
            reported = incident is not None and incident.in_progress and not series.news
            if series.firing and not reported:
                answers += self._answer(series, now, due=True)
        return answers

    def _answer_leftovers(self, now: datetime) -> list[Event]:
        """Answer alerts of an ended incident that still fire."""
        answers: list[Event] = []
        for incident in list(self._state.incidents.values()):
            if (
                incident.in_progress
                or incident.leftovers_checked
                or now < self._state.quiet_until(incident)
            ):
                continue
            incident.leftovers_checked = True
            for series in list(self._state.members(incident)):
                source = series.alert.source if series.alert is not None else ""
                if (
                    series.firing
                    and not series.muted_by
                    and source in self._state.resolving_sources
                ):
                    answers += self._answer(series, now, due=True)
        return answers

    def _answer_released(self, now: datetime) -> list[Event]:
        """Answer alerts that still fire after they left an incident about another problem."""
        answers: list[Event] = []
        due = [name for name, (at, _) in self._state.released.items() if now >= at]
        found = (self._state.series.get(name) for name in due)
        firing = [each for each in found if each is not None and each.firing and not each.muted_by]
        for series in self._correlation.roots_first(firing):
            if series.fingerprint in self._state.released:
                answers += self._answer(series, now, due=True)
        for name in due:
            self._state.released.pop(name, None)
        return answers

    def _recoveries(self, now: datetime) -> Iterator[IncidentRecovered]:
        """Return a recovery for each incident whose problem ended without a change and did not
        return for a while."""
        for incident in self._state.incidents.values():
            worked_on = incident.recorded.status == "open" and not incident.question
            if not incident.in_progress or incident.forgotten_firing:
                continue
            if worked_on and incident.recorded.changed:
                continue
            event = self._recovery(incident, now, worked_on=worked_on)
            if event is None:
                continue
            if not worked_on:  # otherwise the work has to end first
                incident.apply(event)
            yield event

    def _recovery(
        self, incident: IncidentState, now: datetime, *, worked_on: bool
    ) -> IncidentRecovered | None:
        first = self._state.series.get(incident.fingerprint)
        if worked_on and first is not None and first.firing:
            return None  # quick exit: in a storm an incident has thousands of members
        members, apart = list(self._state.members(incident)), list[AlertSeries]()
        calm_at = incident.quiet_since
        if worked_on:
            apart = [each for each in members if each.firing and incident.is_side_warning(each)]
            names = {each.fingerprint for each in apart}
            members = [each for each in members if each.fingerprint not in names]
            calm_at = max((each.turned_at for each in members), default=None)
        span = timedelta(seconds=self._settings.recovery)
        if calm_at is None or now - calm_at < span or not self._are_over(members, now):
            return None
        outages = [each for each in self._outages(incident) if _names(incident, each)]
        if any(each.location.service == incident.service for each in outages):
            return None  # one symptom of it has ended, because the service has ended
        watched = [each for each in members if not each.withdrawn]
        basis = _log_only_text(watched)
        others = (each.recorded for each in self._state.incidents.values())
        return IncidentRecovered(
            run=incident.id,
            at=now,
            incident=incident.id,
            recovered_at=calm_at,
            how=f"{_resolved_by_text(watched)}; no failure for {span.total_seconds():g} s{basis}",
            observed=basis != LOG_ONLY_TEXT,
            still_failing=tuple(dict.fromkeys(each.label for each in (*apart, *outages))),
            after_fix=find_preceding_fix(incident.recorded, others, calm_at),
        )

    def _are_over(self, members: Sequence[AlertSeries], now: datetime) -> bool:
        for series in members:
            series.end_flapping(now, self._settings.flapping)
            if series.firing or series.flapping:
                return False
        watched = [each for each in members if not each.withdrawn]
        return all(_proven(each, watched) for each in members if each.withdrawn)

    def _outages(self, incident: IncidentState) -> Iterator[AlertSeries]:
        """Alerts that a service there does not work, in whatever incident they are by now. One that
        nobody resolves says nothing about the present."""
        sources = self._state.resolving_sources
        for series in self._state.series.values():
            outage = series.firing and series.is_outage and series.source in sources
            if outage and _may_be_one_place(series.location, incident.location):
                yield series

    def _is_question(self, series: AlertSeries, alert: AlertRaised) -> bool:
        """Return whether the alert is a question. It is not while anything else on that host fails:
        that may be the cause."""
        if not alert_question(alert):
            return False
        return not any(
            each.firing and each is not series and each.location.host == series.location.host
            for each in self._state.series.values()
            if each.alert is not None and alert_impact(each.alert).effect != "warning"
        )

    def _answer_waiting(self, now: datetime) -> list[Event]:
        """Answer alerts that waited for others. When one is due all are, dependencies first."""
        waiting = [self._state.series[each] for each in self._state.waiting]
        delay = self._settings.group.delay
        if all(0 <= (now - each.since).total_seconds() < delay for each in waiting):
            return []
        answers: list[Event] = []
        for series in self._correlation.roots_first(waiting):
            if series.waiting:
                answers += self._answer(series, now, due=True)
        return answers


def _join_reason(series: AlertSeries) -> str:
    if series.flapping:
        return series.flapping_text()
    return series.news or "the same alert again"


def _may_be_one_place(one: AlertLocation, other: AlertLocation) -> bool:
    pairs = ((one.host, other.host), (one.namespace, other.namespace))
    return all(not (each and of_other) or each == of_other for each, of_other in pairs)


def _names(incident: IncidentState, outage: AlertSeries) -> bool:
    """Return whether people who read about the incident read the name of the service that does
    not work."""
    known, found = incident.recorded, incident.recorded.diagnosis
    service = outage.location.service
    if service in (incident.service, *known.parts):
        return True
    words = [known.details.title, *([found.component, found.mechanism] if found else [])]
    return re.search(rf"(?<![\w-]){re.escape(service)}(?![\w-])", "\n".join(words)) is not None


def _proven(withdrawn: AlertSeries, watched: Sequence[AlertSeries]) -> bool:
    """Return whether others that are still watched say that the same problem of its service is
    over."""
    service, problem = withdrawn.location.service, withdrawn.problem
    same = (
        each for each in watched if each.location.service == service and each.problem == problem
    )
    return bool(service) and any(same)


def _log_only_text(members: Sequence[AlertSeries]) -> str:
    """What a recovery leaves open that only logs show; requests that were answered prove it."""
    kinds = [dict(each.alert.labels).get("kind", "") for each in members if each.alert is not None]
    if not kinds or not all(kind in LOG_KINDS for kind in kinds):
        return ""
    if "answers" in kinds and not any(each.unused for each in members):
        return ", by the answers in its log"
    return LOG_ONLY_TEXT


def _resolved_by_text(members: Sequence[AlertSeries]) -> str:
    """Return what resolved it, such as `resolved by probe port-80, alertmanager Down`."""
    named = [
        f"{each.source or 'its source'} {each.check or each.alarm}"
        for each in members[:MAX_NAMED_SOURCES]
    ]
    more = (
        f" and {len(members) - MAX_NAMED_SOURCES} more" if len(members) > MAX_NAMED_SOURCES else ""
    )
    return f"resolved by {', '.join(named)}{more}" if named else "its alerts were resolved"


def _maintenance_reason(why: str, alert: AlertRaised) -> str:
    return f"{why}; its label says that data is at risk" if is_data_at_risk(alert) else why
