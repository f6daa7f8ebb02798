"""A gateway killed with -9 at random points of receiving, turns, presses and sending.

usage: python bench/chat_kills.py [--kills 1000] [--seed 0] [--jobs 2] [--keep FOLDER]

No message, turn or command may be lost or happen twice; a reply is sent twice only when marked. In
every other chat each command waits for a press, and no command may run without one.
"""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from itertools import count
from pathlib import Path

import anyio

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "app" / "channels")]

from gateway_kills import kill_gateway  # noqa: E402 - the path is set above

MAX_KILLS_OF_ONE = 40


async def measure(kills: int, seed: int, jobs: int, keep: Path) -> bool:
    done, conversations, problems, seeds = 0, 0, list[str](), count(seed)
    began = time.monotonic()

    async def work() -> None:
        nonlocal done, conversations
        while done < kills:
            number = next(seeds)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    done += await kill_gateway(
                        Path(folder), MAX_KILLS_OF_ONE, number, press=number % 2 == 1
                    )
                except (AssertionError, TimeoutError):
                    problems.append(f"seed {number}: {traceback.format_exc(limit=-2)}")
                    print(problems[-1], flush=True)
                    shutil.copytree(folder, keep / str(number), dirs_exist_ok=True)
            conversations += 1
            if conversations % 10 == 0:
                print(f"{done} kills, {len(problems)} problems", flush=True)

    async with anyio.create_task_group() as group:
        for _ in range(jobs):
            group.start_soon(work)
    passed = time.monotonic() - began
    print(f"{done} kills in {conversations} chats, {passed:.0f} s: {len(problems)} problems")
    return not problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="where the files of a chat with a problem go")
    chosen = parser.parse_args()
    keep = chosen.keep or Path(tempfile.mkdtemp(prefix="chat-kills-"))
    return not anyio.run(measure, chosen.kills, chosen.seed, chosen.jobs, keep)


if __name__ == "__main__":
    sys.exit(main())
