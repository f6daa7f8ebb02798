"""How long a state of many files takes: the first time, and when nothing changed.

usage: python bench/states.py [--files 20000] [--limit-first 5] [--limit-again 1] [--json]

Files are of the sizes that configuration has. Prints wall and processor seconds, as another load on
the machine changes the first only; fails when a limit of processor seconds is exceeded.
"""

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import anyio

from hermes.declared.collectors.collect import CollectOptions, collect_local_state
from hermes.declared.state import State, compare
from hermes.declared.store import StateStore

FOLDER_FILES = 100


def write_files(root: Path, count: int) -> int:
    """The bytes of all files."""
    source, total = random.Random(7), 0
    words = [f"{source.getrandbits(40):x}" for _ in range(5000)]
    for number in range(count):
        folder = root / f"{number // FOLDER_FILES:05d}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = int(source.expovariate(1 / 30)) + 1
        text = "".join(f"{source.choice(words)} = {source.choice(words)}\n" for _ in range(lines))
        (folder / f"{number}.conf").write_text(text)
        total += len(text)
    return total


async def run_nothing(script: str, stdin: bytes) -> tuple[int, bytes]:
    return 0, b""


def measure(root: Path, store: StateStore, known: State | None) -> tuple[State, float, float]:
    options = CollectOptions(roots=(str(root),), max_files=1_000_000, server_settings=False)
    began, used = time.monotonic(), time.process_time()

    found: list[State] = []  # a result of `anyio.run` would be printed by asyncio, for its handler

    async def collect() -> None:
        found.append(
            await collect_local_state(run_nothing, known=known, store=store, options=options)
        )

    anyio.run(collect)
    (state,) = found
    store.save(state)
    return state, time.monotonic() - began, time.process_time() - used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--limit-first", type=float, default=5.0)
    parser.add_argument("--limit-again", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "host"
        size = write_files(root, chosen.files)
        store = StateStore(Path(folder) / "states")
        time.sleep(
            2.5
        )  # files changed within the last two seconds are read again, as they may change
        state, first, first_cpu = measure(root, store, None)
        same, again, again_cpu = measure(root, store, state)
        kept = sum(each.stat().st_size for each in store.folder.rglob("*") if each.is_file())
        result = {
            "files": chosen.files,
            "content_mb": round(size / 1e6, 1),
            "first_s": round(first, 2),
            "first_cpu_s": round(first_cpu, 2),
            "unchanged_s": round(again, 2),
            "unchanged_cpu_s": round(again_cpu, 2),
            "differences": len([each for each in compare(state, same) if each.item.kind == "file"]),
            "store_mb": round(kept / 1e6, 1),
            "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
    for name, value in result.items():
        sys.stdout.write("" if chosen.json else f"{name:16} {value}\n")
    if chosen.json:
        sys.stdout.write(f"{json.dumps(result)}\n")
    return int(first_cpu > chosen.limit_first or again_cpu > chosen.limit_again)


if __name__ == "__main__":
    sys.exit(main())
