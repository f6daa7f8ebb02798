"""Fixes with and without a test on a copy before, on the gym's own scenarios with the same seeds.

usage: python bench/fix_tests.py [--seeds N] [--first N] [--jobs N] [--only auto|off]
                                 [--json FILE] [NAME ...]

Playbooks and experiments work, no model does. A refuted fix is compared with the run without
tests: it was refuted correctly if that run did not resolve the incident with it.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import anyio
from experiments import CAUSED_BY_A_CHANGE, OTHER_INCIDENTS
from msgspec.structs import replace

from hermes.app.changes.cause_search import ExperimentFinder, ExperimentHost
from hermes.app.copies.fix_tests import CopyFixTester
from hermes.app.gym_commander import REPLAY_SETTINGS, run_playbooks
from hermes.app.skills.library import open_library
from hermes.core.errors import HermesError
from hermes.core.events.experiments import FixTested
from hermes.core.events.incidents import ChangeBegan, IncidentClosed
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_forkserver
from hermes.gym.episodes.episode import EpisodeVoid, open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.policy.redaction.redactor import Redactor
from hermes.policy.rules.evaluation import RuleSet
from hermes.settings.load import load
from hermes.skills.library import Skill

RUN_TIMEOUT_S = 240.0
Mode = Literal["auto", "off"]


@dataclass
class Row:
    scenario: str
    seed: int
    mode: Mode
    resolved: bool = False
    claimed: bool = False
    """The incident was closed as resolved."""
    fixed_by: list[str] = field(default_factory=list)
    """Who changed something on the host."""
    tests: list[tuple[str, str, float, str]] = field(default_factory=list)
    """Of each test: the fix, its outcome, its seconds, what the checks said."""
    seconds: float = 0.0
    """From the alert to the end of the incident."""
    collateral: list[str] = field(default_factory=list)
    why: str = ""
    void: str = ""


async def play(
    name: str, seed: int, mode: Mode, skills: list[Skill], rules: RuleSet, opener: BoxOpener
) -> Row:
    scenario, row = find_scenario(name), Row(name, seed, mode)
    spec = scenario.draw_spec(seed, "train")
    settings = replace(REPLAY_SETTINGS, test_fixes=mode)
    with tempfile.TemporaryDirectory() as folder:
        store = StateStore(Path(folder))
        try:
            async with (
                open_episode(scenario, spec, opener=opener, states=store) as episode,
                open_bare_run(episode, rules) as stage,
            ):
                redact = Redactor({}).clean
                host = ExperimentHost.from_environment(stage.environment, store)
                finder = ExperimentFinder(host, redact=redact)
                tester = CopyFixTester(stage.environment, store, redact=redact)
                began = time.monotonic()
                with anyio.fail_after(RUN_TIMEOUT_S):
                    await run_playbooks(skills, episode, stage, settings, finder, tester)
                row.seconds = time.monotonic() - began
                outcome = await episode.judge(window_s=1.0, symptom_timeout_s=3.0)
                row.resolved, row.collateral = outcome.resolved, list(outcome.damage)
                events = [each.event async for each in stage.bus.journal.read(run=stage.run)]
        except (EpisodeVoid, HermesError, TimeoutError) as error:
            row.void = f"{type(error).__name__}: {error}"[:200]
            return row
    for event in events:
        if isinstance(event, FixTested):
            row.tests.append((event.fix, event.outcome, event.seconds, event.detail))
        elif isinstance(event, ChangeBegan) and event.by not in row.fixed_by:
            row.fixed_by.append(event.by)
        elif isinstance(event, IncidentClosed):
            row.claimed, row.why = event.outcome == "resolved", event.reason[:200]
    return row


def show(row: Row) -> None:
    what = row.void or ("resolved" if row.resolved else "NOT resolved")
    tests = "; ".join(f"{fix}: {outcome} {seconds:.1f}s" for fix, outcome, seconds, _ in row.tests)
    by = ",".join(row.fixed_by)
    print(
        f"{row.mode:4} {row.scenario:28} {row.seed} {what:13} {row.seconds:5.1f}s {by:40} {tests}",
        flush=True,
    )


def summarise(rows: list[Row]) -> None:
    valid = [row for row in rows if not row.void]
    off = {(row.scenario, row.seed): row for row in valid if row.mode == "off"}
    auto = {(row.scenario, row.seed): row for row in valid if row.mode == "auto"}
    both = sorted(off.keys() & auto.keys())
    print()
    for mode, found in (("off", off), ("auto", auto)):
        done = [row for row in found.values() if row.resolved]
        harmed = sum(bool(row.collateral) for row in found.values())
        false = sum(row.claimed and not row.resolved for row in found.values())
        print(f"{mode:5} resolved {len(done)} of {len(found)}, collateral {harmed}, false {false}")
        if done:
            print(f"      median {statistics.median(row.seconds for row in done):.1f} s")
    tests = [(auto[key], each) for key in both for each in auto[key].tests]
    for outcome in ("recovered", "helped", "failed", "not-reproduced", "unclear"):
        print(f"tests {outcome:15} {sum(each[1] == outcome for _, each in tests)}")
    refuted = [(row, each) for row, each in tests if each[1] == "failed"]
    wrong = [
        (row.scenario, row.seed, each[0])
        for row, each in refuted
        if off[row.scenario, row.seed].resolved
        and off[row.scenario, row.seed].fixed_by == [each[0]]
    ]
    print(f"refuted correctly     {len(refuted) - len(wrong)} of {len(refuted)}; wrongly: {wrong}")
    if both:
        added = [auto[key].seconds - off[key].seconds for key in both if auto[key].tests]
        spent = [sum(each[2] for each in auto[key].tests[:1]) for key in both if auto[key].tests]
        if added:
            print(f"seconds added         median {statistics.median(added):.1f}")
            print(
                f"seconds of first test median {statistics.median(spent):.1f}, max {max(spent):.1f}"
            )


async def run_all(arguments: argparse.Namespace) -> list[Row]:
    names = arguments.names or [*CAUSED_BY_A_CHANGE, *OTHER_INCIDENTS]
    modes: list[Mode] = [arguments.only] if arguments.only else ["off", "auto"]
    rows: list[Row] = []
    rules, limit = sandbox_rules(), anyio.CapacityLimiter(arguments.jobs)
    with tempfile.TemporaryDirectory() as folder:
        skills = list(open_library(load(home=Path(folder))).skills)

    async def play_one(name: str, seed: int, opener: BoxOpener) -> None:
        async with limit:
            for mode in modes:
                row = await play(name, seed, mode, skills, rules, opener)
                show(row)
                rows.append(row)

    async with open_forkserver() as opener, anyio.create_task_group() as group:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            for name in names:
                group.start_soon(play_one, name, seed, opener)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("auto", "off"), default="")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    rows = anyio.run(run_all, arguments)
    summarise(rows)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
