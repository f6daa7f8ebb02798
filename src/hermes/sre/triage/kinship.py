"""Finds the incident that an alert belongs to, by where and when it was heard, in a storm too."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

from hermes.sre.triage.affair import Affair, keys_of
from hermes.sre.triage.impact import LEVELS, SEVERITIES, impact_of
from hermes.sre.triage.ledger import Ledger
from hermes.sre.triage.voice import Voice


class Kinship:
    """An index of incidents by place and alarm, made again from the ledger when it has grown."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._by_key: dict[str, dict[str, None]] = {}
        self._by_alarm: dict[str, dict[str, None]] = {}
        self._known: dict[str, int] = {}

    def know(self, affair: Affair) -> None:
        """Its places as they are now."""
        known = self._known.get(affair.id, 0)
        if known and known == len(affair.places):
            return
        self._known[affair.id] = len(affair.places)
        if not known:
            self._by_alarm.setdefault(affair.alarm, {})[affair.id] = None
        for key in islice(affair.places, known, None):  # in a storm nearly each alert brings one
            self._by_key.setdefault(key, {})[affair.id] = None

    def of(self, voice: Voice, now: datetime) -> tuple[Affair, str] | None:
        """The one it joins, and why."""
        self._refresh()
        for key in self._keys(voice):
            for affair in self._open(self._by_key.get(key, ()), now):
                why = self._ledger.topology.related(voice.place, affair.places[key])
                if why and affair.absorbs(voice, key.startswith("service\n")):
                    return affair, f"{why}, within {self._ledger.settings.group.window:g} s"
        return self._same_alarm(voice, now)

    def roots_first(self, voices: Iterable[Voice]) -> list[Voice]:
        """Hosts, then what needs least of the others, then the gravest, then the first."""
        voices = list(voices)
        names = {each.place.service for each in voices}
        needs = {name: len(self._ledger.topology.needed(name) & names) for name in names}

        def rank(voice: Voice) -> tuple[bool, int, int, int]:
            effect = impact_of(voice.alert).effect if voice.alert is not None else "warning"
            grave = LEVELS.index(SEVERITIES[effect])
            place = voice.place
            return bool(place.service), needs[place.service], grave, voice.number

        return sorted(voices, key=rank)

    def _keys(self, voice: Voice) -> Iterable[str]:
        service, topology = voice.place.service, self._ledger.topology
        yield from keys_of(voice.place)
        if service:
            for name in sorted(topology.needed(service) | topology.standing_on(service)):
                yield f"service\n{name}"

    def _same_alarm(self, voice: Voice, now: datetime) -> tuple[Affair, str] | None:
        """One alarm on many hosts is one trouble; of many services only when it is a storm."""
        span = timedelta(seconds=self._ledger.settings.group.window)
        ringing = list(self._open(self._by_alarm.get(voice.alarm, ()), now))
        for affair in ringing:
            if not voice.place.service and not affair.service and affair.absorbs(voice, False):
                return affair, f"the same alarm, {voice.alarm}, within {span.total_seconds():g} s"
        lately = [each for each in ringing if now - each.opened_at <= span]
        taking = [each for each in lately if not each.narrow]
        if taking and len(lately) >= self._ledger.settings.group.storm:
            return taking[0], f"a storm: {len(lately)} incidents of {voice.alarm} are open"
        return None

    def _open(self, ids: Iterable[str], now: datetime) -> Iterable[Affair]:
        for id in ids:
            affair = self._ledger.affairs.get(id)
            if affair is not None and affair.takes_new(now, self._ledger.settings.group):
                yield affair

    def _refresh(self) -> None:
        affairs = self._ledger.affairs
        if self._known.keys() != affairs.keys():
            self._by_key, self._by_alarm, self._known = {}, {}, {}
            for affair in affairs.values():
                self.know(affair)
