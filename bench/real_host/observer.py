"""The truth about a host: checks of the bench's own, once a second, from inside its network."""

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
from cryptography import x509

from real_host.namespace import WATCH_HOME, Namespace

INTERVAL_S = 1.0
TIMEOUT_S = 2.5
PROBED_DISKS = ("/var/lib/redis", "/var/lib/postgresql", "/var/log/nginx", WATCH_HOME)


@dataclass(frozen=True)
class Sample:
    """One look: when it began and ended, and what is wrong ("" when nothing is)."""

    began: float
    ended: float
    problem: str


def get_page(port: int, page: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", page)
        answer = connection.getresponse()
        answer.read()
        return "" if answer.status == 200 else f"status {answer.status}"
    finally:
        connection.close()


def set_key() -> str:
    with socket.create_connection(("127.0.0.1", 6379), timeout=TIMEOUT_S) as connection:
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nbench\r\n$1\r\n1\r\n")
        answer = connection.recv(200).decode()
    return "" if answer.startswith("+OK") else answer.strip() or "no answer"


def insert_row() -> str:
    where = "host=127.0.0.1 dbname=shop user=bench password=b"
    with psycopg.connect(where, connect_timeout=2, options="-c statement_timeout=2000") as database:
        database.execute("insert into visits values (now())")
    return ""


def check_certificate() -> str:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", 443), timeout=TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        der = secure.getpeercert(binary_form=True) or b""
    ends = x509.load_der_x509_certificate(der).not_valid_after_utc.timestamp()
    return "" if ends > time.time() else "the certificate has expired"


CHECKS: dict[str, Callable[[], str]] = {
    "nginx": lambda: get_page(80, "/static/hello.html"),
    "tls": check_certificate,
    "items": lambda: get_page(80, "/items"),
    "cart": lambda: get_page(80, "/cart"),
    "shop-api": lambda: get_page(8000, "/health"),
    "redis": set_key,
    "postgres": insert_row,
}


class Truth:
    """What the bench's checks saw of one host, and what follows from it."""

    def __init__(self) -> None:
        self.samples: dict[str, list[Sample]] = {name: [] for name in CHECKS}
        self.samples |= {f"disk:{path}": [] for path in PROBED_DISKS}

    def fails_at(self, check: str, when: float) -> bool:
        """Whether the looks around a moment both failed: the truth is only then beyond doubt."""
        before = [sample for sample in self.samples[check] if sample.ended <= when][-1:]
        after = [sample for sample in self.samples[check] if sample.began >= when][:1]
        return bool(before or after) and all(sample.problem for sample in before + after)

    def failed_within(self, check: str, begin: float, end: float) -> bool:
        samples = self.samples[check]
        return any(sample.problem and begin <= sample.ended <= end for sample in samples)

    def latest(self, check: str, since: float) -> Sample | None:
        """The latest look that began after a moment."""
        found = [sample for sample in self.samples[check][-5:] if sample.began >= since]
        return found[-1] if found else None

    def fine_since(self, checks: tuple[str, ...]) -> float:
        """Since when none of the checks has failed; 0.0 when one fails, or is not known."""
        since = 0.0
        for check in checks:
            samples = self.samples[check]
            if not samples or samples[-1].problem:
                return 0.0
            failed = [number for number, each in enumerate(samples) if each.problem]
            since = max(since, samples[failed[-1] + 1 if failed else 0].began)
        return since

    def wait(self, checks: tuple[str, ...], fails: bool, since: float, seconds: float) -> float:
        """Wait until every check fails (or every one is fine); the moment, or 0.0 when it is not.

        An outage counts as real when one of its checks fails, as over when all are fine.
        """
        deadline = time.time() + seconds
        while time.time() < deadline:
            looks = [self.latest(check, since) for check in checks]
            known = [look for look in looks if look]
            if fails and any(look.problem for look in known):
                return min(look.ended for look in known if look.problem)
            if not fails and len(known) == len(checks) and not any(k.problem for k in known):
                return max(look.began for look in known)
            time.sleep(0.2)
        return 0.0

    def problems(self) -> dict[str, str]:
        """What fails now."""
        latest = {name: samples[-1] for name, samples in self.samples.items() if samples}
        return {name: sample.problem for name, sample in latest.items() if sample.problem}


class Observer(Truth):
    """All checks of one host, each in a thread of its own, until it is stopped."""

    def __init__(self, host: Namespace) -> None:
        super().__init__()
        self._host = host
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(name,), daemon=True) for name in self.samples
        ]
        for thread in self._threads:
            thread.start()

    def _watch(self, name: str) -> None:
        check = CHECKS.get(name)
        if check:
            self._host.join_network()
        while not self._ended.wait(INTERVAL_S):
            began = time.time()
            try:
                problem = check() if check else self._check_disk(name.removeprefix("disk:"))
            except (OSError, http.client.HTTPException, psycopg.Error, ssl.SSLError) as error:
                problem = f"{type(error).__name__}: {error}".strip() or "failed"
            self.samples[name].append(Sample(began, time.time(), problem))

    def _check_disk(self, path: str) -> str:
        space = os.statvfs(self._host.path(path))
        if space.f_flag & os.ST_RDONLY:
            return "read-only"
        free, total = space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize
        return "" if free > total * 0.09 else f"{free // 1024} kB free"

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(10)


class PressureRecord:
    """How busy this machine was: the load, and the share of time in which work waited for a CPU."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, float, float]] = []

    def between(self, begin: float, end: float) -> tuple[float, float]:
        """The share of a span in which something waited for a CPU, and its highest load."""
        found = [sample for sample in self.samples if begin - 1 <= sample[0] <= end + 1]
        if len(found) < 2:
            return 0.0, os.getloadavg()[0]
        first, last = found[0], found[-1]
        return (last[1] - first[1]) / (last[0] - first[0]), max(sample[2] for sample in found)


class Pressure(PressureRecord):
    """Measures each second until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def _measure(self) -> None:
        while not self._ended.wait(1.0):
            self.samples.append((time.time(), stalled_s(), os.getloadavg()[0]))

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5)


def stalled_s() -> float:
    """Seconds since boot in which some process waited for a CPU; 0 where the kernel cannot say."""
    try:
        words = Path("/proc/pressure/cpu").read_text().split()
    except OSError:
        return 0.0
    return float(words[4].partition("=")[2]) / 1e6
