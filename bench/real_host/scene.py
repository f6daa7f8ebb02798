"""One host played from its start to its end, with everything that was seen written down."""

import json
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from real_host.collateral import find_collateral, read_configuration
from real_host.faults import FAILS_WITH, NAMES, Outage, Stage
from real_host.namespace import CommandError, Namespace
from real_host.observer import Observer, Pressure, PressureRecord, Truth
from real_host.outages import BY_NAME
from real_host.plans import Plan, Scene
from real_host.services import Services
from real_host.watch import Killer, Notice, Watch, from_json

DETECTION_LIMIT_S = 30.0
RECOVERY_LIMIT_S = 60.0
PATIENCE_S = 6.0  # how long beyond a limit is waited, to know how late it was
SETTLE_S = 15.0  # a watch is left alone for so long before anything breaks
OUTAGE_VISIBLE_S = 15.0
FINE_AGAIN_S = 40.0
ESCALATION_S = 8.0  # an incident is given so long to be escalated before the outage is ended
RESOLUTION_LIMIT_S = 240.0  # experiments, two announcements of 30 s, checked for 20 s, when busy
GIVEN_UP_S = 12.0  # after the last escalation, for an incident that is still worked on
HEALTHY_S = 6.0  # so long all is fine before the outage counts as ended by the product
KILL_GAP_S = (1.0, 25.0)  # after the watch is on call again
KILLS_PER_HOST = 12
VICTIMS = ("nginx", "shop-api", "redis", "postgres")
NEWS_OF_RECOVERY = re.compile(r"recover|resolved|is over|fine again|back to normal", re.I)


@dataclass
class Record:
    """One outage: what was done to the host, and when the watch said what."""

    plan: Plan
    outage: Outage
    partners: int
    checks: tuple[str, ...] = ()
    """Those of its outage that no other outage of the scene makes fail."""
    caused: float = 0.0
    seen: float = 0.0
    ended: float = 0.0
    fine: float = 0.0
    noticed: Notice | None = None
    detected: Notice | None = None
    named: Notice | None = None
    recovery: Notice | None = None
    incidents: set[str] = field(default_factory=set)
    healed_early: bool = False
    healed_by: str = ""
    """The playbook whose change came before, or empty."""
    collateral: str = ""
    """Files that the product left neither as they were before nor as the outage made them."""
    pressure: float = 0.0
    load: float = 0.0
    waited_s: float = 0.0
    invalid: str = ""

    def __post_init__(self) -> None:
        self.checks = self.checks or self.outage.checks

    def after(self, notice: Notice | None, since: float) -> float | None:
        return round(notice.arrived - since, 1) if notice else None

    @property
    def detection_s(self) -> float | None:
        return self.after(self.detected, self.caused)

    @property
    def notice_s(self) -> float | None:
        """Until anything that the outage harms was named, if only a victim."""
        return self.after(self.noticed, self.caused)

    @property
    def naming_s(self) -> float | None:
        return self.after(self.named, self.caused)

    @property
    def recovery_s(self) -> float | None:
        return self.after(self.recovery, self.fine)


@dataclass
class View:
    """What the commands of the product said at one moment."""

    at: float
    records: list[Record]
    during: bool
    open_incidents: Any
    health: Any
    health_code: int
    warning: str = ""
    """What the list of incidents said on standard error: what it cannot know."""
    until: float = 0.0
    """When the last of them had answered; on a busy machine that takes a while."""


@dataclass
class Played:
    """Everything about one host that the judge needs."""

    plan: Plan
    records: list[Record]
    observer: Truth
    notices: list[Notice]
    kills: int
    starts: list[float]
    deaths: list[str]
    views: list[View]
    pressure: PressureRecord = field(default_factory=PressureRecord)
    incidents: Any = None
    shows: dict[str, Any] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    stats: Any = None
    audit_code: int = -1
    journal_code: int = -1
    problem: str = ""


def own_checks(outage: Outage, others: Iterable[Outage]) -> tuple[str, ...]:
    """What tells that this outage is over, while others may last."""
    shared = {c for each in others for name in each.services for c in FAILS_WITH.get(name, ())}
    return tuple(check for check in outage.checks if check not in shared) or outage.checks


def was_named_for(record: Record, seconds: float) -> bool:
    return bool(record.named and time.time() - record.named.arrived > seconds)


def tells_recovery(notice: Notice) -> bool:
    return bool(NEWS_OF_RECOVERY.search(f"{notice.about} {notice.title.splitlines()[0]}"))


