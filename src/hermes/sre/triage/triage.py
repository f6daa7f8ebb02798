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
from hermes.core.ids import new_id
from hermes.core.protocols import Recorded
from hermes.sre.case import QUESTION, TEXT
from hermes.sre.triage.affair import Affair
from hermes.sre.triage.forgetting import Forgetting
from hermes.sre.triage.impact import at_risk, impact_of, question_of
from hermes.sre.triage.kinship import Kinship
from hermes.sre.triage.ledger import FLAPPING, PASSED, WATCH, Ledger
from hermes.sre.triage.recurrence import Before, signature_of
from hermes.sre.triage.settings import TriageSettings
from hermes.sre.triage.toll import Toll
from hermes.sre.triage.voice import Voice

NUMBERS = 50
"""Alerts that an incident names when it is opened; further ones are counted."""
PERSON = "person"
LOOK_AGAIN_S = 5.0
"""Seconds after a start in which the probes answer again before a recovery is reported."""
SOURCES = 5
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
        self._ledger = Ledger(self._settings, depends_on or {})
        self._kin = Kinship(self._ledger)
        self._forgetting = Forgetting(self._ledger)
        self._began: datetime | None = None

    def apply(self, recorded: Recorded) -> None:
        """Anything that was written down; alone it changes what is known, and answers nothing."""
        self._ledger.take(recorded)
        self._forgetting.when_full()

    def hear(self, recorded: Recorded, now: datetime) -> tuple[Event, ...]:
        """What must be published for this alert now; more may follow from `tick`."""
        self.apply(recorded)
        alert = recorded.event
        voice = self._ledger.voices.get(getattr(alert, "fingerprint", ""))
        if voice is None or not voice.waiting or not isinstance(alert, AlertRaised):
            return ()
        return tuple(self._answer(voice, now))

    def tick(self, now: datetime) -> tuple[Event, ...]:
        """What became due by the passing of time."""
        answers = [*self._over(now), *self._left(now), *self._split(now), *self._held(now)]
        self._began = self._began or now
        if now - self._began >= timedelta(seconds=min(LOOK_AGAIN_S, self._settings.recovery)):
            answers += self._recoveries(now)
        for affair in self._ledger.affairs.values():
            if affair.batch.count:
                answers += affair.tell(now, self._settings.group.batch)
        self._forgetting.from_time_to_time(now)
        return tuple(answers)

    def quiet(self, incident: str) -> bool:
        """All its alerts are taken back by their sources, though nothing was changed."""
        affair = self._ledger.affairs.get(incident)
        if affair is None or affair.state != "open" or affair.acted or affair.lost:
            return False
        voices = list(self._ledger.members(affair))
        return bool(voices) and not any(each.firing or each.flapping for each in voices)

    def firing(self, incident: str) -> int:
        """How many of its alerts are still raised."""
        affair = self._ledger.affairs.get(incident)
        voices = self._ledger.members(affair) if affair is not None else ()
        return sum(each.firing for each in voices)

    def unanswered(self) -> tuple[int, ...]:
        """Numbers of alerts that have no answer yet."""
        voices = self._ledger.voices
        return tuple(sorted(n for each in self._ledger.waiting for n in voices[each].waiting))

    def _answer(self, voice: Voice, now: datetime, *, ripe: bool = False) -> list[Event]:
        affair = self._ledger.affair_of(voice)
        steady = voice.steady(now, self._settings.flapping)
        told = voice.flapping and voice.flap_told and not steady
        if affair is not None and affair.holds:
            if told:
                return self._mute(voice, FLAPPING, f"{voice.flaps()}; {affair.id} says so", now)
            return self._join(affair, voice, _again(voice), now)
        alert = voice.alert
        if alert is None:
            return []
        window = self._ledger.calendar.covering(alert, now)
        if window is not None and not (self._settings.pierce and at_risk(alert)):
            return self._mute(voice, window.id, _while(window.why, alert), now)
        if told:
            return self._mute(voice, FLAPPING, voice.flaps(), now)
        if not voice.firing and not voice.flapping:
            return self._mute(voice, PASSED, "it was over before it was taken up", now)
        if affair is not None and (why := self._echo(voice, affair, now)):
            return self._mute(voice, affair.id, why, now)
        return self._take_up(voice, alert, now, ripe=ripe)

    def _take_up(
        self, voice: Voice, alert: AlertRaised, now: datetime, *, ripe: bool
    ) -> list[Event]:
        kin = self._kin.of(voice, now)
        if kin is not None:
            return self._join(kin[0], voice, kin[1], now)
        waited = (now - voice.since).total_seconds()
        hasty = ripe or voice.flapping or alert.source == PERSON
        if not hasty and 0 <= waited < self._settings.group.delay:
            return []
        return self._open(voice, alert, now)

    def _join(self, affair: Affair, voice: Voice, why: str, now: datetime) -> list[Event]:
        if not voice.waiting:  # nothing was said: it had been kept quiet, and still fires
            voice.waiting.append(voice.number)
        affair.batch.add(voice, why, affair.part_of(voice))
        affair.last = max(affair.last, now)
        self._ledger.answered(voice, voice.waiting[-1])
        self._ledger.admit(affair, voice)
        self._kin.know(affair)
        return list(affair.tell(now, self._settings.group.batch))

    def _open(self, voice: Voice, alert: AlertRaised, now: datetime) -> list[Event]:
        if not self._is_question(voice, alert):
            labels = tuple(each for each in alert.labels if each[0] != QUESTION)
            alert = replace(alert, labels=labels)
        numbers = tuple(voice.waiting[:NUMBERS]) or (voice.number,)
        service = voice.place.service
        signature = signature_of(service, dict(alert.labels), alert.title)
        before = self._ledger.past.before(voice.fingerprint, signature, now)
        toll = Toll(self._settings.services)
        toll.add(voice.place, impact_of(alert))
        severity, why = toll.grade()
        said = (why, voice.flaps() if voice.flapping else "", before.words(self._settings.days))
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
        affair = self._ledger.open(event)
        self._kin.know(affair)
        return [event, *(self._answer(voice, now) if voice.waiting else ())]

    def _facts(
        self, voice: Voice, alert: AlertRaised, before: Before, now: datetime
    ) -> tuple[tuple[str, str], ...]:
        facts = {name: value for name, value in alert.labels if name != TEXT}
        if words := before.words(self._settings.days):
            facts["recurrence"] = words
        if voice.fingerprint in self._ledger.released:
            facts["split_from"] = self._ledger.released[voice.fingerprint][1]
        last = self._ledger.affair_of(voice)
        span = timedelta(seconds=self._settings.reopen)
        if last is not None and last.over_at is not None and now - last.over_at <= span:
            facts["again_after"] = last.id
        return (*facts.items(), (TEXT, alert.text))

    def _mute(self, voice: Voice, stretch: str, why: str, now: datetime) -> list[Event]:
        newest = max(voice.waiting, default=voice.number)
        known = bool(stretch) and voice.stretch == stretch
        self._ledger.answered(voice, newest)
        self._ledger.mute(voice, stretch)
        if known:
            return []
        return [
            AlertSuppressed(
                run=WATCH,
                at=now,
                fingerprint=voice.fingerprint,
                title=voice.title,
                why=why,
                stretch=stretch,
                up_to=newest,
            )
        ]

    def _echo(self, voice: Voice, affair: Affair, now: datetime) -> str:
        """Why an alert of an incident that is over is nothing new; empty when it is."""
        if affair.over_at is None or voice.raised_at > affair.over_at:
            return ""
        if voice.alert is not None and voice.alert.source == PERSON:
            return ""  # who says it again means it
        until = self._ledger.quiet_until(affair)
        if voice.left_over:
            until = affair.over_at + timedelta(seconds=self._settings.hush)
        if now >= until:
            return ""
        return f"{affair.id} is over ({affair.outcome}); not taken up again before {until:%H:%M}"

    def _over(self, now: datetime) -> list[Event]:
        """What is no longer kept quiet, and still fires."""
        answers: list[Event] = []
        for fingerprint in list(self._ledger.muted):
            voice = self._ledger.voices[fingerprint]
            voice.calm_by(now, self._settings.flapping)
            if voice.stretch and self._ledger.lasts(voice, now):
                continue
            del self._ledger.muted[fingerprint]
            voice.stretch = ""
            affair = self._ledger.affair_of(voice)
            if voice.firing and not (affair is not None and affair.holds):
                answers += self._answer(voice, now, ripe=True)
        return answers

    def _left(self, now: datetime) -> list[Event]:
        """Members of an incident that is over whose sources still say otherwise."""
        answers: list[Event] = []
        for affair in list(self._ledger.affairs.values()):
            if affair.holds or affair.reckoned or now < self._ledger.quiet_until(affair):
                continue
            affair.reckoned = True
            for voice in list(self._ledger.members(affair)):
                source = voice.alert.source if voice.alert is not None else ""
                if voice.firing and not voice.stretch and source in self._ledger.tell_ends:
                    answers += self._answer(voice, now, ripe=True)
        return answers

    def _split(self, now: datetime) -> list[Event]:
        """What fires on after it left an incident that was about something else."""
        answers: list[Event] = []
        for fingerprint, (due, _) in list(self._ledger.released.items()):
            voice = self._ledger.voices.get(fingerprint)
            if now < due:
                continue
            if voice is not None and voice.firing and not voice.stretch:
                answers += self._answer(voice, now, ripe=True)
            self._ledger.released.pop(fingerprint, None)
        return answers

    def _recoveries(self, now: datetime) -> list[Event]:
        """Incidents whose problem has been over for the settle time, though we changed nothing."""
        found: list[Event] = []
        for affair in self._ledger.affairs.values():
            worked_on = affair.state == "open" and not affair.question
            if not affair.holds or affair.lost or (worked_on and affair.acted):
                continue
            event = self._recovery(affair, now, worked_on=worked_on)
            if event is None:
                continue
            if not worked_on:  # else the work has to end first: it may be about to act
                affair.recover(event)
            found.append(event)
        return found

    def _recovery(
        self, affair: Affair, now: datetime, *, worked_on: bool
    ) -> IncidentRecovered | None:
        first = self._ledger.voices.get(affair.fingerprint)
        if worked_on and first is not None and first.firing:
            return None  # at once: in a storm it has thousands of members
        voices, apart, calm_at = list(self._ledger.members(affair)), list[Voice](), affair.calm_at
        if worked_on:
            apart = [each for each in voices if each.firing and affair.beside(each)]
            names = {each.fingerprint for each in apart}
            voices = [each for each in voices if each.fingerprint not in names]
            calm_at = max((each.turned_at for each in voices), default=None)
        span = timedelta(seconds=self._settings.recovery)
        if calm_at is None or now - calm_at < span:
            return None
        if any(not self._well(each, now) for each in voices):
            return None
        return IncidentRecovered(
            run=affair.id,
            at=now,
            incident=affair.id,
            recovered_at=calm_at,
            how=f"{_sources(voices)}; no failure for {span.total_seconds():g} s",
            still_failing=tuple(each.label for each in apart),
        )

    def _well(self, voice: Voice, now: datetime) -> bool:
        voice.calm_by(now, self._settings.flapping)
        return not (voice.firing or voice.flapping or voice.withdrawn)

    def _is_question(self, voice: Voice, alert: AlertRaised) -> bool:
        """Only while nothing else on that host fails: else it may well be the cause."""
        if not question_of(alert):
            return False
        return not any(
            each.firing and each is not voice and each.place.host == voice.place.host
            for each in self._ledger.voices.values()
            if each.alert is not None and impact_of(each.alert).effect != "warning"
        )

    def _held(self, now: datetime) -> list[Event]:
        """Those that waited for others: when one is due all are, what others stand on first."""
        voices = [self._ledger.voices[each] for each in self._ledger.waiting]
        delay = self._settings.group.delay
        if all(0 <= (now - each.since).total_seconds() < delay for each in voices):
            return []
        answers: list[Event] = []
        for voice in self._kin.roots_first(voices):
            if voice.waiting:
                answers += self._answer(voice, now, ripe=True)
        return answers


def _again(voice: Voice) -> str:
    return voice.flaps() if voice.flapping else "the same alert again"


def _sources(voices: Sequence[Voice]) -> str:
    """Who says that it is over, for the record: `resolved by probe port-80, alertmanager Down`."""
    named = [
        f"{each.source or 'its source'} {each.check or each.alarm}" for each in voices[:SOURCES]
    ]
    more = f" and {len(voices) - SOURCES} more" if len(voices) > SOURCES else ""
    return f"resolved by {', '.join(named)}{more}" if named else "its alerts were resolved"


def _while(why: str, alert: AlertRaised) -> str:
    return f"{why}; data is at risk, by its label" if at_risk(alert) else why
