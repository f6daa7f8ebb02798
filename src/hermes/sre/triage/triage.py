"""Decides what every alert becomes: an incident, part of one, or nothing for now, with the reason.

A state machine without a clock: the time is given to it. What it answers is to be published, and
comes back through `apply` like everything else that is written down.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertSuppressed,
    IncidentOpened,
    IncidentRecovered,
)
from hermes.core.protocols import JournalRecord
from hermes.core.run_ids import new_id
from hermes.sre.incident import ALERT_TEXT_FACT, QUESTION_LABEL
from hermes.sre.settings import TriageSettings
from hermes.sre.triage.alert_series import AlertSeries, EarlierIncidents, incident_signature
from hermes.sre.triage.correlation import AlertCorrelation
from hermes.sre.triage.incident_state import IncidentState
from hermes.sre.triage.severity import IncidentImpact, alert_impact, alert_question, is_data_at_risk
from hermes.sre.triage.state import (
    FLAPPING_STRETCH,
    PASSED_STRETCH,
    WATCH_RUN,
    TriageEviction,
    TriageState,
)

MAX_ALERT_NUMBERS = 50
"""Alerts that an incident names when it is opened; further ones are counted."""
PERSON_SOURCE = "person"
PROBE_RESTART_S = 5.0
"""Seconds after a start in which the probes answer again before a recovery is reported."""
MAX_NAMED_SOURCES = 5
"""Alerts that a recovery names."""


class Triage:
    """Feed everything of the journal to `apply`, new alerts to `hear`, and call `tick` each second.

    Alerts are fed in the order of their numbers. After a crash: `apply` over the journal; the next
    `tick` answers what was never answered. Nothing is opened twice.
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
        """Anything that was written down; alone it changes what is known, and answers nothing."""
        self._state.apply(recorded)
        self._eviction.evict_when_full()

    def hear(self, recorded: JournalRecord, now: datetime) -> tuple[Event, ...]:
        """What must be published for this alert now; more may follow from `tick`."""
        self.apply(recorded)
        alert = recorded.event
        voice = self._state.series.get(getattr(alert, "fingerprint", ""))
        if voice is None or not voice.waiting or not isinstance(alert, AlertRaised):
            return ()
        return tuple(self._answer(voice, now))

    def tick(self, now: datetime) -> tuple[Event, ...]:
        """What became due by the passing of time."""
        answers = [
            *self._answer_unmuted(now),
            *self._answer_leftovers(now),
            *self._answer_released(now),
            *self._answer_waiting(now),
        ]
        self._began = self._began or now
        if now - self._began >= timedelta(seconds=min(PROBE_RESTART_S, self._settings.recovery)):
            answers += self._recoveries(now)
        for affair in self._state.incidents.values():
            if affair.batch.count:
                answers += affair.take_events(now, self._settings.group.batch)
        self._eviction.evict_old(now)
        return tuple(answers)

    def quiet(self, incident: str) -> bool:
        """All its alerts are taken back by their sources, though nothing was changed."""
        affair = self._state.incidents.get(incident)
        if affair is None or affair.state != "open" or affair.acted or affair.forgotten_firing:
            return False
        voices = list(self._state.members(affair))
        return bool(voices) and not any(each.firing or each.flapping for each in voices)

    def firing(self, incident: str) -> int:
        """How many of its alerts are still raised."""
        affair = self._state.incidents.get(incident)
        voices = self._state.members(affair) if affair is not None else ()
        return sum(each.firing for each in voices)

    def unanswered(self) -> tuple[int, ...]:
        """Numbers of alerts that have no answer yet."""
        voices = self._state.series
        return tuple(sorted(n for each in self._state.waiting for n in voices[each].waiting))

    def _answer(self, voice: AlertSeries, now: datetime, *, ripe: bool = False) -> list[Event]:
        affair = self._state.incident_of(voice)
        steady = voice.steady(now, self._settings.flapping)
        told = voice.flapping and voice.flap_told and not steady
        if affair is not None and affair.in_progress:
            if told:
                return self._mute(
                    voice, FLAPPING_STRETCH, f"{voice.flapping_text()}; {affair.id} says so", now
                )
            return self._join(affair, voice, _join_reason(voice), now)
        alert = voice.alert
        if alert is None:
            return []
        window = self._state.calendar.covering(alert, now)
        if window is not None and not (self._settings.pierce and is_data_at_risk(alert)):
            return self._mute(voice, window.id, _maintenance_reason(window.why, alert), now)
        if told:
            return self._mute(voice, FLAPPING_STRETCH, voice.flapping_text(), now)
        if not voice.firing and not voice.flapping:
            return self._mute(voice, PASSED_STRETCH, "it was over before it was taken up", now)
        if affair is not None and (why := self._echo_reason(voice, affair, now)):
            return self._mute(voice, affair.id, why, now)
        return self._join_or_open(voice, alert, now, ripe=ripe)

    def _join_or_open(
        self, voice: AlertSeries, alert: AlertRaised, now: datetime, *, ripe: bool
    ) -> list[Event]:
        kin = self._correlation.find_incident(voice, now)
        if kin is not None:
            return self._join(kin[0], voice, kin[1], now)
        waited = (now - voice.since).total_seconds()
        hasty = ripe or voice.flapping or alert.source == PERSON_SOURCE
        if not hasty and 0 <= waited < self._settings.group.delay:
            return []
        return self._open(voice, alert, now)

    def _join(
        self, affair: IncidentState, voice: AlertSeries, why: str, now: datetime
    ) -> list[Event]:
        if not voice.waiting:  # nothing was said: it had been kept quiet, and still fires
            voice.waiting.append(voice.number)
        affair.batch.add(voice, why, affair.new_part(voice))
        affair.last_alert_at = max(affair.last_alert_at, now)
        self._state.mark_answered(voice, voice.waiting[-1])
        self._state.add_to_incident(affair, voice)
        self._correlation.index_incident(affair)
        return list(affair.take_events(now, self._settings.group.batch))

    def _open(self, voice: AlertSeries, alert: AlertRaised, now: datetime) -> list[Event]:
        if not self._is_question(voice, alert):
            labels = tuple(each for each in alert.labels if each[0] != QUESTION_LABEL)
            alert = replace(alert, labels=labels)
        numbers = tuple(voice.waiting[:MAX_ALERT_NUMBERS]) or (voice.number,)
        service = voice.place.service
        signature = incident_signature(service, dict(alert.labels), alert.title)
        before = self._state.recurrences.find_earlier(voice.fingerprint, signature, now)
        toll = IncidentImpact(self._settings.services)
        toll.add(voice.place, alert_impact(alert))
        severity, why = toll.grade()
        said = (
            why,
            voice.flapping_text() if voice.flapping else "",
            before.words(self._settings.days),
        )
        name = self._name()
        event = IncidentOpened(
            run=name,
            at=now,
            incident=name,
            title=f"flaps: {alert.title}"[:200] if voice.flapping else alert.title[:200],
            severity=severity,
            reason="; ".join(filter(None, said)),
            service=service,
            fingerprint=voice.fingerprint,
            seen_before=before.times,
            alerts=numbers,
            facts=self._facts(voice, alert, before, now),
            since=alert.since,
        )
        affair = self._state.open_incident(event)
        self._correlation.index_incident(affair)
        return [event, *(self._answer(voice, now) if voice.waiting else ())]

    def _facts(
        self, voice: AlertSeries, alert: AlertRaised, before: EarlierIncidents, now: datetime
    ) -> tuple[tuple[str, str], ...]:
        facts = {name: value for name, value in alert.labels if name != ALERT_TEXT_FACT}
        if words := before.words(self._settings.days):
            facts["recurrence"] = words
        if voice.fingerprint in self._state.released:
            facts["split_from"] = self._state.released[voice.fingerprint][1]
        last = self._state.incident_of(voice)
        span = timedelta(seconds=self._settings.reopen)
        if last is not None and last.over_at is not None and now - last.over_at <= span:
            facts["again_after"] = last.id
        return (*facts.items(), (ALERT_TEXT_FACT, alert.text))

    def _mute(self, voice: AlertSeries, stretch: str, why: str, now: datetime) -> list[Event]:
        newest = max(voice.waiting, default=voice.number)
        known = bool(stretch) and voice.stretch == stretch
        self._state.mark_answered(voice, newest)
        self._state.mute(voice, stretch)
        if known:
            return []
        return [
            AlertSuppressed(
                run=WATCH_RUN,
                at=now,
                fingerprint=voice.fingerprint,
                title=voice.title,
                why=why,
                stretch=stretch,
                up_to=newest,
            )
        ]

    def _echo_reason(self, voice: AlertSeries, affair: IncidentState, now: datetime) -> str:
        """Why an alert of an incident that is over is nothing new; empty when it is."""
        if affair.over_at is None or voice.raised_at > affair.over_at:
            return ""
        if voice.alert is not None and voice.alert.source == PERSON_SOURCE:
            return ""  # who says it again means it
        until = self._state.quiet_until(affair)
        if voice.left_over:
            until = affair.over_at + timedelta(seconds=self._settings.hush)
        if now >= until:
            return ""
        return f"{affair.id} is over ({affair.outcome}); not taken up again before {until:%H:%M}"

    def _answer_unmuted(self, now: datetime) -> list[Event]:
        """What is no longer kept quiet, and still fires."""
        answers: list[Event] = []
        for fingerprint in list(self._state.muted):
            voice = self._state.series[fingerprint]
            voice.end_flapping(now, self._settings.flapping)
            if voice.stretch and self._state.is_still_muted(voice, now):
                continue
            del self._state.muted[fingerprint]
            voice.stretch = ""
            affair = self._state.incident_of(voice)
            if voice.firing and not (affair is not None and affair.in_progress):
                answers += self._answer(voice, now, ripe=True)
        return answers

    def _answer_leftovers(self, now: datetime) -> list[Event]:
        """Members of an incident that is over whose sources still say otherwise."""
        answers: list[Event] = []
        for affair in list(self._state.incidents.values()):
            if (
                affair.in_progress
                or affair.leftovers_checked
                or now < self._state.quiet_until(affair)
            ):
                continue
            affair.leftovers_checked = True
            for voice in list(self._state.members(affair)):
                source = voice.alert.source if voice.alert is not None else ""
                if voice.firing and not voice.stretch and source in self._state.resolving_sources:
                    answers += self._answer(voice, now, ripe=True)
        return answers

    def _answer_released(self, now: datetime) -> list[Event]:
        """What fires on after it left an incident that was about something else."""
        answers: list[Event] = []
        for fingerprint, (due, _) in list(self._state.released.items()):
            voice = self._state.series.get(fingerprint)
            if now < due:
                continue
            if voice is not None and voice.firing and not voice.stretch:
                answers += self._answer(voice, now, ripe=True)
            self._state.released.pop(fingerprint, None)
        return answers

    def _recoveries(self, now: datetime) -> list[Event]:
        """Incidents whose problem has been over for the settle time, though we changed nothing."""
        found: list[Event] = []
        for affair in self._state.incidents.values():
            worked_on = affair.state == "open" and not affair.question
            if not affair.in_progress or affair.forgotten_firing or (worked_on and affair.acted):
                continue
            event = self._recovery(affair, now, worked_on=worked_on)
            if event is None:
                continue
            if not worked_on:  # else the work has to end first: it may be about to act
                affair.recover(event)
            found.append(event)
        return found

    def _recovery(
        self, affair: IncidentState, now: datetime, *, worked_on: bool
    ) -> IncidentRecovered | None:
        first = self._state.series.get(affair.fingerprint)
        if worked_on and first is not None and first.firing:
            return None  # at once: in a storm it has thousands of members
        voices, apart, calm_at = (
            list(self._state.members(affair)),
            list[AlertSeries](),
            affair.quiet_since,
        )
        if worked_on:
            apart = [each for each in voices if each.firing and affair.is_side_warning(each)]
            names = {each.fingerprint for each in apart}
            voices = [each for each in voices if each.fingerprint not in names]
            calm_at = max((each.turned_at for each in voices), default=None)
        span = timedelta(seconds=self._settings.recovery)
        if calm_at is None or now - calm_at < span:
            return None
        if any(not self._is_over(each, now) for each in voices):
            return None
        seen = [each for each in voices if not each.withdrawn]
        if any(not _proven(each, seen) for each in voices if each.withdrawn):
            return None
        return IncidentRecovered(
            run=affair.id,
            at=now,
            incident=affair.id,
            recovered_at=calm_at,
            how=f"{_resolved_by_text(seen)}; no failure for {span.total_seconds():g} s",
            still_failing=tuple(each.label for each in apart),
        )

    def _is_over(self, voice: AlertSeries, now: datetime) -> bool:
        voice.end_flapping(now, self._settings.flapping)
        return not (voice.firing or voice.flapping)

    def _is_question(self, voice: AlertSeries, alert: AlertRaised) -> bool:
        """Only while nothing else on that host fails: else it may well be the cause."""
        if not alert_question(alert):
            return False
        return not any(
            each.firing and each is not voice and each.place.host == voice.place.host
            for each in self._state.series.values()
            if each.alert is not None and alert_impact(each.alert).effect != "warning"
        )

    def _answer_waiting(self, now: datetime) -> list[Event]:
        """Those that waited for others: when one is due all are, what others stand on first."""
        voices = [self._state.series[each] for each in self._state.waiting]
        delay = self._settings.group.delay
        if all(0 <= (now - each.since).total_seconds() < delay for each in voices):
            return []
        answers: list[Event] = []
        for voice in self._correlation.roots_first(voices):
            if voice.waiting:
                answers += self._answer(voice, now, ripe=True)
        return answers


def _proven(withdrawn: AlertSeries, seen: Sequence[AlertSeries]) -> bool:
    """Whether others that are still watched say that the same problem of its service is over."""
    service, problem = withdrawn.place.service, withdrawn.problem
    same = (each for each in seen if each.place.service == service and each.problem == problem)
    return bool(service) and any(same)


def _join_reason(voice: AlertSeries) -> str:
    return voice.flapping_text() if voice.flapping else "the same alert again"


def _resolved_by_text(voices: Sequence[AlertSeries]) -> str:
    """Who says that it is over, for the record: `resolved by probe port-80, alertmanager Down`."""
    named = [
        f"{each.source or 'its source'} {each.check or each.alarm}"
        for each in voices[:MAX_NAMED_SOURCES]
    ]
    more = f" and {len(voices) - MAX_NAMED_SOURCES} more" if len(voices) > MAX_NAMED_SOURCES else ""
    return f"resolved by {', '.join(named)}{more}" if named else "its alerts were resolved"


def _maintenance_reason(why: str, alert: AlertRaised) -> str:
    return f"{why}; data is at risk, by its label" if is_data_at_risk(alert) else why
