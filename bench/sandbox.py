"""What the sandbox adds to a command: cold (opening it and running one) and warm.

`python bench/sandbox.py [KIND ...]` prints one JSON row for each figure. Plain `bash -c true`
alternates with ours, so that a busy machine slows both; the quietest batch counts.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from hermes.environments.sandbox import SandboxEnvironment
from hermes.environments.sandboxing.sandbox_resources import find_missing_support

VARIABLES = {"PATH": os.environ["PATH"]}
COLD, WARM = 60.0, 25.0
Pair = tuple[float, float]


def row(figure: str, pairs: list[Pair], limit: float) -> None:
    plain, full = min(pairs, key=lambda pair: pair[1] - pair[0])
    value = round(full - plain, 3)
    print(json.dumps({"figure": figure, "value": value, "unit": "ms", "limit": limit,
                      "held": value <= limit, "bash_c_ms": round(plain, 3),
                      "ours_ms": round(full, 3),
                      "all_batches": [round(b - a, 2) for a, b in pairs]}), flush=True)  # fmt: skip


def bare() -> float:
    started = time.perf_counter()
    subprocess.run(["bash", "-c", "true"], stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - started


async def opened_and_run(folder: Path, isolation: str) -> float:
    started = time.perf_counter()
    async with SandboxEnvironment(folder, VARIABLES, isolation=(isolation,)) as place:
        await place.run("true")
        return time.perf_counter() - started


async def run(place: SandboxEnvironment) -> float:
    started = time.perf_counter()
    await place.run("true")
    return time.perf_counter() - started


async def cold(folder: Path, isolation: str, rounds: int = 8) -> Pair:
    floor, ours = [], []
    for _ in range(rounds):
        floor.append(bare())
        ours.append(await opened_and_run(folder, isolation))
    return statistics.median(floor) * 1000, statistics.median(ours) * 1000


async def warm(folder: Path, isolation: str, rounds: int = 40) -> Pair:
    floor, ours = [], []
    async with SandboxEnvironment(folder, VARIABLES, isolation=(isolation,)) as place:
        await run(place)
        for _ in range(rounds):
            floor.append(bare())
            ours.append(await run(place))
    return statistics.median(floor) * 1000, statistics.median(ours) * 1000


async def main(kinds: list[str], batches: int = 5) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for isolation in kinds:
            row(
                f"sandbox by {isolation}: cold",
                [await cold(folder, isolation) for _ in range(batches)],
                COLD,
            )
            row(
                f"sandbox by {isolation}: warm",
                [await warm(folder, isolation) for _ in range(batches)],
                WARM,
            )


if __name__ == "__main__":
    every = [
        isolation
        for isolation in ("namespaces", "bubblewrap", "landlock")
        if not find_missing_support(isolation)
    ]
    anyio.run(main, sys.argv[1:] or every)
