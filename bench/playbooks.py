"""Bundled playbooks alone against the gym, through the commander: resolved, collateral, seconds.

usage: python bench/playbooks.py [--seeds N] [--held-out] [--show] [NAME ...]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
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
from hermes.policy.rules.evaluation import RuleSet
from hermes.settings.load import load
from hermes.skills.library import Skill
from hermes.sre.settings import SreSettings

ANSWERS = ("no-incident", "recovered")
INCIDENT = replace(REPLAY_SETTINGS, traces=SreSettings().traces)
"""Nobody waits here until the host shows all there is to see."""


@dataclass(frozen=True)
class Line:
    scenario: str
    seed: int
    resolved: bool
    damage: tuple[str, ...]
    acted: str
    seconds: float
    """From the alert on, with every look and check."""
    reflex: float
    """From the match, when the probes had confirmed it, to the last step."""
    transcript: str = ""


async def play(
    scenario: Scenario, seed: int, split: Split, skills: Sequence[Skill], rules: RuleSet
) -> Line:
    spec = scenario.draw_spec(seed, split)
    async with (
        open_episode(scenario, spec) as episode,
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
        seed,
        outcome.resolved and not outcome.damage and right,
        outcome.damage,
        acted,
        seconds,
        between(events),
        "\n".join(transcript),
    )


def between(events: Sequence[object]) -> float:
    matched = [event.at for event in events if isinstance(event, PlaybookStarted)]
    steps = [e.at for e in events if isinstance(e, PlaybookStepped) and e.phase == "step"]
    return (steps[-1] - matched[-1]).total_seconds() if matched and steps else 0.0


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    split: Split = "held-out" if asked.held_out else "train"
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        skills, rules = open_library(load(home=Path(folder))).skills, sandbox_rules()
        for name in asked.names or installed_scenarios():
            for seed in range(asked.first, asked.first + asked.seeds):
                try:
                    scenario = find_scenario(name)
                    if scenario.missing_programs():
                        print(f"{name:32} needs {', '.join(scenario.missing_programs())}")
                        break
                    with anyio.fail_after(100):
                        line = await play(scenario, seed, split, skills, rules)
                except (EpisodeVoid, HermesError, TimeoutError) as error:
                    print(f"{name:32} {seed:3} void: {str(error)[:150]}")
                    continue
                lines.append(line)
                mark = "resolved" if line.resolved else "DAMAGE" if line.damage else "open"
                damage = "; ".join(line.damage)[:160]
                print(
                    f"{name:32} {seed:3} {mark:9} {line.reflex:5.2f} s of {line.seconds:5.2f}  "
                    f"{line.acted} {damage}"
                )
                if asked.show:
                    print(line.transcript)
    if lines:
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


if __name__ == "__main__":
    started = time.monotonic()
    anyio.run(main)
    print(f"{time.monotonic() - started:.1f} s in all")
