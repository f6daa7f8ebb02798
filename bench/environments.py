"""What an environment adds to a command, and what background processes cost.

`python bench/environments.py [ROW ...]` prints one JSON row for each figure; rows: overhead, flood,
processes, cycles. A new environment joins `overhead` with one line in KINDS.
"""

import json
import os
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from hermes.core.events import Event
from hermes.core.protocols import Environment
from hermes.environments.local import LocalEnvironment
from hermes.environments.process_registry import ProcessRegistry

VARIABLES = {"PATH": os.environ["PATH"], "BENCH": secrets.token_hex(8)}


def local(folder: Path) -> LocalEnvironment:
    return LocalEnvironment(folder, VARIABLES, processes=folder / "processes")


KINDS: dict[str, tuple[Callable[[Path], AbstractAsyncContextManager[Environment]], float]] = {
    "local": (local, 5.0),
}
"""How to open it, and how many milliseconds it may add."""


def row(figure: str, value: float, unit: str, limit: float, **more: object) -> None:
    held = value <= limit
    print(json.dumps({"figure": figure, "value": round(value, 3), "unit": unit, "limit": limit,
                      "held": held, **more}), flush=True)  # fmt: skip


async def publish(*events: Event) -> Sequence[int]:
    return range(len(events))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bare() -> float:
    started = time.perf_counter()
    subprocess.run(["bash", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - started


async def overhead(folder: Path, batches: int = 8, rounds: int = 50) -> None:
    """Both alternate, so that a busy machine slows both; the quietest batch counts."""
    for name, (opened, limit) in KINDS.items():
        async with opened(folder) as place:
            await place.run("true")
            pairs = [await batch(place, rounds) for _ in range(batches)]
        plain, full = min(pairs, key=lambda pair: pair[1] - pair[0])
        row(f"{name}: a command beyond `bash -c`", full - plain, "ms", limit,
            bash_c_ms=round(plain, 3), ours_ms=round(full, 3),
            all_batches=[round(ours - bare, 2) for bare, ours in pairs])  # fmt: skip


async def batch(place: Environment, rounds: int) -> tuple[float, float]:
    floor, ours = [], []
    for _ in range(rounds):
        floor.append(bare())
        started = time.perf_counter()
        await place.run("true")
        ours.append(time.perf_counter() - started)
    return statistics.median(floor) * 1000, statistics.median(ours) * 1000


async def flood(folder: Path) -> None:
    async with local(folder) as place:
        await place.run("true")
        before = peak_mb()
        result = await place.run("head -c 1G /dev/zero", timeout=120)
        row("local: memory for 1 GB of output", peak_mb() - before, "MB", 10,
            dropped=result.dropped_bytes, seconds=round(result.seconds, 2))  # fmt: skip


async def processes(folder: Path, count: int = 64, seconds: int = 10) -> None:
    """Each prints 1 MB a second in numbered lines; the window must be whole at the end."""
    line = "%07d" + "x" * 92
    command = (
        f"n=0; for second in $(seq {seconds}); do end=$(( n + 10000 )); "
        f'printf "{line}\\n" $(seq $n $(( end - 1 ))); n=$end; sleep 1; done'
    )
    used, wall = time.process_time(), time.perf_counter()
    async with local(folder) as place, ProcessRegistry(folder, publish) as registry:
        views = [await registry.start(place, command, run="b") for _ in range(count)]
        most = 0
        with anyio.fail_after(seconds * 20):
            while any(view.status == "running" for view in registry.list()):
                most = max(
                    most, sum(f.stat().st_blocks * 512 for f in (folder / "processes").iterdir())
                )
                await anyio.sleep(0.2)
        whole = 0
        for view in views:
            numbers = [text[:7] for text in (await registry.log(view.id, limit=10**6)).splitlines()]
            last = [int(number) for number in numbers if number.isdigit()][1:]
            whole += last == list(range(last[0], seconds * 10_000)) and len(last) > 2000
        printed = sum(view.output_bytes for view in registry.list())
    used, wall = time.process_time() - used, time.perf_counter() - wall
    row(f"local: memory of {count} processes at 1 MB/s", peak_mb(), "MB", 100, windows_whole=whole,
        printed_mb=round(printed / 1e6), seconds=round(wall, 1), our_cpu_s=round(used, 2),
        most_disk_mb=round(most / 1e6, 1))  # fmt: skip


async def cycles(folder: Path, count: int = 1000) -> None:
    async with local(folder) as place, ProcessRegistry(folder, publish) as registry:
        await place.run("true")
        before, started = entries(Path("/proc/self/fd")), time.perf_counter()
        for number in range(count):
            view = await registry.start(place, "sleep 60 & sleep 60", run="b", pty=number % 10 == 0)
            await registry.kill(view.id)
        seconds = time.perf_counter() - started
        files = entries(Path("/proc/self/fd")) - before + entries(folder / "processes")
    row(f"local: left behind by {count} start/kill cycles", files + survivors(), "things", 0,
        ms_each=round(seconds / count * 1000, 2))  # fmt: skip


def entries(folder: Path) -> int:
    return len(list(folder.iterdir()))


def survivors() -> int:
    mark, found = VARIABLES["BENCH"].encode(), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += mark in (folder / "environ").read_bytes()
        except OSError:
            continue
    return found


ROWS: dict[str, Callable[[Path], Awaitable[None]]] = {
    "overhead": overhead,
    "flood": flood,
    "processes": processes,
    "cycles": cycles,
}


async def main(wanted: Sequence[str]) -> None:
    for name in wanted or ROWS:
        with tempfile.TemporaryDirectory() as folder:
            await ROWS[name](Path(folder))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
