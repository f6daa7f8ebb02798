"""Runs probes of this host without a shell, with the same results at far lower cost.

In a shell each probe starts several processes; on an idle host that is most of the cost of a watch.
Where the environment is this host, the kinds below run in this process. All others, and other
environments, use the shell.
"""

import asyncio
import functools
import math
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from hermes.core.protocols import Environment
from hermes.sre.probes.answer_facts import AnswerFacts
from hermes.sre.probes.kinds import native_logs
from hermes.sre.probes.kinds.native_services import (
    NativeAnswer,
    error_text,
    listening_sockets,
    probe_http,
    probe_port,
    probe_postgres,
    probe_redis,
)
from hermes.sre.probes.probe import DEFAULT_LIMITS, QUESTION_EXIT_CODE, UNKNOWN_EXIT_CODE, Probe

LOCAL_ENVIRONMENT = "local"
"""The name of the environment that is this host."""
TIMEOUT_EXIT_CODE = 124
"""The exit code of `timeout`."""
MAX_TIMEOUT_FACTOR = 4.0
"""A probe on an overloaded host gets at most so many times its timeout."""
CPU_SAMPLE_S = 0.3
STUCK_RECHECK_S = 0.1
"""Seconds between two checks whether an earlier run has ended."""
MIN_FREE_KB = 1024
MAX_PROCESSES_PERCENT = 80.0
MOUNTED_STATE = "mounted"
HOME_DISK_PROBE = "home-disk"
"""The name of the probe that every watch of this host has."""
_NOT_IN_FSTAB = "and /etc/fstab does not ask for it"
_PROC = Path("/proc")


def can_run_natively(environment: Environment, probe: Probe, before: str | None) -> bool:
    """Return whether this probe needs no shell here. `before` is None for a single run."""
    if environment.name != LOCAL_ENVIRONMENT:
        return False
    if probe.kind == "log":
        return before is not None and native_logs.can_read_log(probe)
    if probe.kind == "answers":
        return native_logs.is_log_file(probe)
    if probe.kind == "http":
        at = urlsplit(probe.what)
        return bool(at.hostname) and "@" not in at.netloc
    if probe.kind == "postgres":
        return not probe.labels.get("user")
    return probe.kind in ("port", *_ASYNC_PROBES) or (
        probe.kind in _BLOCKING_PROBES and not _is_unit_cpu(probe)
    )


def listening_ports() -> frozenset[int]:
    """TCP ports of this host that accept connections now."""
    return frozenset(listening_sockets())


def with_home_disk(probes: Sequence[Probe], home: Path) -> tuple[Probe, ...]:
    """Add a probe for the file system of the home folder, unless a disk probe covers it.

    On a full disk the journal cannot be written, so it is always an incident.
    """
    try:
        device, mount = _mount_of(home)
        covered = any(
            each.kind == "disk" and _mount_of(Path(each.what or "/"))[0] == device
            for each in probes
        )
    except OSError:  # reported by the journal itself
        return tuple(probes)
    if covered or any(each.name == HOME_DISK_PROBE for each in probes):
        return tuple(probes)
    return (*probes, Probe(name=HOME_DISK_PROBE, kind="disk", what=str(mount)))


def without_own_logs(probes: Sequence[Probe], own: Sequence[Path]) -> tuple[Probe, ...]:
    """Leave out logs that Hermes writes: each notification there would be an error of the host.

    `own`: files, and folders with all that is in them.
    """
    roots = tuple(Path(os.path.realpath(each)) for each in own)

    def is_own(probe: Probe) -> bool:
        if probe.kind not in ("log", "answers") or not probe.what.startswith("/"):
            return False
        return any(Path(os.path.realpath(probe.what)).is_relative_to(root) for root in roots)

    return tuple(each for each in probes if not is_own(each))


def _mount_of(path: Path) -> tuple[int, Path]:
    """The device and the mount point of a path, or of its nearest existing parent."""
    at = Path(os.path.realpath(path))
    while not at.exists():
        at = at.parent
    device = at.stat().st_dev
    while at != at.parent and at.parent.stat().st_dev == device:
        at = at.parent
    return device, at


def _is_unit_cpu(probe: Probe) -> bool:
    return probe.kind == "cpu" and bool(probe.what)


@contextmanager
def _limited_time(seconds: float, wait_clock: Callable[[], float]) -> Iterator[None]:
    """Cancel the block after so long. Time without a processor is no time in which it hung."""
    loop, waited_before = asyncio.get_running_loop(), wait_clock()
    began = loop.time()
    timer: asyncio.TimerHandle

    def check_time() -> None:
        nonlocal timer
        limit = min(seconds + wait_clock() - waited_before, seconds * MAX_TIMEOUT_FACTOR)
        if loop.time() < began + limit:
            timer = loop.call_at(began + limit, check_time)
        else:
            scope.cancel()

    with anyio.CancelScope() as scope:
        timer = loop.call_at(began + seconds, check_time)
        try:
            yield
        finally:
            timer.cancel()


