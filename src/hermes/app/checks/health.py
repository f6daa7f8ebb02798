"""Checks health with probes, and answers questions about it without a language model."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hermes.app.checks.learned_checks import learned_results, read_learned_checks
from hermes.app.checks.probes import AdmittedProbes, declared_probes, select_admitted_probes
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.incidents import AlertRaised
from hermes.core.events.operations import HealthChecked, ReserveRestored
from hermes.core.incident import WATCH_RUN, Incident, IncidentDetails
from hermes.core.knowledge import SYSTEM_NOTE_PREFIX
from hermes.core.messages import Completion, Message, ToolSpec, Value
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings
from hermes.sre.health import HealthCheckResult, RunHealthChecks, run_health_round
from hermes.sre.probes.alerts import alert_fingerprint, read_firing_alerts
from hermes.sre.probes.inventory import InventoryStore, without_service
from hermes.sre.probes.probe import COMPARING_KINDS, HOST_KINDS, Probe
from hermes.sre.probes.probe_list import build_probe_list
from hermes.sre.probes.scheduler import ProbeScheduler
from hermes.sre.reports.report_data import list_incidents

JOURNAL_CHECK = "journal"
CHECK_STATES = {"fine": True, "failing": False, "unknown": None}


def probe_rounds(scheduler: ProbeScheduler) -> RunHealthChecks:
    async def once() -> Sequence[HealthCheckResult]:
        found = await scheduler.run_once()
        about_host = {each.name for each in scheduler.probes if each.kind in HOST_KINDS}
        return [
            HealthCheckResult(
                name=each.probe,
                ok=CHECK_STATES[each.state],
                detail=each.detail,
                about_host=each.probe in about_host,
            )
            for each in found
        ]

    return once


async def check_health_now(
    loaded: LoadedSettings, folder: Path
) -> tuple[HealthChecked, Sequence[HealthCheckResult], AdmittedProbes]:
    """Run one round of checks by hand and record it like any other; a problem of the journal is one
    of its findings."""
    from hermes.app.policy import LazyPolicy, is_run_active
    from hermes.app.tools.tooling import configured_environment
    from hermes.memory.journal.in_memory import InMemoryJournal

    settings = loaded.settings.sre
    async with configured_environment(loaded, folder) as environment:
        policy, known = (
            LazyPolicy(loaded, folder, isolated=environment.isolated),
            declared_probes(loaded),
        )
        store = InventoryStore(loaded.home, environment.target)
        probe_list = await build_probe_list(
            environment, store, settings.probes, declared=known, http_timeout_s=0.5
        )
        asked = await select_admitted_probes(
            loaded, probe_list, policy, environment, found_now=known is None
        )
        nowhere = Bus(InMemoryJournal())  # a single check sends no notification
        scheduler = ProbeScheduler(
            asked.probes, environment, nowhere, home=loaded.home, settings=settings.probes
        )
        checked, found = await run_health_round(probe_rounds(scheduler), settings.health.timeout)
    compared = {
        each.name: alert_fingerprint(each, environment)
        for each in asked.probes
        if each.kind in COMPARING_KINDS
    }
    firing = await _read_firing_alerts(loaded) if compared else {}
    watched = is_run_active(loaded, WATCH_RUN)
    results = [
        _with_alert(each, firing.get(compared.get(each.name, "")), watched=watched)
        for each in found
    ]
    asked = replace(asked, learned=read_learned_checks(loaded, environment.target))
    results += learned_results(asked.learned) if watched else []
    checked = _with_results(checked, results)
    services = {each.name: each.service for each in asked.probes}
    for at, each in enumerate(results):
        if not each.ok and (why := asked.missing.get(services.get(each.name, ""))):
            results[at] = replace(each, detail=f"{each.detail}; {why}")
    if problem := await _record(loaded, checked):
        checked = _with_journal(checked)
        results = [*results, HealthCheckResult(name=JOURNAL_CHECK, ok=False, detail=problem)]
    return checked, results, asked


async def _read_firing_alerts(loaded: LoadedSettings) -> dict[str, AlertRaised]:
    """Return what the watch has reported and not resolved; nothing when the journal cannot be
    read."""
    from hermes.memory.store import open_journal

    try:
        async with open_journal(loaded.store) as journal:
            return await read_firing_alerts(journal)
    except StoreError:
        return {}


def _with_alert(
    result: HealthCheckResult, alert: AlertRaised | None, *, watched: bool
) -> HealthCheckResult:
    """Return what a watch reported, where a single run cannot tell whether it is over."""
    if alert is None or not result.ok:
        return result
    since, reported = f"{alert.since or alert.at:%H:%M:%S} UTC", alert.text.partition("\n")[0]
    if watched:
        return replace(result, ok=False, detail=f"{reported} (reported by the watch since {since})")
    detail = f"failing since {since} when a watch ran last: {reported}"
    return replace(result, ok=None, detail=detail)


def _with_results(checked: HealthChecked, results: Sequence[HealthCheckResult]) -> HealthChecked:
    failing = tuple(each.name for each in results if each.ok is False)
    unknown = tuple(each.name for each in results if each.ok is None)
    return replace(checked, ok=not failing and not unknown, failing=failing, unknown=unknown)


async def _record(loaded: LoadedSettings, checked: HealthChecked) -> str:
    """The problem of the journal; empty when it can be written and its disk has space."""
    from hermes.memory.store import open_journal

    try:
        async with open_journal(loaded.store) as journal:
            problem = await _reserve_in_use(journal)
            found = _with_journal(checked) if problem else checked
            await Bus(journal, clean=SecretRedactor(loaded).clean_event).publish(found)
    except StoreError as error:
        return str(error)
    return problem


async def _reserve_in_use(journal: Journal) -> str:
    problem = ""
    async for recorded in journal.read(kinds=("reserve.released", "reserve.restored")):
        since = f"{recorded.event.at:%Y-%m-%d %H:%M:%S} UTC"
        problem = f"its disk is full: the watch uses its reserve since {since}; free some space"
        if isinstance(recorded.event, ReserveRestored):
            problem = ""
    return problem


def _with_journal(checked: HealthChecked) -> HealthChecked:
    return replace(checked, ok=False, failing=(*checked.failing, JOURNAL_CHECK))


async def forget_service(loaded: LoadedSettings, folder: Path, name: str) -> bool:
    """Return whether the service was known; in any case it is not probed any more."""
    from hermes.app.tools.tooling import configured_environment

    async with configured_environment(loaded, folder) as environment:
        store = InventoryStore(loaded.home, environment.target)
    known = name in store.load().services
    store.change(lambda before: without_service(before, name))
    return known


SETUP_HINT = "run `hermes setup` to choose one"
NO_MODEL_ANSWER = (
    f"I cannot answer that without a capable model; {SETUP_HINT}. Without one I only know what "
    "checks and the journal say about services, disks, memory, load, certificates, logs and "
    "incidents."
)
LIMITS_NOTE = (
    "This is all that the checks and the journal say. To explain, investigate or change something "
    f"I need a capable model; {SETUP_HINT}."
)
MAX_SHOWN_CHECKS = 20
MAX_SHOWN_INCIDENTS = 5
SERVICE_KINDS = ("port", "http", "unit", "answers", "postgres", "mysql", "redis", "sqlite")
"""Kinds of probes that can tell whether a service works."""
_SERVER_KINDS = ("postgres", "mysql", "redis", "sqlite")
"""Kinds that are also names of servers."""
TOPICS: Mapping[tuple[str, ...], str] = {
    ("disk", "inodes"): "disk disks space storage full filesystem filesystems inode inodes",
    ("memory",): "memory ram swap oom",
    ("cpu", "load", "processes", "zombies"): "cpu load busy processor processors zombies",
    ("tls", "certificate"): "certificate certificates cert certs tls ssl expire expires",
    ("log",): "log logs",
    SERVICE_KINDS: "service services port ports listening reachable",
}
"""Kinds of probes, and the words in a question that select them."""
INCIDENT_WORDS = "incident incidents outage outages alert alerts escalated escalation happened"
HEALTH_WORDS = "health healthy status state wrong problem problems trouble failing fails broken"
_GENERIC_WORD_LIST = """
    a an and any are check checks everything file for host how in is it log machine my not of on or
    root running server system that the there this tmp to up var what which with you
