"""Processes that import and index one home are killed again and again; run as a script.

`search_torture.py FOLDER KILLS [SEED]` prints as JSON what is there in the end. It forks from a
warm interpreter that has no file of the home open, so that a life costs milliseconds.
"""

import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import msgspec

from hermes.core.knowledge import SessionQuery
from hermes.memory.journal.session_import import import_lines
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.memory.journal.verification import verify
from hermes.memory.search.line_search import search_lines
from hermes.memory.search.session_search import SessionSearch

MESSAGES = 3000
LONGEST = 0.12
"""Seconds that a process may live."""


def lines() -> list[bytes]:
    return [
        msgspec.json.encode(
            {"id": f"m{n}", "session": f"s{n % 5}", "text": f"word{n} common filler {n % 97}"}
        )
        for n in range(MESSAGES)
    ]


async def take_in(journal: Path, given: list[bytes]) -> None:
    async with SqliteJournal.open(journal) as opened:
        await import_lines(opened, given)


def live(folder: Path, given: list[bytes], *, importing: bool) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            if importing:
                anyio.run(take_in, folder / "journal.db", given)
            SessionSearch(folder / "journal.db", folder / "search.db").ask_blocking(lambda _: None)
        finally:
            os._exit(0)
    return pid


def torture(folder: Path, kills: int, chance: random.Random) -> None:
    given = lines()
    for number in range(kills):
        pids = [live(folder, given, importing=each == number % 2) for each in range(2)]
        time.sleep(chance.uniform(0, LONGEST))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def judge(folder: Path) -> dict[str, int | bool]:
    """What stands there after one last, undisturbed import and search."""
    anyio.run(take_in, folder / "journal.db", lines())
    past = SessionSearch(folder / "journal.db", folder / "search.db")
    found = doubled = 0
    for number in range(0, MESSAGES, 10):
        hits = past.ask_blocking(
            partial(search_lines, wanted=SessionQuery(words=f"word{number}"))
        ).hits
        found += bool(hits)
        doubled += len(hits) > 1
    counted = past.ask_blocking(lambda index: index.count_lines())
    past.close()
    return {
        "found": found,
        "doubled": doubled,
        "indexed": counted,
        "anew": len(past.notices),
        "verified": verify(folder / "journal.db").ok,
    }


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    torture(folder, kills, random.Random(seed))
    verdict = {"kills": 2 * kills, "seed": seed, **judge(folder)}
    sys.stdout.write(msgspec.json.encode(verdict).decode() + "\n")


if __name__ == "__main__":
    main()
