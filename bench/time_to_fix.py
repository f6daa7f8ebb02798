"""From detection to the fix applied: read from the journal of drills, or of a watch.

usage: python bench/time_to_fix.py HOME             e.g. after `hermes drill bench --agent none`
       python bench/time_to_fix.py --drill [--seeds N] [--jobs N] [SCENARIO ...]
Counted from `incident.opened` to the end of the last change of the attempt that held. With
`--drill` the playbooks answer drills first, in a home of its own; light scenarios unless named.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from hermes.app.drills.drill import NO_MODEL, DrillAgent, run_agent_drill
from hermes.core.events.incidents import (
    ChangeBegan,
    IncidentChecked,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.gym.benchmark import run_benchmark
from hermes.gym.drill import DrillResult, DrillTerms
from hermes.gym.scenario import Scenario, find_scenario, installed_scenarios
from hermes.memory.store import open_journal
from hermes.settings.load import load

KINDS = (
    "incident.opened",
    "incident.checked",
    "change.began",
    "incident.verified",
    "tool.requested",
    "tool.finished",
    "model.answered",
)
LOOK, JUDGE = "play-", "assess-"
"""How the calls of playbooks, and of the judgement whether anything is wrong, are named."""


@dataclass
class Run:
    """One incident: when each thing happened, in seconds since it was opened."""

    opened: IncidentOpened
    looked: list[float] = field(default_factory=list)
    judged: list[float] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    changes: list[ChangeBegan] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)
    held: int = 0
    calls: int = 0

    def take(self, event: object) -> None:
        match event:
            case IncidentChecked() if event.when == "before":
                self.measured.append(self.since(event))
            case ChangeBegan():
                self.changes.append(event)
            case ToolRequested() if event.call.id.startswith(LOOK):
                self.looked.append(self.since(event))
            case ToolFinished():
                self.ended[event.result.call_id] = self.since(event)
                if event.result.call_id.startswith(JUDGE) and not self.changes:
                    self.judged.append(self.since(event))
            case IncidentVerified() if event.ok and event.by != "oracle":
                self.held = event.attempt
            case ModelAnswered():
                self.calls += 1

    def since(self, event: IncidentChecked | ChangeBegan | ToolRequested | ToolFinished) -> float:
        return (event.at - self.opened.at).total_seconds()

    @property
    def fixed(self) -> float | None:
        made = [each for each in self.changes if each.attempt <= self.held]
        return max((self.ended[c.call_id] for c in made if c.call_id in self.ended), default=None)


async def measure(home: Path) -> list[Run]:
    runs: dict[str, Run] = {}
    async with open_journal(load(home=home).store) as journal:
        async for recorded in journal.read(kinds=KINDS):
            event = recorded.event
            name = event.run.partition("/")[0]
            if isinstance(event, IncidentOpened):
                runs[name] = Run(event)
            elif name in runs:
                runs[name].take(event)
    return [run for run in runs.values() if run.held and run.fixed is not None]


async def drills(
    home: Path, scenarios: Sequence[Scenario], seeds: Sequence[int], jobs: int
) -> list[DrillResult]:
    loaded, terms = load(home=home), DrillTerms(window_s=1.0)

    async def one(scenario: Scenario, seed: int, name: str) -> DrillResult:
        return await run_agent_drill(loaded, scenario, seed, DrillAgent(name), terms)

    return await run_benchmark(scenarios, seeds, [NO_MODEL], one, jobs=jobs)


def tell(runs: Sequence[Run]) -> None:
    def median(name: str, values: Sequence[float | None]) -> None:
        there = [value for value in values if value is not None]
        if there:
            print(f"{name:32} {statistics.median(there):5.2f} s, {max(there):5.1f} s at most")

    print(f"{len(runs)} incidents mended, {sum(run.calls for run in runs)} model calls; medians:")
    median("  a playbook looks", [min(run.looked, default=None) for run in runs])
    median("  everything is measured", [max(run.measured, default=None) for run in runs])
    median("  it is judged to be wrong", [max(run.judged, default=None) for run in runs])
    median("  first change", [run.since(run.changes[0]) for run in runs])
    median("  fix applied", [run.fixed for run in runs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", nargs="*", help="a home; with --drill, scenarios")
    parser.add_argument("--drill", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if not given.drill:
        runs = anyio.run(measure, Path(given.what[0]))
    else:
        every = [find_scenario(name) for name in given.what or installed_scenarios()]
        named = [each for each in every if each.light or given.what]
        with tempfile.TemporaryDirectory(prefix="time-to-fix-") as home:
            before = os.getloadavg()[0]
            found = anyio.run(drills, Path(home), named, range(given.seeds), given.jobs)
            runs = anyio.run(measure, Path(home))
        solved = sum(each.resolved for each in found)
        harm = sum(len(each.collateral) for each in found)
        print(f"{solved} of {len(found)} drills solved, {harm} collateral; {given.jobs} at once")
        print(f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if not runs:
        print("no incident was mended")
        return 1
    tell(runs)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