"""
_PAST_WORD_LIST = "was were did had who when stopped crashed failed yesterday ago"
_PAST_WORDS = frozenset(_PAST_WORD_LIST.split())
GENERIC_WORDS = frozenset(_GENERIC_WORD_LIST.split())
"""Words that name no service, although probes may have them in their names."""
_WORD = re.compile(r"[a-z0-9][a-z0-9_.@-]*[a-z0-9]|[a-z0-9]")
_SUBJECT = re.compile(
    r"\b(?:is|are|why is|has)\s+(?:the\s+|my\s+|our\s+)?(?P<name>[a-z][a-z0-9_.@-]*)\s+(?:\w+\s+)?"
    r"(?:running|run|up|down|alive|healthy|ok|okay|working|reachable|listening|fine|slow|broken"
    r"|dead|stopped|started|crashed)\b"
)
STATE_WORDS = {True: "fine", False: "FAILING", None: "unknown"}


class CheckRound(Value, kw_only=True, frozen=True):
    """The results of a round of checks, and the subject of each check."""

    looked: tuple[HealthCheckResult, ...]
    probes: tuple[Probe, ...]
    refused: tuple[str, ...] = ()

    def lines(self, wanted: Callable[[Probe], bool]) -> list[str]:
        """A line per check, failing ones first."""
        known = {probe.name: probe for probe in self.probes}
        found = [each for each in self.looked if each.name in known and wanted(known[each.name])]
        found.sort(key=lambda each: (each.ok is True, each.ok is None))
        more = len(found) - MAX_SHOWN_CHECKS
        lines = [_check_line(each) for each in found[:MAX_SHOWN_CHECKS]]
        return [*lines, f"- and {more} more: `hermes health --all`"] if more > 0 else lines


class ChecksModel:
    """A `Model` without a language model."""

    window = 100_000

    def __init__(self, name: str, loaded: LoadedSettings, folder: Path, journal: Journal) -> None:
        self.name = name
        self._loaded = loaded
        self._folder = folder
        self._journal = journal

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        asked = [
            message.text
            for message in messages
            if message.role == "user" and not message.text.startswith(SYSTEM_NOTE_PREFIX)
        ]
        text = await self._answer(asked[-1] if asked else "")
        return Completion(message=Message(role="assistant", text=text), model=self.name)

    async def _answer(self, question: str) -> str:
        words = frozenset(_WORD.findall(question.casefold()))
        subject = _SUBJECT.search(question.casefold())
        name = subject["name"] if subject and subject["name"] not in GENERIC_WORDS else ""
        kinds = frozenset(
            kind for each, of in TOPICS.items() if words & {*of.split()} for kind in each
        )
        wants_incidents = bool(words & {*INCIDENT_WORDS.split()})
        wants_health = bool(words & {*HEALTH_WORDS.split()})
        checked: CheckRound | None = None
        if not wants_incidents or kinds or name:
            checked = await self._check()
        named = (
            _named_probes(words - GENERIC_WORDS, checked.probes) if checked else frozenset[str]()
        )
        if not (kinds or named or wants_incidents or wants_health or subject):
            return NO_MODEL_ANSWER
        parts = [*self._from_checks(checked, kinds, name, named)] if checked else []
        past = ""
        if wants_incidents or words & _PAST_WORDS:
            past = await self._incidents_about(words - GENERIC_WORDS, titles=not wants_incidents)
        if past:
            parts.append(past)
        elif wants_incidents or wants_health or not parts:
            parts.append(await self._incidents())
        return "\n\n".join([*parts, LIMITS_NOTE])

    def _from_checks(
        self, checked: CheckRound, kinds: frozenset[str], name: str, named: frozenset[str]
    ) -> Iterator[str]:
        if name or named:
            yield _answer_about(checked, name, named)
        if kinds and (lines := checked.lines(lambda probe: probe.kind in kinds)):
            yield "\n".join(["Checks made just now:", *lines])
        elif kinds and not (name or named):
            about = ", ".join(sorted(kinds))
            yield f"No check on this host is about that ({about}). {_DISCOVER_HINT}"
        if not (kinds or name or named):
            yield _summarize_checks(checked)
        if checked.refused:
            yield f"{len(checked.refused)} checks were not run: the policy does not allow them."

    async def _check(self) -> CheckRound:
        _, results, asked = await check_health_now(self._loaded, self._folder)
        return CheckRound(looked=tuple(results), probes=asked.probes, refused=asked.refused)

    async def _incidents_about(self, words: frozenset[str], *, titles: bool) -> str:
        """The latest incidents of what the question names; empty without one. `titles`: also those
        that have one of the words in their title."""
        try:
            known = await list_incidents(self._journal)
        except StoreError as error:
            return f"The journal cannot be read, so I do not know about incidents: {error}"
        of = [each for each in known if words & _words_about(each.details, titles)]
        lines = map(_incident_line, reversed(of[-MAX_SHOWN_INCIDENTS:]))
        more = "`hermes incident show ID` has what is known of each."
        return "\n".join(["Incidents in the journal:", *lines, more]) if of else ""

    async def _incidents(self) -> str:
        try:
            known = await list_incidents(self._journal)
        except StoreError as error:
            return f"The journal cannot be read, so I do not know about incidents: {error}"
        open_ = [each for each in known if each.status in ("open", "escalated")]
        closed = [each for each in known if each not in open_]
        lines = [f"Open incidents in the journal: {len(open_) or 'none'}."]
        lines += map(_incident_line, reversed(open_[-MAX_SHOWN_INCIDENTS:]))
        if closed:
            lines.append("The latest that are over:")
            lines += map(_incident_line, reversed(closed[-MAX_SHOWN_INCIDENTS:]))
        return "\n".join(lines)


def _words_about(details: IncidentDetails, titles: bool) -> frozenset[str]:
    service = details.service.casefold()
    text = f"{service} {details.title.casefold()}" if titles else service
    return frozenset((service.removesuffix("-server"), *_WORD.findall(text)))


_DISCOVER_HINT = "`hermes watch --discover` looks for services and writes checks for them."


def _named_probes(words: frozenset[str], probes: Iterable[Probe]) -> frozenset[str]:
    """Names of probes that the question mentions: by service, or by a part of their own name."""
    found = set()
    for probe in probes:
        if probe.kind in HOST_KINDS:
            continue
        service = probe.service.casefold()
        parts = {service, service.removesuffix("-server"), probe.name, *probe.name.split("-")}
        if probe.kind not in _SERVER_KINDS:
            parts -= {probe.kind}
        if words & (parts - {*GENERIC_WORDS, ""}):
            found.add(probe.name)
    return frozenset(found)


def _answer_about(checked: CheckRound, name: str, named: frozenset[str]) -> str:
    lines = checked.lines(lambda probe: probe.name in named)
    telling = [
        p for p in checked.probes if p.name in named and p.kind in (*SERVICE_KINDS, "command")
    ]
    if not lines:
        return f"No check on this host is about {name}, so I do not know. {_DISCOVER_HINT}"
    if name and not telling:
        lines.append(f"No check says whether {name} works, so I do not know. {_DISCOVER_HINT}")
    return "\n".join(["Checks made just now:", *lines])


def _summarize_checks(checked: CheckRound) -> str:
    bad = [each for each in checked.looked if not each.ok]
    bad.sort(key=lambda each: each.ok is None)
    fine = len(checked.looked) - len(bad)
    lines = [f"{fine} of {len(checked.looked)} checks made just now are fine."]
    return "\n".join([*lines, *map(_check_line, bad[:MAX_SHOWN_CHECKS])])


def _check_line(looked: HealthCheckResult) -> str:
    return f"- {STATE_WORDS[looked.ok]}: {looked.detail or 'no detail'} [check {looked.name}]"


def _incident_line(incident: Incident) -> str:
    case = incident.details
    since = f"{case.opened_at:%Y-%m-%d %H:%M} UTC"
    return f"- {case.incident}: {incident.status}, {incident.severity}, since {since}: {case.title}"