def processor_wait_s() -> float:
    """Return how long this process was ready to run and did not, since it started."""
    try:
        return int((_PROC / "self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):  # a kernel that does not count it
        return 0.0


def host_pressure_s() -> float:
    """Return how long any process of this host was ready to run and did not, since the host
    started."""
    try:
        some = (_PROC / "pressure/cpu").read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, IndexError, ValueError):  # a kernel that does not count it
        return processor_wait_s()


def overload_factor() -> float:
    """Return how many times longer than usual a local program may take on this host now."""
    try:
        some = (_PROC / "pressure/cpu").read_text().splitlines()[0]
        waiting = float(some.split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return 1.0
    return min(1 / max(1 - waiting, 1e-3), MAX_TIMEOUT_FACTOR)


class NativeProbes:
    """Remembers probes that hang: a mount without an answer must not block more threads."""

    def __init__(
        self,
        processor_wait: Callable[[], float] = processor_wait_s,
        host_pressure: Callable[[], float] = host_pressure_s,
    ) -> None:
        self._processor_wait = processor_wait
        self._host_pressure = host_pressure
        self.stuck: set[str] = set()
        self.answers: dict[str, AnswerFacts] = {}
        """What the last answer of each web page looked like, until it is taken."""

    async def run(self, probe: Probe, before: str, seconds: float) -> NativeAnswer:
        """Never raises; a probe that takes longer than `seconds` has timed out."""
        answer: NativeAnswer = (TIMEOUT_EXIT_CODE, "", None, "")
        # Threads wait for a processor, too, and what they read has no peer that could hang.
        wait = self._host_pressure if probe.kind in _BLOCKING_PROBES else self._processor_wait
        with _limited_time(seconds, wait):
            try:
                answer = await self._answer(probe, before)
            except OSError as error:
                answer = (1, error_text(error), None, "")
            except (ValueError, IndexError, KeyError) as error:
                answer = (UNKNOWN_EXIT_CODE, f"the answer could not be read: {error}", None, "")
        return answer

    async def _answer(self, probe: Probe, before: str) -> NativeAnswer:
        if probe.kind == "port":
            return await probe_port(probe, before)
        if probe.kind == "http":
            answer, facts = await probe_http(probe)
            if facts is not None:
                self.answers[probe.name] = facts
            return answer
        if probe.kind in _ASYNC_PROBES:
            return await _ASYNC_PROBES[probe.kind](probe)
        if probe.kind == "cpu" and not before:
            before = _cpu_line()
            await anyio.sleep(CPU_SAMPLE_S)
        if probe.kind in _KERNEL_PROBES:
            return _BLOCKING_PROBES[probe.kind](probe, before)
        while probe.name in self.stuck:  # noqa: ASYNC110 - a thread cannot set an event here
            await anyio.sleep(STUCK_RECHECK_S)
        run = functools.partial(_BLOCKING_PROBES[probe.kind], probe, before)
        self.stuck.add(probe.name)
        return await to_thread.run_sync(self._blocking, probe.name, run, abandon_on_cancel=True)

    def _blocking(self, name: str, run: Callable[[], NativeAnswer]) -> NativeAnswer:
        try:
            return run()
        finally:
            self.stuck.discard(name)


def _limit(probe: Probe) -> float:
    return DEFAULT_LIMITS[probe.kind] if probe.limit is None else probe.limit


def _cpu_line() -> str:
    with (_PROC / "stat").open() as file:
        return file.readline().rstrip("\n")


def _probe_cpu(probe: Probe, before: str) -> NativeAnswer:
    now = _cpu_line()
    (total, idle), (total_before, idle_before) = map(_cpu_times, (now, before))
    spent = total - total_before
    used = 100 * (1 - (idle - idle_before) / spent) if spent > 0 else 0.0
    words = f"{used:.1f} percent of the processors are busy"
    return int(used >= _limit(probe)), words, round(used, 1), now


def _cpu_times(line: str) -> tuple[int, int]:
    """All time, and the time that is idle or spent on processes of low priority, which give way
    to any other."""
    fields = [int(each) for each in line.split()[1:9]]
    return sum(fields), fields[1] + fields[3] + fields[4]


def _probe_load(probe: Probe, before: str) -> NativeAnswer:
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0] / processors
    words = f"{load:.2f} processes wait for each of {processors} processors"
    return int(load >= _limit(probe)), words, round(load, 2), ""


def _probe_memory(probe: Probe, before: str) -> NativeAnswer:
    with (_PROC / "meminfo").open() as file:
        found = {
            name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)
        }
    if not found.get("MemTotal"):
        return UNKNOWN_EXIT_CODE, "", None, ""
    used = 100 * (1 - found.get("MemAvailable", 0) / found["MemTotal"])
    words = f"{used:.1f} percent of the memory are in use"
    return int(used >= _limit(probe)), words, round(used, 1), ""


