"""A process that delivers to a webhook and to chats, killed with -9 at random moments.

usage: python bench/delivery_kills.py [--kills 1000] [--seed 0]

Nothing may be lost, overtake another message of its lane, or arrive twice without `(repeated)`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import anyio

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "gateway")]

from delivery_kills import kill_deliveries  # noqa: E402 - the path is set above


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = anyio.run(kill_deliveries, Path(folder), chosen.kills, chosen.seed)
    print(
        f"{result.kills} kills in {time.monotonic() - began:.0f} s: {result.messages} messages, "
        f"{result.arrived} arrived in pieces, {result.repeated} repeated and marked, "
        f"{len(result.problems)} problems"
    )
    print("\n".join(result.problems))
    return bool(result.problems)


if __name__ == "__main__":
    sys.exit(main())
