"""Is every way to tamper with the audit log found, and what does signing and verifying cost?

`python bench/audit.py [ATTEMPTS]`, by default 10,000. Prints one JSON row for each figure. The
intruder (tests/app/journal/audit_tampering.py) writes all files of a home and knows the format;
only the private key is out of reach.
"""

import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "app" / "journal"))
from audit_tampering import Intruder, fresh_copy, make_log, story

from hermes.app.journal.audit_verification import proof_of_home, verify_journal
from hermes.app.journal.upkeep import CheckpointSigner
from hermes.memory.journal.sqlite_journal import SqliteJournal


def row(figure: str, value: float, unit: str, limit: float) -> None:
    row = {"figure": figure, "value": value, "unit": unit, "limit": limit, "held": value <= limit}
    print(json.dumps(row), flush=True)


def status_of(home: Path) -> str:
    proof = proof_of_home(home, home / "audit.head")
    return verify_journal(home / "journal.db", proof).status


def tampering(folder: Path, attempts: int) -> None:
    home = folder / "home"
    anyio.run(make_log, home)
    assert status_of(home) == "verified", "the log must be whole before anybody touches it"
    drawn = random.Random(4)
    missed: list[str] = []
    tricks = Counter[str]()
    for number in range(attempts):
        copy = fresh_copy(home, folder / "copy")
        what = Intruder(copy, drawn).strike()
        tricks[what.partition(":")[0]] += 1
        if status_of(copy) == "verified":
            missed.append(f"attempt {number}: {what}")
    for one in missed[:10]:
        print(one, file=sys.stderr)
    print(dict(tricks), file=sys.stderr)
    row(f"audit log: {attempts:,} ways to tamper, not found", len(missed), "", 0)


async def costs(folder: Path, events: int = 20_000) -> None:
    path = folder / "large" / "journal.db"
    path.parent.mkdir()
    async with SqliteJournal.open(path) as journal:
        for number in range(events // 6):
            await journal.append(*story("run-1", number))
        notary = CheckpointSigner(journal, path.parent, str(path))
        times = []
        for number in range(50):
            await journal.append(*story("run-1", number))
            started = time.perf_counter()
            await notary.sign()
            times.append(time.perf_counter() - started)
    row("a signed checkpoint, with its fsync", statistics.median(times) * 1e3, "ms", 20)
    started = time.perf_counter()
    assert status_of(path.parent) == "verified"
    row("verifying 1,000 events", (time.perf_counter() - started) / events * 1e6, "ms", 100)


def main() -> None:
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        tampering(Path(folder), attempts)
        anyio.run(costs, Path(folder))


if __name__ == "__main__":
    main()
