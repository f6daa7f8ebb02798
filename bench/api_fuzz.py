"""Requests that schemathesis makes from the document of the API, sent to a real server.

usage: python bench/api_fuzz.py [--requests 10000]

Every answer must be documented, match its schema and be no server error.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "app" / "web")]

from api_fuzzing import fuzz_api  # noqa: E402 - the path is set above
from api_server import api_server, says  # noqa: E402 - the path is set above

PER_ROUND = 50
"""Requests to each operation before the next round, which begins with another seed."""


async def fuzz(folder: Path, wanted: int) -> tuple[Counter[int], list[str]]:
    statuses: Counter[int] = Counter()
    problems: list[str] = []
    async with api_server(folder, [says("all is well")] * wanted) as server:
        seed = 0
        while sum(statuses.values()) < wanted:
            result = await fuzz_api(server, PER_ROUND, seed)
            statuses += result.statuses
            problems += result.problems
            seed += 1
    return statuses, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=10_000)
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        statuses, problems = anyio.run(fuzz, Path(folder), chosen.requests)
    errors = sum(count for status, count in statuses.items() if status >= 500)
    print(
        f"{sum(statuses.values())} requests in {time.monotonic() - began:.0f} s: "
        f"{dict(sorted(statuses.items()))}, {errors} server errors, {len(problems)} problems"
    )
    print("\n".join(problems[:20]))
    return bool(problems or errors)


if __name__ == "__main__":
    sys.exit(main())
