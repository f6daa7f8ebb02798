"""Services with their state, checks, incidents and maintenance; and which service needs which."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hermes.app.facts import open_facts
from hermes.app.incidents.views import PlainObject
from hermes.app.maintenance import (
    add_window,
    current_windows,
    describe_window,
    end_window,
    parse_window_begin,
    parse_window_length,
)
from hermes.app.people import require_known
from hermes.core.errors import HermesError
from hermes.core.events.operations import HealthChecked
from hermes.core.incident import Incident
from hermes.core.protocols import Journal
from hermes.memory.facts.fact import Fact, FactQuery
from hermes.memory.store import JournalStore
from hermes.settings.load import LoadedSettings
from hermes.sre.probes.inventory import read_inventories
from hermes.sre.probes.probe_file import load_probes
from hermes.sre.reports.report_data import STATE_KINDS, list_incidents
from hermes.sre.triage.maintenance import MaintenanceWindow, target_covers
from hermes.sre.triage.topology import alert_dependencies, alert_location

HEALTH_LOOKBACK = timedelta(days=7)
"""How far back the rounds of checks are read to say since when a state holds."""
MAX_ROUND_AGE = timedelta(minutes=20)
"""Rounds are recorded every five minutes. An older one does not say how the checks are now."""
MAX_DEPENDENCY_FACTS = 200
DEPENDENCY_RELATIONS = ("depends-on", "connects-to", "forwards-to")
HOST = "this host"
"""The row of checks that belong to no service."""
MAX_SERVICES = 200
ReadIncidents = Callable[[], Awaitable[Sequence[Incident]]]
STATES = ("incident", "failing", "unknown", "fine", "unchecked")
"""In the order in which they are listed: what needs a person first."""


class HealthHistory:
    """Which checks fail, and since when, by the rounds that were recorded."""

    def __init__(self) -> None:
        self.last: HealthChecked | None = None
        self.first_at: datetime | None = None
        self._states: dict[str, tuple[str, datetime]] = {}
        self._seq = 0

    async def read(self, journal: Journal) -> None:
        """Apply the rounds since the last call; the first call reads some days."""
        since = None if self._seq else datetime.now(UTC) - HEALTH_LOOKBACK
        async for recorded in journal.read(after=self._seq, kinds=("health.checked",), since=since):
            self._seq = recorded.seq
            if isinstance(recorded.event, HealthChecked):
                self.apply(recorded.event)

    def apply(self, event: HealthChecked) -> None:
        self.last, self.first_at = event, self.first_at or event.at
        now = {**dict.fromkeys(event.unknown, "unknown"), **dict.fromkeys(event.failing, "failing")}
        for name in {*self._states, *now}:
            state = now.get(name, "fine")
            if self._states.get(name, ("fine",))[0] != state:
                self._states[name] = (state, event.at)

    def state(self, check: str) -> tuple[str, datetime | None]:
        """Its state, and since when; `unchecked` before the first round."""
        if self.last is None:
            return "unchecked", None
        return self._states.get(check, ("fine", self.first_at))

    @property
    def troubled(self) -> Iterable[str]:
        return [name for name, (state, _) in self._states.items() if state != "fine"]


def is_current(round: HealthChecked | None) -> bool:
    return round is not None and datetime.now(UTC) - round.at < MAX_ROUND_AGE


class JournalServices:
    """Fulfils what the page of services shows and does.

    `read_incidents` returns all incidents in the order in which they were opened.
    """

    def __init__(
        self,
        loaded: LoadedSettings,
        journal: JournalStore,
        read_incidents: ReadIncidents | None = None,
    ) -> None:
        self._loaded, self._journal = loaded, journal
        self._health = HealthHistory()
        self._current = self._health
        """What holds now: nothing when no round was recorded lately."""
        self._read_incidents = read_incidents or (
            lambda: list_incidents(journal, kinds=STATE_KINDS)
        )

    async def services(self, *, limit: int = MAX_SERVICES, skip: int = 0) -> PlainObject:
        """Services, those in trouble first, with the last round of checks."""
        await self._health.read(self._journal)
        self._current = self._health if is_current(self._health.last) else HealthHistory()
        incidents = await self._read_incidents()
        by_service: dict[str, list[Incident]] = defaultdict(list)
        for each in incidents:
            if name := _service_of(each):
                by_service[name].append(each)
        checks = service_checks(self._loaded, self._current)
        unnamed = self._unnamed_checks(checks)
        if unnamed:
            checks.setdefault(HOST, [])
        windows = await current_windows(self._journal)
        links = await self._links(incidents)
        names = dict.fromkeys([*checks, *by_service, *(name for link in links for name in link)])
        needs, needed_by = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for one, other in links:
            needs[one].append(other)
            needed_by[other].append(one)
        states = {
            name: self._state(checks.get(name, ()), by_service.get(name, ())) for name in names
        }
        if unnamed and states[HOST][0] == "unchecked":
            states[HOST] = ("fine", self._current.first_at)
        order = sorted(names, key=lambda name: (STATES.index(states[name][0]), name))
        rows = [
            {
                **_service_row(name, *states[name], by_service.get(name, ()), windows),
                "checks": self._check_rows(checks.get(name, ()), by_service.get(name, ())),
                "more_fine": unnamed if name == HOST else 0,
                "needs": sorted(needs[name]),
                "needed_by": sorted(needed_by[name]),
            }
            for name in order[skip : skip + limit]
        ]
        return {
            "services": rows,
            "count": len(order),
            "states": Counter(states[name][0] for name in order),
            "round": self._round(),
            "maintenance": [describe_window(each) for each in windows],
            "links": [
                {
                    "service": one,
                    "needs": other,
                    "source": source,
                    "service_state": states[one][0],
                    "needs_state": states[other][0],
                }
                for (one, other), source in links.items()
            ],
        }

    def _state(
        self, checks: Sequence[str], incidents: Sequence[Incident]
    ) -> tuple[str, datetime | None]:
        """The worst state of its checks, or its open incident; and since when."""
        unresolved = next((each for each in incidents if each.unresolved), None)
        if unresolved is not None:
            return "incident", unresolved.details.opened_at
        states = [self._state_since_incident(check, incidents) for check in checks]
        state = min((each for each, _ in states), key=STATES.index, default="unchecked")
        return state, max((at for each, at in states if each == state and at), default=None)

    def _state_since_incident(
        self, check: str, incidents: Sequence[Incident]
    ) -> tuple[str, datetime | None]:
        """An incident between two rounds shows that it was not fine all the time."""
        state, at = self._current.state(check)
        over = max((each.over_at for each in incidents if each.over_at), default=None)
        return state, over if state == "fine" and at and over and over > at else at

    def _unnamed_checks(self, checks: Mapping[str, Sequence[str]]) -> int:
        """Checks of the last round that were fine, and of which only the number was recorded."""
        known = sum(len(names) for names in checks.values())
        return max(0, self._current.last.checks - known) if self._current.last is not None else 0

    def _check_rows(
        self, checks: Sequence[str], incidents: Sequence[Incident]
    ) -> list[PlainObject]:
        states = {check: self._state_since_incident(check, incidents) for check in sorted(checks)}
        return [
            {"check": check, "state": state, "since": at.isoformat() if at else None}
            for check, (state, at) in states.items()
        ]

    def _round(self) -> PlainObject | None:
        last = self._health.last
        if last is None:
            return None
        return {
            "at": last.at.isoformat(),
            "checks": last.checks,
            "failing": len(last.failing),
            "unknown": len(last.unknown),
            "seconds": last.seconds,
            "current": is_current(last),
        }

    async def _links(self, incidents: Sequence[Incident]) -> dict[tuple[str, str], str]:
        """Return which service needs which, and who says so."""
        found: dict[tuple[str, str], str] = {}
        for service, needed in self._loaded.settings.sre.triage.group.depends_on.items():
            found |= dict.fromkeys(((service, name) for name in needed), "config.yaml")
        for each in incidents:
            service = _service_of(each)
            for name in alert_dependencies(each.details.labels):
                found.setdefault((service, name), f"alert of {each.details.incident}")
        for fact in await self._dependency_facts():
            if len(fact.about) > 1:
                found.setdefault((fact.about[0], fact.about[1]), fact.id)
        return {link: source for link, source in found.items() if link[0] != link[1] and all(link)}

    async def _dependency_facts(self) -> list[Fact]:
        facts: list[Fact] = []
        async with open_facts(self._loaded, self._journal) as context:
            for relation in DEPENDENCY_RELATIONS:
                query = FactQuery(relation=relation, limit=MAX_DEPENDENCY_FACTS)
                facts += await context.recorder.facts.find(query)
        return [each for each in facts if each.trust != "quarantined"]

    async def add_maintenance(
        self, target: str, *, length: str, begins: str, reason: str, person: str
    ) -> str:
        """Returns one line about the window. Raises `HermesError`."""
        try:
            span, start = parse_window_length(length.strip()), parse_window_begin(begins.strip())
        except ValueError as error:
            raise HermesError(str(error)) from error
        window = await add_window(
            self._loaded,
            self._journal,
            target,
            start,
            span,
            person=await require_known(self._loaded, self._journal, person),
            reason=reason,
        )
        return f"Alerts of {window.target} are silenced until {window.until:%Y-%m-%d %H:%M} UTC"

    async def end_maintenance(self, window: str, *, person: str) -> str:
        """Raises `HermesError`."""
        who = await require_known(self._loaded, self._journal, person)
        ended = await end_window(self._journal, window, person=who)
        return f"The maintenance of {ended.target} is over: its alerts count again"


def _service_row(
    name: str,
    state: str,
    since: datetime | None,
    incidents: Sequence[Incident],
    windows: Sequence[MaintenanceWindow],
) -> PlainObject:
    last, labels = incidents[-1] if incidents else None, {"service": name}
    covering = [each for each in windows if target_covers(each.target, labels)]
    return {
        "name": name,
        "state": state,
        "since": since.isoformat() if since else None,
        "open_incidents": sum(each.unresolved for each in incidents),
        "incidents": len(incidents),
        "last_incident": {
            "incident": last.details.incident,
            "title": last.details.title,
            "severity": last.severity,
            "state": last.status,
            "opened_at": last.details.opened_at.isoformat(),
        }
        if last is not None
        else None,
        "maintenance": [describe_window(each) for each in covering],
    }


def _service_of(incident: Incident) -> str:
    return incident.details.service or alert_location(incident.details.labels).service


def service_checks(loaded: LoadedSettings, health: HealthHistory) -> dict[str, list[str]]:
    """The checks of each service: declared, or remembered from discovery."""
    found: dict[str, list[str]] = defaultdict(list)
    declared = load_probes(loaded.home / loaded.settings.sre.probes.file, loaded.home)
    if declared is not None:
        for probe in declared:
            found[probe.service or HOST].append(probe.name)
    else:
        for inventory in read_inventories(loaded.home).values():
            for service in inventory.expected:
                found[service.name] += [probe.name for probe in service.probes]
    known = {name for names in found.values() for name in names}
    if others := [name for name in health.troubled if name not in known]:
        found[HOST] += others
    return {name: list(dict.fromkeys(checks)) for name, checks in found.items()}
