"""Bundled playbooks alone against the gym, through the commander: resolved, collateral, seconds.

usage: python bench/playbooks.py [--seeds N] [--held-out] [--show] [--json FILE]
                                 [--supervisor KIND ...] [--sample] [NAME ...]

With several `--supervisor`, a table of scenarios and supervisors follows. `--sample` are scenarios
that each of them can express, chosen before any was played under another supervisor.
"""

import argparse
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.app.gym_commander import REPLAY_SETTINGS, run_playbooks
from hermes.app.skills.library import open_library
from hermes.core.errors import HermesError
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.gym.episodes.episode import EpisodeVoid, open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.random_source import Split
from hermes.gym.scenario import Scenario, find_scenario, installed_scenarios
from hermes.gym.supervisors.hosts import (
    OWN_SYSTEMCTL,
    SUPERVISOR_KINDS,
    missing_supervisor_programs,
)
from hermes.policy.rules.evaluation import RuleSet
from hermes.settings.load import load
from hermes.skills.library import Skill
from hermes.sre.settings import SreSettings

ANSWERS = ("no-incident", "recovered")
SAMPLE = (
    "backlog-slow-consumer",
    "config-typo-after-edit",
    "corrupted-data-with-backup",
    "cpu-runaway",
    "cron-failing-silently",
    "deleted-but-open-file",
    "disk-full-runaway-log",
    "full-dev-shm",
    "hung-worker",
    "look-alike-other-cause",
    "ownership-drift",
    "scaled-to-zero",
    "service-crashed",
    "unit-failed",
)
RUN_TIMEOUT_S = 200.0
INCIDENT = replace(REPLAY_SETTINGS, traces=SreSettings().traces)
"""Nobody waits here until the host shows all there is to see."""


@dataclass(frozen=True)
class Line:
    scenario: str
    supervisor: str
    seed: int
    resolved: bool
    damage: tuple[str, ...]
    acted: str
    seconds: float
    """From the alert on, with every look and check."""
    reflex: float
    """From the match, when the probes had confirmed it, to the last step."""
    transcript: str = ""
    void: str = ""
    load: float = 0.0
    """The load of the machine at the end: commands that time out may be due to it."""

    @property
    def mark(self) -> str:
        if self.void:
            return "void"
        return "resolved" if self.resolved else "DAMAGE" if self.damage else "open"


async def play(
    scenario: Scenario,
    supervisor: str,
    seed: int,
    split: Split,
    skills: Sequence[Skill],
    rules: RuleSet,
) -> Line:
    spec = scenario.draw_spec(seed, split)
    async with (
        open_episode(scenario, spec, supervisor=supervisor) as episode,
        open_bare_run(episode, rules) as episode_run,
    ):
        await episode_run.environment.run("true")
        began = time.monotonic()
        ending = await run_playbooks(skills, episode, episode_run, INCIDENT)
        seconds = time.monotonic() - began
        outcome = await episode.judge()
        events = [each.event async for each in episode_run.bus.journal.read()]
    ended = [event for event in events if isinstance(event, PlaybookEnded)]
    acted = ", ".join(event.skill for event in ended if event.outcome == "applied") or "-"
    if ending.outcome in ANSWERS:
        acted = "all clear"
    right = (ending.outcome in ANSWERS) == (spec.answer in ANSWERS)
    wrong = [f"{c.check}: {c.detail}" for c in (*outcome.symptoms, *outcome.cured) if not c.ok]
    transcript = [
        f"{spec.alert.title!r} {spec.alert.labels}: {ending.outcome} {ending.reason}",
        *(f"   {e.outcome:9} {e.skill}: {e.step} {e.detail[:300]}" for e in ended),
        f"   {wrong[:4]}",
    ]
    return Line(
        scenario.name,
        supervisor,
        seed,
        outcome.resolved and not outcome.damage and right,
        outcome.damage,
        acted,
        seconds,
        between(events),
        "\n".join(transcript),
        load=os.getloadavg()[0],
    )


def between(events: Sequence[object]) -> float:
    matched = [event.at for event in events if isinstance(event, PlaybookStarted)]
    steps = [e.at for e in events if isinstance(e, PlaybookStepped) and e.phase == "step"]
    return (steps[-1] - matched[-1]).total_seconds() if matched and steps else 0.0


async def play_all(asked: argparse.Namespace) -> list[Line]:
    split: Split = "held-out" if asked.held_out else "train"
    names = asked.names or (SAMPLE if asked.sample else installed_scenarios())
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        skills, rules = open_library(load(home=Path(folder))).skills, sandbox_rules()
        seeds = range(asked.first, asked.first + asked.seeds)
        for name, seed, kind in itertools.product(names, seeds, asked.supervisor):
            scenario = find_scenario(name)
            missing = (*scenario.missing_programs(), *missing_supervisor_programs(kind))
            if missing:
                print(f"{name:32} {kind:12} needs {', '.join(missing)}")
                continue
            try:
                with anyio.fail_after(RUN_TIMEOUT_S):
                    line = await play(scenario, kind, seed, split, skills, rules)
            except (EpisodeVoid, HermesError, TimeoutError) as error:
                why = str(error)[:300] or "it took too long"
                line = Line(
                    name, kind, seed, False, (), "-", 0.0, 0.0, void=why, load=os.getloadavg()[0]
                )
            lines.append(line)
            print(
                f"{name:32} {kind:12} {seed:3} {line.mark:9} {line.reflex:5.2f} s of "
                f"{line.seconds:5.2f}  load {line.load:.0f}  {line.acted} "
                f"{'; '.join(line.damage)[:160]}{line.void}",
                flush=True,
            )
            if asked.show:
                print(line.transcript, flush=True)
    return lines


def print_table(lines: Sequence[Line], kinds: Sequence[str]) -> None:
    print(f"\n{'scenario':32}" + "".join(f"{kind:>12}" for kind in kinds))
    for name in dict.fromkeys(line.scenario for line in lines):
        cells = []
        for kind in kinds:
            own = [line for line in lines if (line.scenario, line.supervisor) == (name, kind)]
            played = [line for line in own if not line.void]
            solved = sum(line.resolved for line in played)
            cells.append(f"{solved}/{len(played)}" if played else "void" if own else "-")
        print(f"{name:32}" + "".join(f"{cell:>12}" for cell in cells))


def print_totals(lines: Sequence[Line]) -> None:
    lines = [line for line in lines if not line.void]
    if not lines:
        return
    solved = sum(line.resolved for line in lines)
    harmed = sum(bool(line.damage) for line in lines)
    mended = [line for line in lines if line.resolved and line.acted != "-"]
    reflexes = [line.reflex for line in mended] or [0.0]
    whole = [line.seconds for line in mended] or [0.0]
    print(
        f"resolved {solved}/{len(lines)} = {solved / len(lines):.0%}, collateral {harmed}; "
        f"median {statistics.median(reflexes):.2f} s from match to last step, "
        f"{statistics.median(whole):.2f} s from alert to verified"
    )


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    parser.add_argument("--supervisor", action="append", choices=SUPERVISOR_KINDS)
    asked = parser.parse_args()
    asked.supervisor = asked.supervisor or [OWN_SYSTEMCTL]
    lines = await play_all(asked)
    if len(asked.supervisor) > 1:
        print_table(lines, asked.supervisor)
    print_totals(lines)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(line) for line in lines], indent=1))


if __name__ == "__main__":
    started = time.monotonic()
    anyio.run(main)
    print(f"{time.monotonic() - started:.1f} s in all")
