"""How long a copy takes to create and to remove, as root or as this user: `bench/copies.py`.

The target is 0.1 s for both together. Also prints the reason where this machine cannot be copied.
"""

import argparse
import json
import statistics
import sys
import time
from functools import partial

import anyio

from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import open_forkserver, open_local_box
from hermes.environments.copies import DEFAULT_LIMITS, CannotCopyError, HostCopy
from hermes.environments.copies.box_copy import copy_box
from hermes.environments.copies.machine_copy import copy_machine
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostSpec
from hermes.gym.services.python_service import shop_service

TARGET_S = 0.1


async def measure(rounds: int) -> dict[str, object]:
    results: dict[str, object] = {"target_s": TARGET_S}
    async with open_forkserver() as opener:
        for name, chosen in (("machine", opener), ("machine, first copy", open_local_box)):
            try:
                results[name] = await time_copies(partial(copy_machine, opener=chosen), rounds)
            except CannotCopyError as error:
                results[name] = str(error)
        files, service = shop_service("orders", 4321, '["a"]')
        host = HostSpec(name="web-1", units=(service,), files=tuple(files))
        async with Box([build_host_plan(host)], opener=opener) as box:
            results["box of the gym"] = await time_copies(
                partial(copy_box, box, host=0, limits=DEFAULT_LIMITS), rounds
            )
    return results


async def time_copies(make: "partial[object]", rounds: int) -> dict[str, float]:
    created, removed = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        copy: HostCopy = await make()  # type: ignore[misc]
        ready = time.perf_counter()
        await copy.close()
        created.append(ready - started)
        removed.append(time.perf_counter() - ready)
    both = [a + b for a, b in zip(created, removed, strict=True)]
    return {
        "create_s": round(statistics.median(created), 4),
        "remove_s": round(statistics.median(removed), 4),
        "both_median_s": round(statistics.median(both), 4),
        "both_best_s": round(min(both), 4),
        "both_worst_s": round(max(both), 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    results = anyio.run(measure, parser.parse_args().rounds)
    print(json.dumps(results, indent=2))
    machine = results["machine"]
    good = isinstance(machine, dict) and machine["both_median_s"] <= TARGET_S
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
