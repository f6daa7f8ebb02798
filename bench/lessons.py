"""Learning from people: twelve faults without a playbook, each fixed once by a scripted person.

usage: python bench/lessons.py [--seed N] [--variant N] [--jobs N] [--json FILE] [NAME ...]

For each fault: Hermes escalates it (no playbook, no model, no experiment), the scripted person runs
the scenario's reference fix, Hermes writes the lesson and a draft playbook. The draft then faces
the same fault and a variant with another seed: other names, paths and values. A drill is made from
the incident and proved with `drill selftest`.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.app.changes.incident_states import IncidentStates
from hermes.app.gym_commander import REPLAY_SETTINGS, build_case, run_playbooks
from hermes.app.incidents.drill import make_incident_drill
from hermes.app.incidents.lessons import LessonWriter, PeopleLesson
from hermes.app.skills.gym_replay import wait_until_settled
from hermes.core.errors import HermesError, innermost_error
from hermes.core.events.incidents import IncidentRecovered
from hermes.declared.store import StateStore
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_forkserver
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import BareEpisodeRun, open_bare_run, sandbox_rules
from hermes.gym.episodes.self_test import prove_scenario
from hermes.gym.scenario import find_scenario, load_scenario
from hermes.policy.redaction.redactor import Redactor
from hermes.skills.discovery import SkillRoot
from hermes.skills.distill.distillation import write_distilled_skill
from hermes.skills.library import SkillLibrary
from hermes.sre.checks import open_independent_checks

FAULTS = (
    "config-typo-after-edit",
    "cpu-runaway",
    "db-connections-exhausted",
    "dns-wrong",
    "memory-leak",
    "memory-limit-too-low",
    "missing-variable",
    "ownership-drift",
    "scaled-to-zero",
    "staging-settings-reloaded",
    "wrong-command",
    "wrong-upstream",
)
"""Listed before the first run."""
WITHOUT_PLAYBOOKS = replace(REPLAY_SETTINGS, reflex=False)
RUN_TIMEOUT_S = 400.0
HOLD_S = 1.0


@dataclass
class Row:
    scenario: str
    seed: int
    escalated: bool = False
    fixed_by_person: bool = False
    status: str = ""
    changed: list[str] = field(default_factory=list)
    draft: str = ""
    same: bool = False
    variant: bool = False
    collateral: list[str] = field(default_factory=list)
    unsolved: list[str] = field(default_factory=list)
    """Why the draft did not resolve it."""
    drill: bool = False
    drill_problem: str = ""
    experiments: int = 0
    learn_seconds: float = 0.0
    why: str = ""
    void: str = ""
    playbook: str = ""


class Bench:
    def __init__(self, opener: BoxOpener, arguments: argparse.Namespace) -> None:
        self._opener, self._rules = opener, sandbox_rules()
        self._seed, self._variant = arguments.seed, arguments.variant

    async def play(self, name: str) -> Row:
        row = Row(name, self._seed)
        try:
            with anyio.fail_after(RUN_TIMEOUT_S), tempfile.TemporaryDirectory() as folder:
                await self._play(row, Path(folder))
        except Exception as error:  # noqa: BLE001 - one fault must not end the others
            cause = innermost_error(error)
            row.void = f"{type(cause).__name__}: {cause}"[:300]
        return row

    async def _play(self, row: Row, folder: Path) -> None:
        scenario, store = find_scenario(row.scenario), StateStore(folder / "states")
        spec = scenario.draw_spec(row.seed)
        async with (
            open_episode(scenario, spec, opener=self._opener, states=store) as episode,
            open_bare_run(episode, self._rules) as stage,
        ):
            lesson = await self._learn(row, episode, stage, store)
            drill = folder / "drills" / f"{row.scenario}-again"
            await self._make_drill(row, episode, stage, store, drill)
        await self._prove_drill(row, drill)
        if lesson is None or lesson.draft is None:
            return
        path = folder / "skills" / lesson.category / lesson.draft.name
        write_distilled_skill(lesson.draft, path)
        row.draft, row.playbook = lesson.draft.name, lesson.draft.playbook
        row.same = await self._replay(row, path, row.seed)
        row.variant = await self._replay(row, path, self._variant)

    async def _learn(
        self, row: Row, episode: Episode, stage: BareEpisodeRun, store: StateStore
    ) -> PeopleLesson | None:
        ended = await run_playbooks((), episode, stage, WITHOUT_PLAYBOOKS)
        row.escalated = ended.outcome == "escalated"
        details = build_case(stage.responder_context(episode))
        checks = await open_independent_checks(details, stage.environment, episode.memory.probes)
        host = episode.spec.hosts[0].name
        states = IncidentStates(
            stage.environment, store, host, stage.bus.journal, stage.bus.publish
        )
        await states.keep_failing(details, checks)
        await episode.run_commands(episode.spec.reference)
        outcome = await episode.judge(window_s=HOLD_S, symptom_timeout_s=8.0)
        row.fixed_by_person = outcome.resolved
        now = datetime.now(UTC)
        await stage.bus.publish(
            IncidentRecovered(run=stage.run, incident=stage.incident, recovered_at=now)
        )
        began = time.monotonic()
        lesson = await LessonWriter(states, redact=Redactor({}).clean).write(details)
        row.learn_seconds = round(time.monotonic() - began, 1)
        if lesson is not None:
            row.status, row.why = lesson.event.status, lesson.event.why
            row.changed = list(lesson.event.changed)
            row.experiments = lesson.event.experiments
        return lesson

    async def _make_drill(
        self, row: Row, episode: Episode, stage: BareEpisodeRun, store: StateStore, folder: Path
    ) -> None:
        details = build_case(stage.responder_context(episode))
        try:
            await make_incident_drill(stage.bus.journal, store, details, folder, Redactor({}).clean)
        except HermesError as error:
            row.drill_problem = str(error)[:300]

    async def _prove_drill(self, row: Row, folder: Path) -> None:
        if row.drill_problem:
            return
        proof = await prove_scenario(load_scenario(folder), 0, opener=self._opener)
        row.drill = proof.ok
        row.drill_problem = (proof.void or "; ".join(proof.problems))[:400]

    async def _replay(self, row: Row, path: Path, seed: int) -> bool:
        """With the draft as the only skill, trusted."""
        scenario = find_scenario(row.scenario)
        library = SkillLibrary([SkillRoot(path.parent, "user")], {path.name: "trusted"})
        spec = scenario.draw_spec(seed)
        async with (
            open_episode(scenario, spec, opener=self._opener) as episode,
            open_bare_run(episode, self._rules) as stage,
        ):
            await wait_until_settled(episode)
            ended = await run_playbooks([library.find(path.name)], episode, stage)
            outcome = await episode.judge(window_s=HOLD_S, symptom_timeout_s=3.0)
        if not outcome.resolved:
            row.unsolved.append(f"seed {seed}: {ended.reason}"[:300])
        row.collateral += [f"seed {seed}: {each}" for each in outcome.damage]
        return outcome.resolved


def show(row: Row) -> None:
    marks = [
        f"lesson {row.status or '-':10}",
        f"draft {'yes' if row.draft else 'no':3}",
        f"same {'yes' if row.same else 'no':3}",
        f"variant {'yes' if row.variant else 'no':3}",
        f"drill {'yes' if row.drill else 'no':3}",
    ]
    notes = [row.void, row.why, row.drill_problem, *row.unsolved, *row.collateral]
    text = "  ".join(marks)
    detail = " | ".join(each for each in notes if each).replace("\n", " ")[:400]
    print(f"{row.scenario:26} {text} {row.learn_seconds:5.1f} s  {detail}", flush=True)


def summarise(rows: list[Row]) -> None:
    valid = [row for row in rows if not row.void]
    print(f"faults      {len(rows)}, void {len(rows) - len(valid)}")
    print(f"escalated   {sum(row.escalated for row in valid)}")
    print(f"by a person {sum(row.fixed_by_person for row in valid)}")
    print(f"drafts      {sum(bool(row.draft) for row in valid)}")
    print(f"same fault  {sum(row.same for row in valid)}")
    print(f"variant     {sum(row.variant for row in valid)}")
    print(f"collateral  {sum(bool(row.collateral) for row in valid)}")
    print(f"drills      {sum(row.drill for row in valid)}")


async def run_all(arguments: argparse.Namespace) -> list[Row]:
    rows: list[Row] = []
    limit = anyio.CapacityLimiter(arguments.jobs)
    async with open_forkserver() as opener, anyio.create_task_group() as group:
        bench = Bench(opener, arguments)

        async def play_one(name: str) -> None:
            async with limit:
                row = await bench.play(name)
            show(row)
            rows.append(row)

        for name in arguments.names or FAULTS:
            group.start_soon(play_one, name)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--variant", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    rows = anyio.run(run_all, arguments)
    summarise(rows)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
