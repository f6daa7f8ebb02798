"""How a command reaches the lives of skills: the home, its journal, and who asks."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import click

from hermes.app.policy import user_name
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.app.skills.workshop import SkillWorkshop
from hermes.cli.context import load_settings
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, note, print_fields, print_json, print_table
from hermes.cli.skills.context import SKILLS_RUN, load_library
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.protocols import Model
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings
from hermes.skills.compiler.build import CompiledSkill
from hermes.skills.compiler.draft import PythonSkillDraft, read_draft_folder
from hermes.skills.compiler.registry import RegisteredSkill
from hermes.skills.distill.skill_draft import DistilledSkill
from hermes.skills.history import copy_skill
from hermes.skills.library import SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayPair, SkillEvaluation
from hermes.skills.lifecycle.status import SkillStatus

LifecycleResult = TypeVar("LifecycleResult")


class SkillLifecycleContext:
    """Open for one command."""

    def __init__(
        self, loaded: LoadedSettings, library: SkillLibrary, journal: JournalStore
    ) -> None:
        self.loaded, self.library, self.journal = loaded, library, journal
        self.publish = Bus(journal, clean=SecretRedactor(loaded).clean_event).publish
        self.lives = SkillLifecycle(loaded, journal, self.publish, lambda: library)


def with_lifecycle(
    ctx: click.Context, work: Callable[[SkillLifecycleContext], Awaitable[LifecycleResult]]
) -> LifecycleResult:
    loaded, library = load_library(ctx)

    async def run() -> LifecycleResult:
        async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
            return await work(SkillLifecycleContext(loaded, library, journal))

    return anyio.run(run)


@asynccontextmanager
async def open_strong_model(
    context: SkillLifecycleContext, reference: str = ""
) -> AsyncIterator[Model]:
    """The model of that name, or the one that is set for hard questions."""
    from hermes.app.models import ApplicationModels
    from hermes.models.catalog import reference_for_role
    from hermes.models.open import ModelConnections

    async with ModelConnections() as connections:
        models = ApplicationModels(context.loaded, connections, Bus(context.journal))
        yield models.open(reference or reference_for_role("strong", context.loaded.settings.model))


def parse_seeds(text: str) -> list[int]:
    """`1,2,5-8`. Raises `SettingsError`."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SettingsError(f"{text!r} are no seeds: write them as 1,2,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


def pair_rows(pairs: list[ReplayPair]) -> list[tuple[str, ...]]:
    """Each case with and without, as a table shows it."""
    return [
        (
            str(pair.case),
            _result_text(pair.without.solved, pair.without.seconds, pair.without.turns),
            _result_text(pair.using.solved, pair.using.seconds, pair.using.turns),
            "; ".join(pair.using.harm),
        )
        for pair in pairs
    ]


def judgement_lines(judgement: SkillEvaluation) -> list[str]:
    """What the gate counted, in words."""
    lines = [
        f"solved with it {judgement.solved_with}, without {judgement.solved_without}, "
        f"of {judgement.variants} variants"
    ]
    lines += [
        f"{each.name}: median ×{each.ratio:.2f}, at most ×{each.upper:.2f} (bootstrap, 95 %)"
        for each in judgement.measures
    ]
    lines += [f"not yet: {reason}" for reason in judgement.reasons]
    return lines


def _result_text(solved: bool, seconds: float, turns: int) -> str:
    return f"{'solved' if solved else 'not solved'}, {seconds:.1f} s, {turns} calls"


