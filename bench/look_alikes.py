"""Faults that look like what a bundled playbook is for, and have another cause.

Each is played through the commander with the bundled playbooks and no model. Reported are the
changes that were left although the fault was not fixed, collateral damage, false claims of
success, and times.

usage: python bench/look_alikes.py [--runs N] [--seeds N] [--first N] [--jobs N] [--folder FOLDER]
                                   [--check] [--json] [--show] [--supervisor KIND]
                                   [NAME or PLAYBOOK ...]
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from look_alike_host import host_state
from look_alike_kit import FOLDER, LookAlike, load, names, site_for

from hermes.app.gym_commander import run_playbooks
from hermes.app.skills.library import open_library
from hermes.core.errors import HermesError
from hermes.core.events.skills import PlaybookEnded
from hermes.core.incident import read_incident
from hermes.gym.episodes.episode import Episode, EpisodeOutcome, EpisodeVoid, open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.scenario import Scenario
from hermes.gym.supervisors.hosts import OWN_SYSTEMCTL, SUPERVISOR_KINDS
from hermes.policy.rules.evaluation import RuleSet
from hermes.settings.load import load as load_settings
from hermes.skills.library import Skill
from hermes.sre.settings import SreSettings, VerifySettings

CLAIMS = ("resolved", "recovered", "no-incident")
SETTINGS = SreSettings(
    verify=VerifySettings(window=3.0, longest_window=40.0, patience=5.0, every=0.5),
    traces=2.0,
    agents=False,
)
JUDGE_WINDOW_S = 3.0
RUN_TIMEOUT_S = 240.0
RESTART_ONLY = ("systemctl reset-failed", "systemctl restart", "systemctl reload")


class Run(msgspec.Struct, kw_only=True):
    name: str
    seed: int
    void: str = ""
    outcome: str = ""
    healed: bool = False
    acted: list[str] = msgspec.field(default_factory=list)
    left: list[str] = msgspec.field(default_factory=list)
    collateral: list[str] = msgspec.field(default_factory=list)
    false_claim: bool = False
    seconds: float = 0.0
    notes: list[str] = msgspec.field(default_factory=list)


@asynccontextmanager
async def opened(
    name: str, seed: int, folder: Path, supervisor: str
) -> AsyncGenerator[tuple[LookAlike, Episode], None]:
    module = load(name, folder)
    look_alike: LookAlike = module.draw(site_for(name, seed))
    scenario = Scenario(
        name=name,
        group="judgement",
        summary=str(module.__doc__),
        draw=lambda rng: look_alike.spec,
        needs=getattr(module, "NEEDS", ()),
    )
    if missing := scenario.missing_programs():
        raise EpisodeVoid(f"this machine lacks {', '.join(missing)}")
    async with open_episode(scenario, look_alike.spec, supervisor=supervisor) as episode:
        yield look_alike, episode


async def check(name: str, seed: int, folder: Path, supervisor: str) -> Run:
    """Whether the look-alike is fair: healthy, broken by the fault, and healthy after its fix."""
    async with opened(name, seed, folder, supervisor) as (look_alike, episode):
        transcript = await episode.run_commands(look_alike.spec.reference)
        outcome = await episode.judge(
            window_s=JUDGE_WINDOW_S + look_alike.rhythm_s, recovery_timeout_s=8.0
        )
    wrong = [
        f"{each.check}: {each.detail}"
        for each in (*outcome.symptoms, *outcome.cured, *outcome.collateral)
        if not each.ok
    ]
    why = (
        "" if outcome.resolved else f"its own fix does not resolve it: {wrong}\n{transcript[-600:]}"
    )
    return Run(name=name, seed=seed, void=why, healed=outcome.resolved)


async def play(
    name: str,
    seed: int,
    folder: Path,
    supervisor: str,
    skills: Sequence[Skill],
    rules: RuleSet,
) -> Run:
    async with (
        opened(name, seed, folder, supervisor) as (look_alike, episode),
        open_bare_run(episode, rules) as episode_run,
    ):
        faulty = await episode.oracle.run_checks(look_alike.spec.collateral)
        harmed = {each.check for each in faulty if not each.ok}  # by the fault, not by Hermes
        before = await host_state(episode.box, look_alike)
        began = time.monotonic()
        ending = await run_playbooks(skills, episode, episode_run, SETTINGS)
        seconds = time.monotonic() - began
        after = await host_state(episode.box, look_alike)
        changed = [*await before.differences(after, episode.box)]
        outcome = await episode.judge(
            window_s=JUDGE_WINDOW_S + look_alike.rhythm_s, recovery_timeout_s=8.0
        )
        events = [each.event async for each in episode_run.bus.journal.read()]
        now = await read_incident(episode_run.bus.journal, episode_run.run)
    well = bool(outcome.cured) and all(each.ok for each in (*outcome.symptoms, *outcome.cured))
    stands = [
        f"stands by the journal: {change.command.strip()[:160]}"
        for change in (now.changes if now else ())
        if change.undone != "yes" and not change.command.strip().startswith(RESTART_ONLY)
    ]
    ended = [event for event in events if isinstance(event, PlaybookEnded)]
    return Run(
        name=name,
        seed=seed,
        outcome=ending.outcome,
        healed=well,
        acted=[event.skill for event in ended if event.outcome not in ("declined", "refused")],
        left=[] if well else [*changed, *stands],
        collateral=[*_damage(outcome, harmed), *before.kept_differently(after)],
        false_claim=ending.outcome in CLAIMS and not well,
        seconds=round(seconds, 2),
        notes=[
            ending.reason[:300],
            *(f"{e.outcome} {e.skill}: {e.detail[:200]}" for e in ended if e.outcome != "declined"),
        ],
    )


def _damage(outcome: EpisodeOutcome, harmed: set[str]) -> list[str]:
    return [
        f"{each.check}: {each.detail}"
        for each in outcome.collateral
        if not each.ok and each.check not in harmed
    ]


def shown(run: Run, *, notes: bool) -> str:
    if run.void:
        return f"{run.name:28} {run.seed:3} void: {run.void[:700]}"
    marks = [
        "healed" if run.healed else "",
        f"LEFT BEHIND {run.left[:4]}" if run.left else "",
        f"COLLATERAL {run.collateral[:3]}" if run.collateral else "",
        "FALSE CLAIM" if run.false_claim else "",
    ]
    told = "; ".join(mark for mark in marks if mark) or "as it was"
    line = f"{run.name:28} {run.seed:3} {run.outcome:11} {run.seconds:5.1f} s  "
    line += f"{', '.join(run.acted) or '-'}  {told}"
    return "\n".join([line, *(f"    {note}" for note in run.notes)]) if notes else line


def summary(runs: Sequence[Run]) -> str:
    valid = [run for run in runs if not run.void]
    if not valid:
        return "nothing was played"
    seconds = sorted(run.seconds for run in valid)
    return (
        f"{len(valid)} runs of {len({run.name for run in valid})} look-alikes, "
        f"{len(runs) - len(valid)} void: "
        f"left behind {sum(bool(run.left) for run in valid)}, "
        f"collateral {sum(bool(run.collateral) for run in valid)}, "
        f"false claims {sum(run.false_claim for run in valid)}, "
        f"a playbook acted {sum(bool(run.acted) for run in valid)}, "
        f"healed {sum(run.healed for run in valid)}; "
        f"median {statistics.median(seconds):.1f} s, longest {seconds[-1]:.1f} s"
    )


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=0, help="stop after so many; 0: all")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--check", action="store_true", help="only prove that each is fair")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--supervisor", choices=SUPERVISOR_KINDS, default=OWN_SYSTEMCTL)
    parser.add_argument("--show", action="store_true")
    asked = parser.parse_args()
    chosen = [
        name
        for name in names(asked.folder)
        if not asked.names or name in asked.names or name.rpartition("_")[0] in asked.names
    ]
    seeds = range(asked.first, asked.first + asked.seeds)
    plan = [(name, seed) for seed in seeds for name in chosen]
    plan = plan[: asked.runs or None]
    runs: list[Run] = []
    seats = anyio.Semaphore(asked.jobs)
    with tempfile.TemporaryDirectory() as folder:
        skills, rules = open_library(load_settings(home=Path(folder))).skills, sandbox_rules()

        async def one(name: str, seed: int) -> None:
            async with seats:
                try:
                    with anyio.fail_after(RUN_TIMEOUT_S):
                        run = await (
                            check(name, seed, asked.folder, asked.supervisor)
                            if asked.check
                            else play(name, seed, asked.folder, asked.supervisor, skills, rules)
                        )
                except (EpisodeVoid, HermesError, TimeoutError) as error:
                    run = Run(name=name, seed=seed, void=str(error) or "it took too long")
                runs.append(run)
                if not asked.json:
                    print(shown(run, notes=asked.show), flush=True)

        async with anyio.create_task_group() as group:
            for name, seed in plan:
                group.start_soon(one, name, seed)
    if asked.json:
        print(json.dumps([msgspec.to_builtins(run) for run in runs], indent=1))
    else:
        print(f"{sum(run.healed for run in runs)} fair" if asked.check else summary(runs))


if __name__ == "__main__":
    anyio.run(main)
