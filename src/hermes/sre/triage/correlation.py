"""Finds the incident that an alert belongs to, by where and when it was heard, in a storm too."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from hermes.sre.triage.alert_series import AlertSeries
from hermes.sre.triage.incident_state import IncidentState, location_keys
from hermes.sre.triage.severity import SEVERITY_BY_EFFECT, SEVERITY_LEVELS, alert_impact
from hermes.sre.triage.state import TriageState


class AlertCorrelation:
    """An index of incidents by place and alarm, made again from the ledger when it has grown."""

    def __init__(self, ledger: TriageState) -> None:
        self._state = ledger
        self._by_key: dict[str, dict[str, None]] = {}
        self._by_alarm: dict[str, dict[str, None]] = {}
        self._indexed: dict[str, int] = {}

    def index_incident(self, affair: IncidentState) -> None:
        """Its places as they are now."""
        known = self._indexed.get(affair.id, 0)
        if known and known == len(affair.locations):
            return
        self._indexed[affair.id] = len(affair.locations)
        if not known:
            self._by_alarm.setdefault(affair.alarm, {})[affair.id] = None
        for key in islice(affair.locations, known, None):  # in a storm nearly each alert brings one
            self._by_key.setdefault(key, {})[affair.id] = None

    def find_incident(self, voice: AlertSeries, now: datetime) -> tuple[IncidentState, str] | None:
        """The one it joins, and why."""
        self._refresh()
        for key in self._keys(voice):
            for affair in self._accepting(self._by_key.get(key, ()), now):
                why = self._state.topology.related(voice.place, affair.locations[key])
                if why and affair.absorbs(voice, key.startswith("service\n")):
                    return affair, f"{why}, within {self._state.settings.group.window:g} s"
        return self._same_alarm(voice, now)

    def roots_first(self, voices: Iterable[AlertSeries]) -> list[AlertSeries]:
        """Hosts, then what needs least of the others, then the gravest, then the first.

        A mere warning about a host comes last: it is no reason for what fails there.
        """
        voices = list(voices)
        names = {each.place.service for each in voices}
        needs = {name: len(self._state.topology.dependencies_of(name) & names) for name in names}

        def rank(voice: AlertSeries) -> tuple[int, int, int, int]:
            effect = alert_impact(voice.alert).effect if voice.alert is not None else "warning"
            grave = SEVERITY_LEVELS.index(SEVERITY_BY_EFFECT[effect])
            service = voice.place.service
            order = 1 if service else 2 if voice.warns else 0
            return order, needs[service], grave, voice.number

        return sorted(voices, key=rank)

    def _keys(self, voice: AlertSeries) -> Iterable[str]:
        service, topology = voice.place.service, self._state.topology
        yield from location_keys(voice.place)
        if service:
            for name in sorted(topology.dependencies_of(service) | topology.dependents_of(service)):
                yield f"service\n{name}"

    def _same_alarm(self, voice: AlertSeries, now: datetime) -> tuple[IncidentState, str] | None:
        """One alarm on many hosts is one trouble; of many services only when it is a storm."""
        span = timedelta(seconds=self._state.settings.group.window)
        ringing = list(self._accepting(self._by_alarm.get(voice.alarm, ()), now))
        for affair in ringing:
            if not voice.place.service and not affair.service and affair.absorbs(voice, False):
                return affair, f"the same alarm, {voice.alarm}, within {span.total_seconds():g} s"
        lately = [each for each in ringing if now - each.opened_at <= span]
        taking = [each for each in lately if not each.accepts_own_problem_only]
        if taking and len(lately) >= self._state.settings.group.storm:
            return taking[0], f"a storm: {len(lately)} incidents of {voice.alarm} are open"
        return None

    def _accepting(self, ids: Iterable[str], now: datetime) -> Iterable[IncidentState]:
        for id in ids:
            affair = self._state.incidents.get(id)
            if affair is not None and affair.accepts_new(now, self._state.settings.group):
                yield affair

    def _refresh(self) -> None:
        affairs = self._state.incidents
        if self._indexed.keys() != affairs.keys():
            self._by_key, self._by_alarm, self._indexed = {}, {}, {}
            for affair in affairs.values():
                self.index_incident(affair)