def names(outage: Outage, text: str, *, weak: bool = False) -> bool:
    """`weak`: also by what points at the service without naming it."""
    patterns = [each for name in outage.services for each in NAMES[name][: 1 + weak]]
    return any(re.search(each, text, re.I) for each in patterns)


class Player:
    """Plays one plan."""

    def __init__(self, plan: Plan, folder: Path, pressure: Pressure, seed: int) -> None:
        self.plan = plan
        self._folder = folder
        self._pressure = pressure
        self._seed = seed
        self._records: list[Record] = []
        self._views: list[View] = []

    def play(self) -> Played:
        host = Namespace(self.plan.name, self._folder / self.plan.name)
        try:
            services = Services(host, self.plan.manager, self._folder / "shared")
            services.install()
            services.start_all()
            services.create_database()
            self._observer = Observer(host)
            self._watch = Watch(host, self.plan.terms)
            self._stage = Stage(host, services, self._watch)
            return self._play_scenes()
        finally:
            host.end()

    def _play_scenes(self) -> Played:
        watch, problem = self._watch, ""
        watch.start()
        watch.wait_until_on_call()
        time.sleep(SETTLE_S)
        if self.plan.terms.state:
            watch.record_known_good_state()
        killer = Killer(watch, self._seed, KILL_GAP_S, KILLS_PER_HOST) if self.plan.kills else None
        try:
            for scene in self.plan.scenes:
                self._play_scene(scene)
        except (CommandError, LookupError, subprocess.SubprocessError) as error:
            problem = str(error)
        finally:
            if killer:
                killer.stop()
        played = Played(
            self.plan,
            self._records,
            self._observer,
            watch.notices,
            len(watch.kills),
            watch.starts,
            watch.deaths,
            self._views,
            self._pressure,
            problem=problem,
        )
        self._collect(played)
        self._observer.stop()
        return played

    def _play_scene(self, scene: Scene) -> None:
        outages = [BY_NAME[name] for name in scene.outages]
        records = [
            Record(self.plan, each, len(outages), own_checks(each, set(outages) - {each}))
            for each in outages
        ]
        self._observer.wait(tuple(self._observer.samples), False, time.time(), FINE_AGAIN_S)
        files = read_configuration(self._stage.host)
        for number, record in enumerate(records):
            if number:
                self._follow(records, scene.gap_s, until_detected=False)
            self._cause(record)
        self._follow(records, DETECTION_LIMIT_S + PATIENCE_S, until_detected=True)
        self._look(records, during=True)
        broken = read_configuration(self._stage.host)
        self._wait_for_resolution(records)
        left = find_collateral(files, broken, read_configuration(self._stage.host))
        collateral = ", ".join(sorted(left))
        for record in reversed(records):
            self._end(record)
        everything = tuple(check for record in records for check in record.outage.checks)
        fine = self._observer.wait(everything, False, time.time(), FINE_AGAIN_S)
        for record in records:
            record.fine = record.ended if record.healed_early else fine or time.time()
            record.collateral = collateral
            if not fine:
                record.invalid = f"the bench could not end it: {self._observer.problems()}"
        self._follow(records, RECOVERY_LIMIT_S + PATIENCE_S, until_recovered=True)
        self._look(records, during=False)

    def _cause(self, record: Record) -> None:
        self._records.append(record)
        record.caused = time.time()
        record.outage.cause(self._stage)
        if record.outage.kind in ("reboot", "home of the watch"):
            record.caused = max(record.caused, self._watch.starts[-1])
        seen = self._observer.wait(record.outage.checks, True, record.caused, OUTAGE_VISIBLE_S)
        record.seen = seen
        if not seen:
            record.invalid = "the bench itself saw nothing fail"

    def _wait_for_resolution(self, records: list[Record]) -> None:
        """Until all is fine again, the product has given up, or a playbook had a fair chance."""
        deadline = max(record.caused for record in records) + RESOLUTION_LIMIT_S
        while time.time() < deadline:
            self._watch.revive()
            for record in records:
                sort_notices(record, self._watch.notices)
                self._note_health(record)
            if all(r.healed_early for r in records) or self._has_given_up(records):
                return
            time.sleep(0.3)

    def _note_health(self, record: Record) -> None:
        since = self._observer.fine_since(record.checks)
        healed = bool(since) and time.time() - since > HEALTHY_S and since > record.seen
        record.healed_early, record.ended = healed and bool(record.seen), since if healed else 0.0

    def _has_given_up(self, records: list[Record]) -> bool:
        """All incidents since then are with people, or over."""
        since = min(record.caused for record in records)
        late = [n for n in self._watch.notices if n.arrived >= since and n.incident]
        over = [n for n in late if n.about == "escalated" or tells_recovery(n)]
        left = {n.incident for n in late} - {n.incident for n in over}
        return bool(over) and not left and time.time() - over[-1].arrived > GIVEN_UP_S

    def _end(self, record: Record) -> None:
        self._note_health(record)
        record.ended = record.ended or time.time()
        try:
            record.outage.end(self._stage)
        except (CommandError, LookupError):
            if not record.healed_early:
                raise

    def _follow(
        self,
        records: list[Record],
        seconds: float,
        until_detected: bool = False,
        until_recovered: bool = False,
    ) -> None:
        """Wait, sorting what arrives, for so long or until everything has been said."""
        deadline = time.time() + seconds
        while time.time() < deadline:
            self._watch.revive()
            for record in records:
                sort_notices(record, self._watch.notices)
            if until_detected and all(was_named_for(record, ESCALATION_S) for record in records):
                break
            if until_recovered and all(r.recovery for r in records):
                break
            time.sleep(0.3)
        for record in records:
            until = record.detected.arrived if record.detected else time.time()
            record.pressure, record.load = self._pressure.between(record.caused, until)
            record.waited_s = self._watch.waited_s(record.caused, until)

    def _look(self, records: list[Record], during: bool) -> None:
        at = time.time()
        _, listed, warning = self._watch.ask_whole("incident list --open --limit 200 --json")
        code, text = self._watch.ask("health --json")
        health = json.loads(text) if text.startswith("{") else None
        self._views.append(
            View(at, list(records), during, from_json(listed), health, code, warning, time.time())
        )

    def _collect(self, played: Played) -> None:
        """Read every view of every incident when the watch has ended: nothing changes between."""
        watch = self._watch
        watch.end()
        played.incidents = watch.ask_json("incident list --limit 500")
        for incident in played.incidents or []:
            name = incident["incident"]
            played.shows[name] = watch.ask_json(f"incident show {name}")
            played.reports[name] = watch.ask(f"incident report {name}")[1]
        for record in played.records:
            record.healed_by = change_before(played, record) if record.healed_early else ""
        played.stats = watch.ask_json("incident stats")
        played.audit_code = watch.ask("audit verify")[0]
        played.journal_code = watch.ask("journal verify")[0]
        journal = watch.ask("journal export")[1]
        (self._folder / f"{self.plan.name}.journal").write_text(journal)


