"""Runs checks with a timeout each, and selects the probes that concern an incident."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio
from msgspec.structs import replace

from hermes.core.errors import EnvironmentFailed, innermost_error
from hermes.core.incident import IncidentDetails
from hermes.core.messages import Value
from hermes.core.protocols import Environment
from hermes.core.run_ids import new_id
from hermes.skills.playbook.commands import ExecuteCall, find_unmet_expectation, run_command
from hermes.skills.playbook.schema import PlaybookCheck
from hermes.sre.probes.discovery import discover_probes
from hermes.sre.probes.evaluation import ProbeVerdict, judge_probe
from hermes.sre.probes.probe import STATE_LABEL, Probe
from hermes.sre.probes.probe_runner import ProbeResult, run_probes
from hermes.sre.settings import ProbeSettings

ResultT = TypeVar("ResultT")
TIMEOUT_GRACE_S = 2.0
"""Seconds for the environment to stop a command after its timeout."""
MAX_CHECKS = 16
MAX_PAGES = 3
_PAGES = re.compile(
    r"\"(?:GET|HEAD) (/[\w./~%+-]*) HTTP|\bERROR:? (?:in )?(?:GET )?(/[\w./~%+-]*):", re.I
)
_REFUSED = re.compile(r"\bstatus (?:is )?(?:403|5\d\d)\b")
MIN_NAMED_CHARS = 4
"""A shorter name of a probe says nothing in a text: a port may be any number."""
_MAX_GUARD_UNITS = 6
"""Healthy units that are checked for side effects of a fix."""
_SERVICE_LABELS = ("service", "job", "unit", "name", "app", "container", "check")
_SPACE_WORDS = re.compile(
    r"disk|space|full|inode|file ?system|volume|upload|stor(e|ing)|write", re.I
)
_TLS_WORDS = re.compile(r"tls|ssl|cert|https|handshake|expir", re.I)
_LATENCY_WORDS = re.compile(r"slow|latency|p9\d|response time|takes too long", re.I)
_CPU_WORDS = re.compile(r"\bcpu\b|saturat|busy|burn(s|ing)? a core|load average", re.I)
_JOB_WORDS = re.compile(r"cron|job|backup|nightly|schedul|stale|fresh|report|renew", re.I)
_ADDRESSES = re.compile(r"\b\w+://\S+|(?<![\w)\]`'\"])[~.]{0,2}/[\w.@+-]+(?:/[\w.@+-]*)*")
"""URLs and absolute paths."""
FILE_PROBE_KINDS = ("certificate", "cron", "log")
"""Kinds of probes that read a file which a fix may write: no evidence."""
_UNIT_RUNS = re.compile(r"\bis (active|reloading)\b")
_NO_RECENT_REQUESTS = re.compile(r"\bof 0 recent answers\b|\bno recent requests\b")


class CheckResult(Value, kw_only=True, frozen=True):
    check: str
    ok: bool
    unknown: bool = False
    """It could not be run: neither passed nor failed."""
    detail: str = ""
    call_id: str = ""
    service: str = ""
    """The service that it concerns, where known."""
    proves: bool = True
    """False where a pass is no evidence of a fix: a restart resets the counter that it reads, or
    its log has nothing new."""
    counter: bool = False
    """It fails because of a restart count: evidence only once the unit runs longer than before."""
    past_answers: bool = False
    """It reads what the service answered to users: nothing while it does not answer."""


async def run_check(
    check: PlaybookCheck, execute: ExecuteCall, *, timeout: float = 10.0
) -> CheckResult:
    timeout_s = min(check.timeout, timeout)
    end = await run_command(
        execute, check.command, timeout_s, id=new_id("look"), grace_s=TIMEOUT_GRACE_S
    )
    if end.status != "ok":
        why = f"could not be asked: {end.output[:200]}"
    elif end.timed_out:
        why = f"gave no answer within {timeout_s:g} s"
    else:
        why = find_unmet_expectation(end, check.expect)
    detail = why or _last_line(end.output)
    return CheckResult(check=check.name, ok=not why, detail=detail, call_id=end.call_id)


async def run_checks(
    checks: Sequence[PlaybookCheck], execute: ExecuteCall, *, timeout: float = 10.0
) -> list[CheckResult]:
    return await run_concurrently(
        [partial(run_check, check, execute, timeout=timeout) for check in checks]
    )


async def run_concurrently(
    jobs: Sequence[Callable[[], Awaitable[ResultT]]], at_once: int = 8
) -> list[ResultT]:
    """The results in the order of the jobs. An error is raised as it is, not in a group."""
    semaphore, results = anyio.Semaphore(max(1, at_once)), dict[int, ResultT]()

    async def one(number: int, job: Callable[[], Awaitable[ResultT]]) -> None:
        async with semaphore:
            results[number] = await job()

    try:
        async with anyio.create_task_group() as group:
            for number, job in enumerate(jobs):
                group.start_soon(one, number, job)
    except ExceptionGroup as errors:
        raise innermost_error(errors) from errors
    return [results[number] for number in range(len(jobs))]


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:120] if lines else "as expected"


def relevant_probes(details: IncidentDetails, probes: Sequence[Probe]) -> tuple[Probe, ...]:
    words = details.facts.combined_text
    ports = _named_ports(details)
    services = _named_services(details, probes, ports)
    near = {each.service for each in probes if ports & set(_ports_of(each))}
    own = [
        _with_latency_limit(each, words)
        for each in probes
        if _is_relevant(each, services, words) or ports & set(_ports_of(each))
    ]
    if _CPU_WORDS.search(words):
        own += [_unit_cpu_probe(each) for each in own if each.kind == "unit" and not each.status]
    others = [
        each
        for each in probes
        if each.kind == "unit" and each.service and each.service not in services | near
    ]
    broken = [each for each in others if each.labels.get(STATE_LABEL) == "failing"]
    if not any(each.service in services for each in own):
        own += broken  # the alert names no known service: any failed unit may be the cause
    guards = [each for each in others if each.labels.get(STATE_LABEL) != "failing"]
    whole = [each for each in probes if _is_host_wide(each, words)]
    return tuple({each.name: each for each in (*own, *whole, *guards[:_MAX_GUARD_UNITS])}.values())


def _named_ports(details: IncidentDetails) -> frozenset[str]:
    return frozenset(re.findall(r":(\d{2,5})\b", details.facts.combined_text))


def _named_services(
    details: IncidentDetails, probes: Sequence[Probe], ports: frozenset[str]
) -> frozenset[str]:
    """The services that the alert is about: by name or label, else by port; and all in its text.

    A name takes precedence over a port: another service may have taken the port.
    """
    words = details.facts.combined_text
    named = {details.service, *(details.labels.get(key, "") for key in _SERVICE_LABELS)} - {""}
    named |= {each.removesuffix(".service") for each in named}
    known = {each.service for each in probes if each.service}
    mentioned = mentioned_services(words, known)
    if known & named:
        return frozenset(named) | mentioned
    if at := {each.service for each in probes if each.service and ports & set(_ports_of(each))}:
        return frozenset(at | named) | mentioned
    return mentioned


def mentioned_services(text: str, known: Collection[str]) -> frozenset[str]:
    """Return the services whose name stands in the text as a word of its own: not in an address, a
    path, a file name or another name."""
    words = _ADDRESSES.sub(" ", text)
    return frozenset(
        each
        for each in known
        if re.search(
            rf"(?<![\w.-]){re.escape(each)}(?:\.service)?(?![\w-]|\.\w)", words, re.IGNORECASE
        )
    )


def _ports_of(probe: Probe) -> Iterator[str]:
    if probe.kind in ("port", "http", "tls", "postgres", "redis", "mysql"):
        yield from re.findall(
            r"(?:^|:)(\d{2,5})(?:/|$)", probe.what.partition("//")[2] or probe.what
        )


def _is_relevant(probe: Probe, services: frozenset[str], words: str) -> bool:
    if probe.kind in ("log", "certificate"):
        return probe.kind == "certificate" and bool(_TLS_WORDS.search(words))
    if probe.kind == "cron":
        named = any(name in probe.what for name in services)
        return named or bool(_JOB_WORDS.search(words))
    if probe.kind in ("postgres", "redis", "mysql"):
        return True
    return bool(probe.service) and probe.service in services


def _with_latency_limit(probe: Probe, words: str) -> Probe:
    if probe.kind == "http" and probe.limit is None and _LATENCY_WORDS.search(words):
        return replace(probe, limit=1.0)
    return probe


def _unit_cpu_probe(unit: Probe) -> Probe:
    name = f"cpu-{unit.name}"[:48]
    return Probe(name=name, kind="cpu", what=unit.what, service=unit.service, limit=50.0)


def _is_host_wide(probe: Probe, words: str) -> bool:
    """A disk that was full before counts only if the alert is about space."""
    if probe.kind not in ("disk", "inodes"):
        return False
    return probe.labels.get(STATE_LABEL) != "failing" or bool(_SPACE_WORDS.search(words))


IndependentChecks = Callable[[], Awaitable[Sequence[CheckResult]]]
"""Runs all checks that concern an incident, independent of any fix."""


class AdditionalChecks(Protocol):
    """Checks that judge the results of probes further, such as learned ones."""

    async def __call__(
        self, probes: Sequence[Probe], results: Mapping[str, ProbeResult]
    ) -> Sequence[CheckResult]: ...

    def on_copy(self) -> "AdditionalChecks":
        """Those that need nothing but results of probes: a copy cannot be measured otherwise."""
        ...

    def names_for(self, probe: Probe) -> Collection[str]:
        """The names that checks of the results of this probe may have."""
        ...


async def open_independent_checks(
    details: IncidentDetails,
    environment: Environment,
    probes: Sequence[Probe] = (),
    more: AdditionalChecks | None = None,
) -> IndependentChecks:
    """The probes of the watch; where none is relevant, probes discovered on the host."""
    relevant, known = relevant_probes(details, probes), tuple(probes)
    if not any(each.service for each in relevant):
        known += (await discover_probes(environment)).probes
        relevant = relevant_probes(details, known)
    text = details.facts.combined_text
    pages = await _failing_pages(environment, page_probes(text, relevant or probes))
    if not pages:
        pages = await _failing_pages(environment, same_page_probes(relevant, known), relevant)
    chosen = (*pages, *named_first(text, relevant))[:MAX_CHECKS]
    return checks_of_probes(chosen, environment, more)


def same_page_probes(relevant: Sequence[Probe], known: Sequence[Probe]) -> tuple[Probe, ...]:
    """The pages of the named service as other servers serve them: a proxy may fail where the
    service behind it does not."""
    pages = {_page_of(each) for each in relevant} - {"", "/", "/health"}
    names = {each.name for each in relevant}
    return tuple(each for each in known if _page_of(each) in pages and each.name not in names)


def _page_of(probe: Probe) -> str:
    """Return the page that a probe asks for; empty when it asks for none."""
    return f"/{probe.what.partition('//')[2].partition('/')[2]}" if probe.kind == "http" else ""


def page_probes(text: str, probes: Sequence[Probe]) -> tuple[Probe, ...]:
    """Make probes for pages that a log in the alert names: perhaps no other check asks for them.
    Servers that the alert names come first."""
    pages = list(dict.fromkeys(path for found in _PAGES.findall(text) for path in found if path))
    servers: dict[str, str] = {}
    for each in sorted(probes, key=lambda each: each.service not in text):
        if each.kind == "http" and each.service:
            servers.setdefault("/".join(each.what.split("/")[:3]), each.service)
    return tuple(
        Probe(
            name=re.sub(r"\W+", "-", f"page-{server.rpartition(':')[2]}{page}")[:48].strip("-"),
            kind="http",
            what=f"{server}{page}",
            service=service,
            status="<400",
        )
        for page in pages[:MAX_PAGES]
        for server, service in list(servers.items())[:MAX_PAGES]
    )


async def _failing_pages(
    environment: Environment, probes: Sequence[Probe], unless: Sequence[Probe] = ()
) -> tuple[Probe, ...]:
    """Return the pages that a server refuses or fails to answer now. Return none where a page of
    `unless` fails: then other checks see the fault."""
    if not probes:
        return ()
    others = [each for each in unless if each.kind == "http"]
    results = await checks_of_probes((*probes, *others), environment)()
    if any(not each.ok for each in results[len(probes) :]):
        return ()
    failing = {each.check for each in results if _REFUSED.search(each.detail) and not each.ok}
    return tuple(each for each in probes if each.name in failing)


def named_first(text: str, probes: Sequence[Probe]) -> tuple[Probe, ...]:
    """Sort those that the text of the alert names, by name, address or path, before all others."""
    named = [each for each in probes if _is_named(text, each.name) or _is_named(text, each.what)]
    return (*named, *(each for each in probes if each not in named))


def _is_named(text: str, words: str) -> bool:
    """Return whether the text contains the name as a whole, not as a part of another name."""
    if len(words) < MIN_NAMED_CHARS:
        return False
    return re.search(rf"(?<![\w./-]){re.escape(words)}(?![\w-]|[./]\w)", text) is not None


class ProbeChecks:
    """Runs probes as the independent checks of an incident."""

    def __init__(
        self,
        probes: Sequence[Probe],
        environment: Environment,
        more: AdditionalChecks | None = None,
    ) -> None:
        self.probes, self._environment, self._more = tuple(probes), environment, more
        self._only: Collection[str] | None = None

    async def __call__(self) -> Sequence[CheckResult]:
        settings = ProbeSettings()
        try:
            results = await run_probes(self._environment, self.probes)
        except EnvironmentFailed as error:
            return [
                CheckResult(check=each.name, ok=False, detail=str(error)) for each in self.probes
            ]
        found = [
            check_result_of(each, judge_probe(each, results[each.name], (), settings))
            for each in self.probes
        ]
        if self._more is not None:
            found += await self._more(self.probes, results)
        return [each for each in found if self._only is None or each.check in self._only]

    def with_probes(self, probes: Sequence[Probe]) -> "ProbeChecks":
        return ProbeChecks((*self.probes, *probes), self._environment, self._more)

    def in_environment(self, environment: Environment, names: Collection[str]) -> "ProbeChecks":
        """Some of the checks in another environment, such as a copy of the host."""
        more = self._more.on_copy() if self._more is not None else None
        chosen = [
            each
            for each in self.probes
            if each.name in names or (more and not set(names).isdisjoint(more.names_for(each)))
        ]
        found = ProbeChecks(chosen, environment, more)
        found._only = names
        return found


def checks_of_probes(
    probes: Sequence[Probe], environment: Environment, more: AdditionalChecks | None = None
) -> IndependentChecks:
    return ProbeChecks(probes, environment, more)


def check_result_of(probe: Probe, verdict: ProbeVerdict) -> CheckResult:
    return CheckResult(
        check=verdict.probe,
        ok=verdict.state == "fine",
        unknown=verdict.state == "unknown",
        detail=verdict.detail[:200],
        service=probe.service,
        proves=_is_evidence(probe, verdict),
        counter=_is_restart_count(probe, verdict),
        past_answers=probe.kind == "answers",
    )


def _is_evidence(probe: Probe, verdict: ProbeVerdict) -> bool:
    """Return whether its result depends on the problem, and not on side effects of a fix."""
    if probe.kind in FILE_PROBE_KINDS:
        return False
    if _is_restart_count(probe, verdict):  # another restart resets it
        return False
    if probe.kind == "answers":  # without requests nothing shows that it works
        return verdict.state != "fine" or not _NO_RECENT_REQUESTS.search(verdict.detail)
    return True


def _is_restart_count(probe: Probe, verdict: ProbeVerdict) -> bool:
    """Return whether it fails because a running unit was restarted."""
    failing = probe.kind == "unit" and verdict.state == "failing"
    return failing and _UNIT_RUNS.search(verdict.detail) is not None