@click.command(
    name="compile",
    cls=CommandWithExamples,
    examples="hermes skills compile ./generate-csv-report\nhermes skills compile . --json",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@json_option
@click.pass_context
def compile_(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Look over the Python skill in FOLDER, run its tests in a sandbox, and register it.

    FOLDER holds scripts/NAME.py with one function NAME, and tests/test_NAME.py. Once its tests pass
    it lies in your skills and the agent has it as a tool. Nothing is registered otherwise.
    """
    loaded = load_settings(ctx)
    folder = folder.resolve()
    draft = read_draft_folder(folder)
    if folder.is_relative_to(loaded.home / "skills") and folder.name != draft.skill:
        raise SettingsError(f"{folder} has to be called {draft.skill}, after its function")
    made, known = anyio.run(_compile_skill, loaded, folder, draft, as_json)
    if as_json:
        print_json({"skill": known, "tests": made.output.splitlines()})
        return
    for line in made.output.splitlines():
        echo(line)
    echo(f"{known.function} is a tool now; see: hermes skills show {known.skill}")


async def _compile_skill(
    loaded: LoadedSettings, folder: Path, draft: PythonSkillDraft, quiet: bool
) -> tuple[CompiledSkill, RegisteredSkill]:
    workshop = SkillWorkshop(loaded)
    async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
        publish = Bus(journal, clean=SecretRedactor(loaded).clean_event).publish
        heard = None if quiet else note
        made = await workshop.prove(draft, publish, SKILLS_RUN, heard)
        target = workshop.root / draft.skill
        if folder != target and not target.exists():  # with its own manual and references
            copy_skill(folder, target)
        known = await workshop.save(made, publish, SKILLS_RUN, user_name())
        await workshop.registered(draft, publish, SKILLS_RUN, heard)
        return made, known


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes skills distill run-20260101-120000-a1b2c3
hermes skills distill RUN --scenario config-typo-after-edit --seed 4
hermes skills distill RUN --with-model --name stale-lock
""",
)
@click.argument("run")
@click.option("--name", default="", help="What the skill is to be called.")
@click.option("--scenario", default="", help="Of a drill: rehearse the fix in this scenario.")
@click.option("--seed", type=int, default=0, help="The seed of that drill.")
@click.option("--with-model", is_flag=True, help="Let the model improve words and patterns.")
@click.option("--dry-run", is_flag=True, help="Show the draft and keep nothing.")
@json_option
@click.pass_context
def distill(
    ctx: click.Context,
    run: str,
    name: str,
    scenario: str,
    seed: int,
    with_model: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make a draft skill of RUN: the changing commands that mattered, with parameters.

    RUN must have answered an alert and been verified. With --scenario the fix is repeated in fresh
    hosts, steps that did not matter are dropped, and what tells broken from mended is measured.
    """

    async def work(desk: SkillLifecycleContext) -> tuple[DistilledSkill, str]:
        from hermes.skills.distill.distillation import distill_run

        records = [each async for each in desk.journal.read(run=run)]
        if not records:
            raise SettingsError(f"there is no run {run!r}; see: hermes sessions list")
        rehearse = None
        if scenario:
            from hermes.app.gym_replay import rehearse_in_gym

            note(f"rehearsing in {scenario} #{seed}; each rehearsal takes some seconds")
            rehearse = rehearse_in_gym(scenario, seed)
        made = await distill_run(records, name=name, run_rehearsal=rehearse)
        if with_model:
            made = await _improve_with_model(desk, made)
        if dry_run:
            return made, ""
        drafted = await desk.lives.draft(made, run=run)
        return made, f"{drafted.skill}: {drafted.folder}" + (
            f" (extends it, ×{drafted.extends.score:.2f} the same)" if drafted.extends else ""
        )

    made, kept = with_lifecycle(ctx, work)
    if as_json:
        print_json({"name": made.name, "kept": kept, "playbook": made.playbook, "body": made.body})
        return
    echo(made.playbook)
    echo(f"draft {kept}" if kept else "nothing was kept")
    if kept:
        echo(
            f"prove it: hermes skills promote {kept.partition(':')[0]} --scenario NAME --seeds 1,2"
        )


async def _improve_with_model(
    context: SkillLifecycleContext, made: DistilledSkill
) -> DistilledSkill:
    from hermes.skills.distill.distillation import improve_with_model

    async with open_strong_model(context) as model:
        better, why = await improve_with_model(made, model)
    if why:
        note(f"as the rules made it: {why}")
    return better


PromotionResult = tuple[SkillStatus, SkillEvaluation | None, list[ReplayPair]]


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes skills promote stale-lock
hermes skills promote stale-lock --scenario service-crashed --seeds 1-4
hermes skills promote stale-lock --scenario service-crashed --seeds 1,2 --look-alike unit-failed
hermes skills promote stale-lock --back validated
""",
)
@click.argument("name")
@click.option("--scenario", default="", help="Replay variants of this scenario.")
@click.option("--seeds", default="1,2", show_default=True, help="Which ones: 1,2,5-8.")
@click.option(
    "--look-alike", multiple=True, help="A scenario with another cause, where it must do no harm."
)
@click.option(
    "--without",
    default="restart-everything",
    show_default=True,
    help="Who answers without it: no-op, restart-everything, reference.",
)
@click.option(
    "--back",
    type=click.Choice(["draft", "compiled", "validated"]),
    help="Take a step back by hand.",
)
@json_option
@click.pass_context
def promote(
    ctx: click.Context,
    name: str,
    scenario: str,
    seeds: str,
    look_alike: tuple[str, ...],
    without: str,
    back: str | None,
    as_json: bool,
) -> None:
    """Tell how far NAME has come; with --scenario, play the gate and promote it if it passes.

    Each case is played in two fresh hosts that are broken alike, with the skill and without it. It
    has to solve no fewer, take at most 0.9 of the time or the calls with a bound below 1, and do no
    harm to cases it is not for.
    """
    cases = (
        [ReplayCase(name=scenario, seed=seed) for seed in parse_seeds(seeds)] if scenario else []
    )
    cases += [ReplayCase(name=each, seed=1, kind="look-alike") for each in look_alike]

    async def work(desk: SkillLifecycleContext) -> PromotionResult:
        skill = desk.library.find(name)
        if back is not None:
            await _demote(desk, name, back)
        if not cases:
            return await desk.lives.life(name), None, []
        if skill.playbook is None:
            raise SettingsError(f"{name} has no playbook: there is nothing to replay")
        from hermes.app.gym_replay import find_baseline, replay_in_gym

        folder = desk.lives.waiting_candidate(name) or skill.folder
        note(f"playing {len(cases)} cases twice; each takes some seconds")
        replay = replay_in_gym(desk.lives.read_skill(folder), find_baseline(without))
        judgement, pairs = await desk.lives.evaluate(
            folder, cases, replay, run=SKILLS_RUN, by=user_name()
        )
        return await desk.lives.life(name), judgement, pairs

    life, judgement, pairs = with_lifecycle(ctx, work)
    if as_json:
        print_json({"life": life, "judgement": judgement, "pairs": pairs})
    else:
        _print_promotion(life, judgement, pairs)
    if judgement is not None and not judgement.passed:
        ctx.exit(1)


async def _demote(context: SkillLifecycleContext, name: str, to: str) -> None:
    from hermes.core.events.skills import SkillState
    from hermes.skills.lifecycle.status import STATE_ORDER, change_state

    states: dict[str, SkillState] = {state: state for state in STATE_ORDER}
    life = await context.lives.life(name)
    if STATE_ORDER.index(states[to]) >= STATE_ORDER.index(life.state):
        raise SettingsError(f"{name} is {life.state}: {to} is no step back")
    await context.publish(
        change_state(life, states[to], run=SKILLS_RUN, by=user_name(), reason="taken back by hand")
    )


def _print_promotion(
    life: SkillStatus, judgement: SkillEvaluation | None, pairs: list[ReplayPair]
) -> None:
    last = life.measured
    print_fields(
        {
            "skill": life.skill,
            "state": life.state,
            "digest": life.digest[:12],
            "parents": ", ".join(each[:12] for each in life.parents),
            "live uses": f"{sum(use.verified for use in life.uses)} of {len(life.uses)} verified",
            "last gate": "none" if last is None else "passed" if last.passed else "not passed",
        }
    )
    if pairs:
        echo()
        print_table(("case", "without", "with", "harm"), pair_rows(pairs))
    for line in judgement_lines(judgement) if judgement is not None else ():
        echo(line)