def change_before(played: Played, record: Record) -> str:
    """The playbook with the last change between an outage and its end."""
    changes = [
        (datetime.fromisoformat(change["at"]).timestamp(), change["by"])
        for show in played.shows.values()
        for change in (show or {}).get("changes", [])
        if change.get("changed")
    ]
    return max([c for c in changes if record.caused < c[0] < record.ended + 2], default=(0, ""))[1]


def sort_notices(record: Record, notices: list[Notice]) -> None:
    """Find what was said about an outage: that it is there, its name, that it is over."""
    if not record.caused:
        return
    for notice in [notice for notice in notices if notice.arrived >= record.caused]:
        if tells_recovery(notice):
            about_it = notice.incident in record.incidents or names(record.outage, notice.words)
            if about_it and record.ended and notice.arrived >= record.ended:
                record.recovery = record.recovery or notice
        elif not record.fine or notice.arrived <= record.fine:
            sort_report(record, notice)


def sort_report(record: Record, notice: Notice) -> None:
    """What one notification says while the outage lasts."""
    if notice.about == "escalated" and opened_by_name(notice.incident) < int(record.caused):
        return  # people are given an incident about something that failed before
    if any(re.search(NAMES[name][1], notice.words, re.I) for name in VICTIMS):
        record.noticed = record.noticed or notice
    if names(record.outage, notice.words, weak=True):
        record.detected = record.detected or notice
        record.incidents |= {notice.incident} - {""}
    if names(record.outage, notice.words):
        record.named = record.named or notice


def opened_by_name(incident: str) -> float:
    """When an incident was opened, which its name tells; never where it has no such name."""
    found = re.match(r"incident-(\d{8}-\d{6})-", incident)
    if not found:
        return float("inf")
    return datetime.strptime(found[1] + "+0000", "%Y%m%d-%H%M%S%z").timestamp()
