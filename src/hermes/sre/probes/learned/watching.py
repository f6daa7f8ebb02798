"""Connects learned checks with a watch: what it measures and sees, and which alerts it raises."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread
from msgspec.structs import replace

from hermes.sre.probes.evaluation import ProbeVerdict
from hermes.sre.probes.job_runs import JobRuns
from hermes.sre.probes.kinds.native_logs import is_log_file
from hermes.sre.probes.kinds.native_services import listening_sockets
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import (
    LEARNED_KIND,
    LearnedVerdict,
    Observation,
    SubjectState,
    check_name,
)
from hermes.sre.probes.learned.store import LearnedStore
from hermes.sre.probes.probe import PROVISIONAL_LABEL, Probe, probe_name
from hermes.sre.probes.probe_runner import ProbeResult

QUEUE_WORDS = re.compile(
    r"(?:^|[-_.])(?:queue|queues|spool|inbox|outbox|incoming|backlog|pending|mqueue|maildrop)"
    r"(?:$|[-_.])",
    re.IGNORECASE,
)
"""Names of folders in which jobs wait."""
MAX_QUEUE_ENTRIES = 50_000
MAX_QUEUES = 4
"""Queue folders of one service."""
REFRESH_S = 600.0
"""Seconds after which the processes and queue folders of all services are found again."""
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup/system.slice")
_PATH = re.compile(r"/[\w./@+-]{2,200}")
_PORT = re.compile(r"(?:^|:)(\d{2,5})(?:/|$)")
_TICKS, _PAGE_KB = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") // 1024


class ProcessMeasures(NamedTuple):
    started_at: float
    memory_kb: float
    cpu_s: float
    descriptors: float | None


class _ServiceParts(NamedTuple):
    pids: tuple[int, ...]
    queues: tuple[str, ...]


class HostMeasures:
    """Remembers which processes belong to which service, and when each last used a processor."""

    def __init__(self) -> None:
        self._parts: dict[str, _ServiceParts] = {}
        self._found_at = 0.0
        self._found_for: tuple[str, ...] = ()
        self._cpu: dict[str, tuple[float, float]] = {}
        """Processor time of each service, and when it last changed."""
        self._jobs = JobRuns()

    def observe(self, probes: Sequence[Probe], now: float | None = None) -> list[Observation]:
        """Blocks for some milliseconds, or as long as a mount hangs: call it in a thread."""
        at = time.time() if now is None else now
        services = tuple(sorted({each.service for each in probes if each.service}))
        old = at - self._found_at > REFRESH_S or services != self._found_for
        if old or any(not _alive(parts.pids) for parts in self._parts.values()):
            self._parts = find_service_parts(probes)
            self._found_at, self._found_for = at, services
        found = [*self._process_observations(at)]
        for service, parts in self._parts.items():
            for folder in parts.queues:
                if (count := count_entries(folder)) is not None:
                    subject = probe_name("queue", folder)
                    found.append(
                        Observation(
                            subject=subject, service=service, at=at, values={"queue": float(count)}
                        )
                    )
        found += [
            Observation(subject=job.name, service=job.service, at=at, values={"runs": passed_s})
            for job, passed_s in self._jobs.observe(probes, at)
        ]
        return [*found, *log_observations(probes, at)]

    def _process_observations(self, at: float) -> Iterator[Observation]:
        for service, parts in self._parts.items():
            measured = measure_processes(parts.pids)
            if measured is None:
                continue
            before = self._cpu.get(service)
            if before is None or before[0] != measured.cpu_s:
                self._cpu[service] = before = (measured.cpu_s, at)
            values = {"memory": measured.memory_kb, "standstill": at - before[1]}
            if measured.descriptors is not None:
                values["descriptors"] = measured.descriptors
            yield Observation(
                subject=probe_name("process", service),
                service=service,
                at=at,
                values=values,
                started_at=measured.started_at,
            )


def log_observations(probes: Iterable[Probe], at: float) -> Iterator[Observation]:
    """Return how long each log was silent. The journal of systemd is not asked: it needs a
    program."""
    for probe in probes:
        if probe.kind != "log" or not is_log_file(probe):
            continue
        with suppress(OSError):
            silent_s = max(0.0, at - os.stat(probe.what).st_mtime)  # noqa: PTH116 - twice as fast
            yield Observation(
                subject=probe.name, service=probe.service, at=at, values={"silence": silent_s}
            )


def find_service_parts(probes: Sequence[Probe]) -> dict[str, _ServiceParts]:
    """The processes of each service, by its unit or its port, and the queue folders they name."""
    sockets: dict[str, set[str]] = {}
    listening = listening_sockets()
    pids: dict[str, set[int]] = {}
    for probe in probes:
        if not probe.service:
            continue
        if probe.kind == "unit":
            pids.setdefault(probe.service, set()).update(_unit_pids(probe.what))
        elif probe.kind in ("port", "http") and (port := _local_port(probe)):
            sockets.setdefault(probe.service, set()).update(listening.get(port, ()))
    wanted = {service: inodes for service, inodes in sockets.items() if not pids.get(service)}
    for service, found in _socket_owners(wanted).items():
        pids.setdefault(service, set()).update(found)
    return {
        service: _ServiceParts(tuple(sorted(found)), find_queue_folders(service, sorted(found)))
        for service, found in pids.items()
        if found
    }


def _unit_pids(unit: str) -> Iterator[int]:
    name = unit if "." in unit else f"{unit}.service"
    with suppress(OSError):
        text = (_CGROUPS / name / "cgroup.procs").read_text()
        yield from (int(line) for line in text.split() if line.isdigit())


def _local_port(probe: Probe) -> int | None:
    if probe.kind == "http" and "//127.0.0.1" not in probe.what and "localhost" not in probe.what:
        return None
    found = _PORT.search(probe.what.partition("//")[2] or probe.what)
    return int(found[1]) if found else None


def _socket_owners(wanted: Mapping[str, set[str]]) -> dict[str, set[int]]:
    """The processes that hold the sockets; only those that this user may look into."""
    services = {inode: service for service, inodes in wanted.items() for inode in inodes}
    found: dict[str, set[int]] = {}
    if not services:
        return found
    for pid in os.listdir(_PROC):  # noqa: PTH208 - twice as fast
        if not pid.isdigit():
            continue
        with suppress(OSError):
            for name in os.listdir(_PROC / pid / "fd"):  # noqa: PTH208
                with suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                    service = services.get(link.removeprefix("socket:[").rstrip("]"))
                    if service is not None:
                        found.setdefault(service, set()).add(int(pid))
    return found


def _alive(pids: Sequence[int]) -> bool:
    return all((_PROC / str(pid)).exists() for pid in pids[:1])


def measure_processes(pids: Sequence[int]) -> ProcessMeasures | None:
    """The sums of all processes, and when the oldest started; None when all have ended."""
    started, memory, cpu, descriptors = [], 0.0, 0.0, 0
    readable = True
    for pid in pids:
        try:
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            continue
        started.append(int(fields[19]) / _TICKS)
        cpu += (int(fields[11]) + int(fields[12])) / _TICKS
        memory += pages * _PAGE_KB
        try:
            descriptors += len(os.listdir(_PROC / str(pid) / "fd"))  # noqa: PTH208
        except OSError:
            readable = False
    if not started:
        return None
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return ProcessMeasures(
        started_at=round(booted + min(started), 0),
        memory_kb=memory,
        cpu_s=round(cpu, 2),
        descriptors=float(descriptors) if readable else None,
    )


def find_queue_folders(service: str, pids: Sequence[int]) -> tuple[str, ...]:
    """Folders for waiting jobs that a service names in its command line or environment, that lie
    in its working folder, or that are the spool of its name."""
    paths = [f"/var/spool/{service}"]
    for pid in pids[:3]:
        base = _PROC / str(pid)
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                paths += _PATH.findall((base / name).read_text(errors="replace"))
        with suppress(OSError):
            cwd = os.readlink(base / "cwd")  # noqa: PTH115
            if cwd != "/":
                with os.scandir(cwd) as entries:
                    paths += [each.path for each in entries]
    found = (
        path.rstrip("/")
        for path in paths
        if path.startswith("/var/spool/") or any(map(QUEUE_WORDS.search, path.split("/")))
    )
    folders = [path for path in dict.fromkeys(found) if Path(path).is_dir()]
    return tuple(folders[:MAX_QUEUES])


def count_entries(folder: str) -> int | None:
    """Files in the folder and one level below; None when it cannot be read."""
    count = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    with suppress(OSError), os.scandir(entry.path) as inner:
                        count += sum(not each.is_dir(follow_symlinks=False) for each in inner)
                else:
                    count += 1
                if count >= MAX_QUEUE_ENTRIES:
                    break
    except OSError:
        return None
    return count


SAVE_EVERY_S = 300.0
OBSERVE_EVERY_S = 60.0
WARNING_KINDS = ("config", "forecast", "tls", "certificate")
"""Kinds whose failures say nothing about how a service works now."""


class LearnedObserver:
    """Gets each result of a probe, and measures the services of this host once a minute."""

    def __init__(
        self,
        store: LearnedStore,
        *,
        local: bool,
        off: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._now = store, now
        self._checks = LearnedChecks(store.load(), off)
        self._host = HostMeasures() if local else None
        self._failing: dict[str, str] = {}
        """The service of each probe that fails now."""
        self._saved_at = now()
        self._reported = {each.check for each in self.reported()}
        self.watched_probes: Sequence[Probe] = ()

    def reported(self) -> Iterator[LearnedVerdict]:
        """The checks that were failing when the state was stored."""
        for each in self._checks.checks():
            if each.failing and each.reports:
                yield LearnedVerdict(
                    check=each.name, service=each.service, failing=True, detail=each.detail
                )

    def observe_result(
        self, probe: Probe, result: ProbeResult, verdict: ProbeVerdict
    ) -> tuple[LearnedVerdict, ...]:
        if verdict.state == "failing" and probe.kind not in WARNING_KINDS:
            self._failing[probe.name] = probe.service
        else:
            self._failing.pop(probe.name, None)
        seen = observation_of(probe, result, self._now())
        if seen is None or verdict.state != "fine":
            return ()
        return self._observe([seen])

    async def observe_host(self, probes: Sequence[Probe]) -> tuple[LearnedVerdict, ...]:
        """Measure once. A mount that hangs delays only this."""
        self._store.refresh_marks(self._checks.state)
        self.watched_probes = probes
        if self._host is None:
            return ()
        lasting = [each for each in probes if PROVISIONAL_LABEL not in each.labels]
        seen = await to_thread.run_sync(self._host.observe, lasting, abandon_on_cancel=True)
        return self._observe(seen)

    def _observe(self, seen: Sequence[Observation]) -> tuple[LearnedVerdict, ...]:
        found: list[LearnedVerdict] = []
        failing = {*self._failing.values()}
        for each in seen:
            healthy = each.service not in failing if each.service else not failing
            found += self._checks.observe(replace(each, healthy=healthy))
        reported = self._reported - {each.check for each in found if not each.failing}
        reported |= {each.check for each in found if each.failing}
        if reported != self._reported or abs(self._now() - self._saved_at) >= SAVE_EVERY_S:
            self._reported = reported
            self.save()
        return tuple(found)

    def save(self) -> None:
        self._saved_at = self._now()
        self._store.save(self._checks.state)

    def subjects(self) -> Mapping[str, SubjectState]:
        return self._checks.state.subjects

    def can_report(self, subject: str, measure: str) -> bool:
        return self._checks.raises_alerts(check_name(subject, measure))

    async def measure_now(self, probes: Sequence[Probe]) -> Sequence[Observation]:
        if self._host is None:
            return ()
        return await to_thread.run_sync(HostMeasures().observe, probes, abandon_on_cancel=True)


def observation_of(probe: Probe, result: ProbeResult, at: float) -> Observation | None:
    """Return what a result says about behaviour; None for kinds that say nothing."""
    if PROVISIONAL_LABEL in probe.labels:
        return None
    values: dict[str, float] = {}
    if probe.kind == "http" and result.value is not None:
        values["latency"] = result.value
        if result.facts is not None:
            values["size"] = float(result.facts.size)
    elif probe.kind == "log" and result.value is not None:
        values["errors"] = result.value
    if not values:
        return None
    return Observation(
        subject=probe.name, service=probe.service, at=at, values=values, answer=result.facts
    )


def learned_probe(verdict: LearnedVerdict) -> Probe:
    """The probe under whose name a learned check raises alerts; it is never run."""
    return Probe(
        name=verdict.check,
        kind=LEARNED_KIND,
        service=verdict.service,
        fails=1,
        severity=verdict.severity,
    )


def probe_verdict(verdict: LearnedVerdict) -> ProbeVerdict:
    return ProbeVerdict(
        probe=verdict.check,
        state="failing" if verdict.failing else "fine",
        detail=verdict.detail,
        question=verdict.question,
    )
