"""Measures the gym: the time to open and close a box, and episodes resolved per second.

`python bench/gym.py [SECONDS [WINDOW]]` prints one JSON row for each figure. The rate is of light
scenarios with the reference agent through executor, policy and journal; the window for which a
fix must hold is printed.
"""

import json
import os
import statistics
import sys
import time
from functools import partial

import anyio

from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.local_backend import open_forkserver
from hermes.gym.drill import DrillResult, DrillTerms, run_drill
from hermes.gym.episodes.baseline_responders import reference_responder
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import Scenario, installed_scenarios, load_scenario

CREATE, RATE, WINDOW, WORKERS = 0.5, 3.0, 0.2, 6
SIMPLE = "config-typo-after-edit"


def row(figure: str, value: float, unit: str, limit: float, **more: object) -> None:
    print(json.dumps({"figure": figure, "value": round(value, 3), "unit": unit, "limit": limit,
                      "held": value <= limit, "load": round(os.getloadavg()[0], 1),
                      **more}), flush=True)  # fmt: skip


async def create_and_destroy(opener: BoxOpener, rounds: int = 15) -> None:
    plans = [
        build_host_plan(host)
        for host in load_scenario(installed_scenarios()[SIMPLE]).draw_spec(1).hosts
    ]
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        async with Box(plans, opener=opener):
            pass
        took.append(time.perf_counter() - started)
    value = statistics.median(took)
    row("episode: host made and gone, median", value, "s", CREATE, slowest=round(max(took), 3))


async def episodes(
    scenarios: list[Scenario], seconds: float, window: float, opener: BoxOpener
) -> None:
    """Runs several at a time: half of an episode is waiting for services."""
    open_run, terms = (
        partial(open_bare_run, rules=sandbox_rules()),
        DrillTerms(window_s=window, symptom_timeout_s=5.0),
    )
    done: list[DrillResult] = []
    turn = iter(range(1_000_000))
    until = time.perf_counter() + seconds

    async def worker() -> None:
        while time.perf_counter() < until:
            number = next(turn)
            scenario = scenarios[number % len(scenarios)]
            result = await run_drill(
                scenario, number, open_run, reference_responder, terms, opener=opener
            )
            done.append(result)

    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(WORKERS):
            group.start_soon(worker)
    took = time.perf_counter() - started
    resolved = sum(each.resolved for each in done)
    each = took / max(resolved, 1)
    names = [scenario.name for scenario in scenarios]
    row(
        f"a light episode, mended and scored (window {window:g} s)",
        each,
        "s",
        round(1 / RATE, 3),
        a_second=round(1 / each, 2),
        resolved=f"{resolved} of {len(done)}",
        scenarios=names,
    )


async def main(seconds: float, window: float) -> None:
    found = [load_scenario(folder) for folder in installed_scenarios().values()]
    light = [each for each in found if each.light and each.draw_spec(0).answer == "fix"]
    quick = [each for each in light if not each.draw_spec(0).settle][:10]
    async with open_forkserver() as opener:
        await create_and_destroy(opener)
        await episodes(quick, seconds, window, opener)


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    anyio.run(main, given[0] if given else 20.0, given[1] if len(given) > 1 else WINDOW)