def _probe_disk(probe: Probe, before: str) -> NativeAnswer:
    path = probe.what or "/"
    mounted = _is_mounted(path)
    if before == MOUNTED_STATE and not mounted:
        how = "although /etc/fstab names it" if _in_fstab(path) else _NOT_IN_FSTAB
        return QUESTION_EXIT_CODE, f"{path} is not mounted any more, {how}", None, MOUNTED_STATE
    try:
        found = os.statvfs(path)
    except OSError as error:
        return 1, f"{path} cannot be read: {error_text(error)}", None, ""
    free_kb = found.f_bavail * found.f_frsize // 1024
    used = _percent(found.f_blocks - found.f_bfree, found.f_bavail)
    words = f"{used} percent of {path} are in use, {free_kb} kB are free"
    bad = used >= _limit(probe) or free_kb < MIN_FREE_KB
    return int(bad), words, float(used), MOUNTED_STATE if mounted else ""


def _probe_inodes(probe: Probe, before: str) -> NativeAnswer:
    path = probe.what or "/"
    mounted = _is_mounted(path)
    if before == MOUNTED_STATE and not mounted:
        return UNKNOWN_EXIT_CODE, f"{path} is not mounted any more", None, MOUNTED_STATE
    try:
        found = os.statvfs(path)
    except OSError as error:
        return 1, f"{path} cannot be read: {error_text(error)}", None, ""
    used = _percent(found.f_files - found.f_ffree, found.f_ffree)
    words = f"{used} percent of the inodes of {path} are in use"
    return int(used >= _limit(probe)), words, float(used), MOUNTED_STATE if mounted else ""


def _is_mounted(path: str) -> bool:
    lines = (_PROC / "self/mounts").read_text(errors="replace").splitlines()
    return any(line.split()[1].replace("\\040", " ") == path for line in lines)


def _in_fstab(path: str) -> bool:
    try:
        lines = Path("/etc/fstab").read_text(errors="replace").splitlines()
    except OSError:
        return False
    rows = (line.split() for line in lines if not line.lstrip().startswith("#"))
    return any(
        len(row) > 3 and row[1] == path and "noauto" not in row[3].split(",") for row in rows
    )


def _percent(used: int, free: int) -> int:
    """Rounded up, as df does."""
    return math.ceil(100 * used / (used + free)) if used + free > 0 else 0


def _probe_free_space(probe: Probe, before: str) -> NativeAnswer:
    path = probe.what or "/"
    try:
        found = os.statvfs(path)
    except OSError as error:
        return UNKNOWN_EXIT_CODE, f"{path} cannot be read: {error_text(error)}", None, ""
    free_kb = found.f_bavail * found.f_frsize // 1024
    return 0, f"{free_kb} kB of {path} are free", float(free_kb), ""


def _pids() -> list[str]:
    return [name for name in os.listdir(_PROC) if name.isdigit()]  # noqa: PTH208 - twice as fast


def _probe_processes(probe: Probe, before: str) -> NativeAnswer:
    count, max_processes = len(_pids()), int((_PROC / "sys/kernel/pid_max").read_text())
    used = 100 * count / max_processes
    words = f"{count} processes, {used:.1f} percent of what is possible"
    limit = MAX_PROCESSES_PERCENT if probe.limit is None else probe.limit
    return int(used >= limit), words, float(count), ""


def _probe_zombies(probe: Probe, before: str) -> NativeAnswer:
    count = 0
    for pid in _pids():
        try:
            state = (_PROC / pid / "stat").read_bytes().rpartition(b") ")[2][:1]
        except OSError:
            continue
        count += state == b"Z"
    words = f"{count} dead processes wait for their parent"
    return int(count >= _limit(probe)), words, float(count), ""


_ASYNC_PROBES: dict[str, Callable[[Probe], Awaitable[NativeAnswer]]] = {
    "redis": probe_redis,
    "postgres": probe_postgres,
}
_KERNEL_PROBES = ("cpu", "load", "memory")
"""Kinds that read one value of the kernel, which never blocks: they need no thread."""
_BLOCKING_PROBES: dict[str, Callable[[Probe, str], NativeAnswer]] = {
    "cpu": _probe_cpu,
    "load": _probe_load,
    "memory": _probe_memory,
    "disk": _probe_disk,
    "inodes": _probe_inodes,
    "forecast": _probe_free_space,
    "processes": _probe_processes,
    "zombies": _probe_zombies,
    "log": native_logs.probe_log,
    "answers": native_logs.probe_answers,
}
