"""Two processes write to one journal and are killed again and again.

Run as a script, `kill_torture.py PLACE KILLS [SEED]` (a folder, or the URL of a database), it
prints as JSON what was acknowledged and what became of it. It forks from a warm interpreter that
never opens the journal itself while they write, so that a life costs milliseconds.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec

import hermes.memory.journal.sqlite_journal  # noqa: F401 - once here, not in each short process
from hermes.core.events.runs import RunRenamed
from hermes.memory.journal.maintenance import export
from hermes.memory.journal.verification import verify
from hermes.memory.store import JournalStore, StoreLocation, open_journal

LONGEST = {"file": 0.035, "server": 0.05}
"""Seconds a process may live."""
SETTLED = {"file": 0.3, "server": 0.6}
"""Share of the lives that are counted from their first word, since opening a connection takes long
on a busy machine; the others are counted from their fork, and die while still opening."""


@dataclass
class Life:
    pid: int
    pipe: int
    heard: bytes = b""

    def listen(self) -> None:
        """Take what it has printed so far; a full pipe would stop it."""
        while True:
            try:
                piece = os.read(self.pipe, 65536)
            except BlockingIOError:
                return
            if not piece:
                return
            self.heard += piece

    def end(self) -> list[str]:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.listen()
        os.close(self.pipe)
        return self.heard.decode().splitlines()


def begin(path: StoreLocation, number: int) -> Life:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            anyio.run(write, path, number, writing)
        finally:
            os._exit(1)
    os.close(writing)
    os.set_blocking(reading, False)
    return Life(pid, reading)


async def write(path: StoreLocation, number: int, pipe: int) -> None:
    async def work(journal: JournalStore, task: int) -> None:
        for count in range(1_000_000):
            size = 1 + count % 3
            events = [
                RunRenamed(run=f"{number}.{task}", title=f"{count} {part} {size} " + "x" * 200)
                for part in range(size)
            ]
            for seq, part in zip(await journal.append(*events), range(size), strict=True):
                os.write(pipe, f"{seq} {number}.{task} {count} {part}\n".encode())

    async with open_journal(path) as journal, anyio.create_task_group() as group:
        for task in range(3):
            group.start_soon(work, journal, task)


def listen(lives: list[Life], enough: Callable[[], bool], deadline: float) -> None:
    while time.monotonic() < deadline and not enough():
        for life in lives:
            life.listen()
        time.sleep(0.001)


def torture(path: StoreLocation, kills: int, seed: int) -> set[tuple[int, str, str, str]]:
    """What the killed processes had been told is kept: number, run, count and part."""
    chance = random.Random(seed)
    kind = "file" if isinstance(path, Path) else "server"
    longest, settled = LONGEST[kind], SETTLED[kind]
    acknowledged: set[tuple[int, str, str, str]] = set()
    lives = [begin(path, 0), begin(path, 1)]
    for number in range(2, kills + 2):
        victim = chance.randrange(2)
        if chance.random() < settled:
            listen(lives, lambda: bool(lives[victim].heard), time.monotonic() + 120)  # noqa: B023
        listen(lives, lambda: False, time.monotonic() + chance.uniform(0, longest))
        told = lives[victim].end()
        if number <= kills:
            lives[victim] = begin(path, number)
        else:
            told += lives[1 - victim].end()
        for line in told:
            seq, run, count, part = line.split()
            acknowledged.add((int(seq), run, count, part))
    return acknowledged


def judge(
    path: StoreLocation, acknowledged: set[tuple[int, str, str, str]]
) -> dict[str, int | bool]:
    kept: Counter[tuple[int, str, str, str]] = Counter()
    appends: Counter[tuple[str, str, int]] = Counter()
    for line in export(path):
        found = msgspec.json.decode(line)
        run = found["event"]["run"]
        count, part, size, _ = found["event"]["title"].split()
        kept[found["seq"], run, count, part] += 1
        appends[run, count, int(size)] += 1
    without_number = Counter(key[1:] for key in kept)
    return {
        "acknowledged": len(acknowledged),
        "kept": len(kept),
        "lost": len(acknowledged - kept.keys()),
        "doubled": sum(times > 1 for times in without_number.values()),
        "torn": sum(times != size for (_, _, size), times in appends.items()),
        "verified": verify(path).ok,
    }


def main() -> None:
    place, kills = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    path: StoreLocation = place if "://" in place else Path(place) / "journal.db"
    started = time.monotonic()
    verdict = judge(path, torture(path, kills, seed))
    seconds = round(time.monotonic() - started, 1)
    line = msgspec.json.encode({"kills": kills, "seed": seed, **verdict, "seconds": seconds})
    sys.stdout.write(line.decode() + "\n")


if __name__ == "__main__":
    main()
