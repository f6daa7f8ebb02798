"""A storm of alerts against the webhook receiver, with the durable write. One JSON row a figure.

`python bench/alert_storm.py [ALERTS] [--seconds S] [--connections N] [--each K]`: 10,000 alerts in
60 seconds over 32 connections, one a request, unless told. `--seconds 0` sends as fast as it can.
The receiver runs in a process of its own, with the journal on disk and secrets taken out as in the
house; with `--watch` it is a whole `hermes watch`, which must make one incident of it all. The
floor is the same number of alerts published straight into such a journal, without HTTP, at the same
pace and as many at a time.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from hermes.core.bus import Bus
from hermes.core.events.incidents import AlertRaised
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.policy.redaction.event_redactor import EventRedactor
from hermes.policy.redaction.redactor import Redactor
from hermes.web.alert_server import serve_alerts
from hermes.web.alerts import parse_alertmanager
from hermes.web.settings import WebSettings

MOST_MB, MOST_MS = 150, 50
Send = Callable[[bytes], Awaitable[None]]


def payload(first: int, count: int) -> bytes:
    """Of one cause: the same service, many instances; about 900 bytes an alert, as they are."""
    alerts = [
        {
            "status": "firing",
            "labels": {
                "alertname": "HighErrorRate",
                "severity": "critical",
                "service": "checkout",
                "instance": f"10.0.{number // 250 % 250}.{number % 250}:8080",
                "namespace": "shop",
                "job": "checkout",
                "pod": f"checkout-{number:06d}",
            },
            "annotations": {
                "summary": f"checkout-{number:06d} answers 12 % of requests with 5xx",
                "description": "More than 5 % of requests failed for two minutes. " * 4,
                "runbook_url": "https://runbooks.example.com/checkout/high-error-rate",
            },
            "startsAt": "2026-01-05T10:00:00.123456789Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus.example.com/graph?g0.expr=rate",
            "fingerprint": f"{number:016x}",
        }
        for number in range(first, first + count)
    ]
    body = {"version": "4", "groupKey": "{}", "status": "firing", "alerts": alerts}
    return json.dumps(body | {"receiver": "hermes", "truncatedAlerts": 0}).encode()


def cleaner() -> EventRedactor:
    return EventRedactor(Redactor({}).clean)


async def receive(path: Path) -> None:
    """The process that is measured."""
    async with SqliteJournal.open(path) as journal, anyio.create_task_group() as group:
        bus = Bus(journal, clean=cleaner())
        print(await group.start(serve_alerts, bus, WebSettings(port=0)), flush=True)


async def drive(bodies: list[bytes], seconds: float, sends: list[Send]) -> list[float]:
    """Seconds that each took; from when it was due, if no connection was free for it then."""
    taken: list[float] = []
    numbered = iter(enumerate(bodies))
    pause = seconds / len(bodies)
    began = time.perf_counter() + 0.05

    async def line(send: Send) -> None:
        for number, body in numbered:
            due = began + number * pause
            free = (wait := due - time.perf_counter()) > 0
            if free:
                await anyio.sleep(wait)
            started = time.perf_counter() if free or not pause else due
            await send(body)
            taken.append(time.perf_counter() - started)

    async with anyio.create_task_group() as group:
        for send in sends:
            group.start_soon(line, send)
    return taken


async def connect(port: int) -> Send:
    stream = await anyio.connect_tcp("127.0.0.1", port)

    async def send(body: bytes) -> None:
        head = f"POST /alerts HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        await stream.send(head.encode() + body)
        answer = await stream.receive()
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer[:200].decode())

    return send


@contextmanager
def receiver(path: Path, *, watch: bool) -> Iterator[tuple[int, int]]:
    """Its process id and its port."""
    command, variables = [sys.executable, __file__, "--receive", str(path)], dict(os.environ)
    if watch:
        (path.parent / "probes.yaml").write_text("probes: []\n")
        command = [sys.executable, "-m", "hermes.cli", "-s", "web.port=0", "watch"]
        command += ["--model", "none"]
        variables["HERMES_HOME"] = str(path.parent)
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables
    )
    try:
        assert child.stdout is not None
        said = next(line for line in child.stdout if "http://" in line)
        yield child.pid, int(re.findall(r":(\d+)", said)[-1])
    finally:
        child.kill()
        child.wait()


async def over_http(bodies: list[bytes], asked: argparse.Namespace, path: Path) -> dict[str, Any]:
    with receiver(path, watch=asked.watch) as (pid, port):
        idle = used(pid)
        sends = [await connect(port) for _ in range(asked.connections)]
        began = time.perf_counter()
        taken = await drive(bodies, asked.seconds, sends)
        wall = time.perf_counter() - began
        after = used(pid)
        opened = await incidents_in(path) if asked.watch else 0
    return figures(taken, wall, asked.alerts, after["cpu"] - idle["cpu"]) | {
        "rss_mb": round(after["rss_mb"], 1),
        "rss_mb_idle": round(idle["rss_mb"], 1),
        "incidents": opened,
    }


async def straight(bodies: list[bytes], asked: argparse.Namespace, path: Path) -> dict[str, Any]:
    """The floor: the same alerts, read beforehand, into the same kind of journal."""
    ready = iter([parse_alertmanager(body).alerts for body in bodies])
    async with SqliteJournal.open(path) as journal:
        bus = Bus(journal, clean=cleaner())

        async def send(body: bytes) -> None:
            await bus.publish(*next(ready))

        began, cpu = time.perf_counter(), time.process_time()
        taken = await drive(bodies, asked.seconds, [send] * asked.connections)
        wall = time.perf_counter() - began
        return figures(taken, wall, asked.alerts, time.process_time() - cpu)


def figures(taken: list[float], wall: float, alerts: int, cpu: float) -> dict[str, Any]:
    cuts = statistics.quantiles(taken * 2, n=1000, method="inclusive")
    return {
        "p50_ms": round(cuts[499] * 1000, 2),
        "p99_ms": round(cuts[989] * 1000, 2),
        "max_ms": round(max(taken) * 1000, 1),
        "alerts_per_s": round(alerts / wall),
        "cpu_ms_per_alert": round(cpu * 1000 / alerts, 3),
    }


def used(pid: int) -> dict[str, float]:
    """CPU seconds so far and the highest memory of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return {
        "cpu": (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"),
        "rss_mb": peak / 1024,
    }


async def incidents_in(path: Path) -> int:
    """Once the last count of the storm is written."""
    await anyio.sleep(3.0)
    async with SqliteJournal.open(path) as journal:
        return len([1 async for _ in journal.read(kinds=["incident.opened"])])


async def kept(path: Path) -> int:
    async with SqliteJournal.open(path) as journal:
        found = journal.read(kinds=["alert.raised"])
        return len([1 async for each in found if isinstance(each.event, AlertRaised)])


async def main(asked: argparse.Namespace) -> bool:
    starts = range(0, asked.alerts, asked.each)
    bodies = [payload(n, min(asked.each, asked.alerts - n)) for n in starts]
    with tempfile.TemporaryDirectory() as folder:
        door = await over_http(bodies, asked, Path(folder, "journal.db"))
        door["kept"] = await kept(Path(folder, "journal.db"))
        floor = await straight(bodies, asked, Path(folder, "floor.db"))
    named = {"alerts": asked.alerts, "each": asked.each, "seconds": asked.seconds}
    print(json.dumps({"figure": "webhook", **named, **door}))
    print(json.dumps({"figure": "floor: publish only", **named, **floor}))
    ratios = {name: round(door[name] / floor[name], 2) for name in itertools.islice(floor, 5)}
    whole = bool(door["kept"] == asked.alerts)
    whole = whole and door["incidents"] == int(asked.watch)
    met = whole and bool(door["rss_mb"] <= MOST_MB and door["p99_ms"] <= MOST_MS)
    print(
        json.dumps({"figure": "webhook / floor", **ratios, "met": met, "load": os.getloadavg()[0]})
    )
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("alerts", nargs="?", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--each", type=int, default=1, help="alerts a request")
    parser.add_argument("--watch", action="store_true", help="against a whole `hermes watch`")
    parser.add_argument("--receive", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        anyio.run(receive, options.receive)
    else:
        sys.exit(0 if anyio.run(main, options) else 1)
