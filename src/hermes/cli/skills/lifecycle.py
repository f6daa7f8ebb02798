"""`hermes skills compile`, `distill` and `promote`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import click

from hermes.app.people import user_name
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.skills.library import SKILLS_RUN
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.app.skills.workshop import SkillWorkshop
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, print_table
from hermes.cli.skills.context import load_library, with_journal
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.protocols import Model
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings
from hermes.skills.compiler.build import CompiledSkill
from hermes.skills.compiler.draft import PythonSkillDraft, read_draft_folder
from hermes.skills.compiler.registry import RegisteredSkill
from hermes.skills.distill.distillation import DistilledSkill
from hermes.skills.history import copy_skill
from hermes.skills.library import SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayPair, SkillEvaluation
from hermes.skills.lifecycle.status import SkillStatus

LifecycleResult = TypeVar("LifecycleResult")


class SkillLifecycleContext:
    """The library, the journal and the lifecycle, open for one command."""

    def __init__(
        self, loaded: LoadedSettings, library: SkillLibrary, journal: JournalStore
    ) -> None:
        self.loaded, self.library, self.journal = loaded, library, journal
        self.publish = Bus(journal, clean=SecretRedactor(loaded).clean_event).publish
        self.lifecycle = SkillLifecycle(loaded, journal, self.publish, lambda: library)


def with_lifecycle(
    ctx: click.Context, work: Callable[[SkillLifecycleContext], Awaitable[LifecycleResult]]
) -> LifecycleResult:
    loaded, library = load_library(ctx)
    return with_journal(
        loaded, lambda journal: work(SkillLifecycleContext(loaded, library, journal))
    )


@asynccontextmanager
async def open_strong_model(
    context: SkillLifecycleContext, reference: str = ""
) -> AsyncIterator[Model]:
    """Open the given model, or the configured strong model."""
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
            raise SettingsError(f"{text!r} are not seeds: write them as 1,2,5-8")
        found += range(int(first), int(last or first) + 1)
    return found


def pair_rows(pairs: list[ReplayPair]) -> list[tuple[str, ...]]:
    """One table row per case: without the skill and with it."""
    return [
        (
            str(pair.case),
            _result_text(pair.without.solved, pair.without.seconds, pair.without.turns),
            _result_text(pair.using.solved, pair.using.seconds, pair.using.turns),
            "; ".join(pair.using.harm),
        )
        for pair in pairs
    ]


def judgement_lines(evaluation: SkillEvaluation) -> list[str]:
    """The counts and measures of the evaluation."""
    lines = [
        f"solved with it {evaluation.solved_with}, without {evaluation.solved_without}, "
        f"of {evaluation.variants} variants"
    ]
    lines += [
        f"{each.name}: median ×{each.ratio:.2f}, at most ×{each.upper:.2f} (bootstrap, 95 %)"
        for each in evaluation.measures
    ]
    lines += [f"not yet: {reason}" for reason in evaluation.reasons]
    return lines


def _result_text(solved: bool, seconds: float, turns: int) -> str:
    return f"{'solved' if solved else 'not solved'}, {seconds:.1f} s, {turns} calls"


@cli_command("""
hermes skills compile ./generate-csv-report
hermes skills compile . --json
""")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def compile_(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Check the Python skill in FOLDER, run its tests in a sandbox, and register it.

    FOLDER contains scripts/NAME.py with one function NAME, and tests/test_NAME.py. When its tests
    pass, it is added to your skills and the agent has it as a tool; otherwise nothing changes.
    """
    loaded = load_settings(ctx)
    folder = folder.resolve()
    draft = read_draft_folder(folder)
    if folder.is_relative_to(loaded.home / "skills") and folder.name != draft.skill:
        raise SettingsError(f"{folder} must be named {draft.skill}, like its function")
    compiled, known = anyio.run(_compile_skill, loaded, folder, draft, as_json)
    if as_json:
        print_json({"skill": known, "tests": compiled.output.splitlines()})
        return
    for line in compiled.output.splitlines():
        echo(line)
    echo(f"{known.function} is now a tool; see: hermes skills show {known.skill}")


async def _compile_skill(
    loaded: LoadedSettings, folder: Path, draft: PythonSkillDraft, quiet: bool
) -> tuple[CompiledSkill, RegisteredSkill]:
    workshop = SkillWorkshop(loaded)
    async with open_journal(loaded.store, timeout_s=loaded.settings.store.patience) as journal:
        publish = Bus(journal, clean=SecretRedactor(loaded).clean_event).publish
        report = None if quiet else note
        compiled = await workshop.prove(draft, publish, SKILLS_RUN, report)
        target = workshop.root / draft.skill
        if folder != target and not target.exists():  # with its own manual and references
            copy_skill(folder, target)
        known = await workshop.save(compiled, publish, SKILLS_RUN, user_name())
        await workshop.registered(draft, publish, SKILLS_RUN, report)
        return compiled, known


@cli_command("""
hermes skills distill run-20260101-120000-a1b2c3
hermes skills distill RUN --scenario config-typo-after-edit --seed 4
hermes skills distill RUN --with-model --name stale-lock
""")
@click.argument("run")
@click.option("--name", default="", help="The name of the skill.")
@click.option("--scenario", default="", help="For a drill: rehearse the fix in this scenario.")
@click.option("--seed", type=int, default=0, help="The seed of that drill.")
@click.option("--with-model", is_flag=True, help="Let the model improve texts and patterns.")
@click.option("--dry-run", is_flag=True, help="Show the draft without saving it.")
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
    """Create a draft skill from RUN: the relevant changing commands, with parameters.

    RUN must have resolved an alert and been verified. With --scenario the fix is repeated in fresh
    hosts, unnecessary steps are removed, and the probes that distinguish broken from fixed hosts
    are measured.
    """

    async def work(context: SkillLifecycleContext) -> tuple[DistilledSkill, str]:
        from hermes.skills.distill.distillation import distill_run

        records = [each async for each in context.journal.read(run=run)]
        if not records:
            raise SettingsError(f"there is no run {run!r}; see: hermes sessions list")
        rehearse = None
        if scenario:
            from hermes.app.skills.gym_replay import rehearse_in_gym

            note(f"rehearsing in {scenario} #{seed}; each rehearsal takes some seconds")
            rehearse = rehearse_in_gym(scenario, seed)
        distilled = await distill_run(records, name=name, run_rehearsal=rehearse)
        if with_model:
            distilled = await _improve_with_model(context, distilled)
        if dry_run:
            return distilled, ""
        drafted = await context.lifecycle.draft(distilled, run=run)
        return distilled, f"{drafted.skill}: {drafted.folder}" + (
            f" (extends it, similarity {drafted.extends.score:.2f})" if drafted.extends else ""
        )

    distilled, kept = with_lifecycle(ctx, work)
    if as_json:
        print_json(
            {
                "name": distilled.name,
                "kept": kept,
                "playbook": distilled.playbook,
                "body": distilled.body,
            }
        )
        return
    echo(distilled.playbook)
    echo(f"draft {kept}" if kept else "nothing was saved")
    if kept:
        skill = kept.partition(":")[0]
        echo(f"evaluate it: hermes skills promote {skill} --scenario NAME --seeds 1,2")


async def _improve_with_model(
    context: SkillLifecycleContext, distilled: DistilledSkill
) -> DistilledSkill:
    from hermes.skills.distill.distillation import improve_with_model

    async with open_strong_model(context) as model:
        better, why = await improve_with_model(distilled, model)
    if why:
        note(f"not improved by the model: {why}")
    return better


PromotionResult = tuple[SkillStatus, SkillEvaluation | None, list[ReplayPair]]


@cli_command("""
hermes skills promote stale-lock
hermes skills promote stale-lock --scenario service-crashed --seeds 1-4
hermes skills promote stale-lock --scenario service-crashed --seeds 1,2 --look-alike unit-failed
hermes skills promote stale-lock --back validated
""")
@click.argument("name")
@click.option("--scenario", default="", help="Replay variants of this scenario.")
@click.option("--seeds", default="1,2", show_default=True, help="Which ones: 1,2,5-8.")
@click.option(
    "--look-alike",
    multiple=True,
    help="A scenario with another cause, where it must not do damage.",
)
@click.option(
    "--without",
    default="restart-everything",
    show_default=True,
    help="The baseline without it: no-op, restart-everything, reference.",
)
@click.option(
    "--back", type=click.Choice(["draft", "compiled", "validated"]), help="Demote it to this state."
)
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
    """Show the state of NAME; with --scenario, evaluate it and promote it if it passes.

    Each case is replayed in two fresh hosts with the same fault, with the skill and without it. The
    skill must solve no fewer cases, take at most 0.9 of the time or the calls with an upper bound
    below 1, and do no damage in cases it is not for.
    """
    cases = (
        [ReplayCase(name=scenario, seed=seed) for seed in parse_seeds(seeds)] if scenario else []
    )
    cases += [ReplayCase(name=each, seed=1, kind="look-alike") for each in look_alike]

    async def work(context: SkillLifecycleContext) -> PromotionResult:
        skill = context.library.find(name)
        if back is not None:
            await _demote(context, name, back)
        if not cases:
            return await context.lifecycle.status(name), None, []
        if skill.playbook is None:
            raise SettingsError(f"{name} has no playbook: there is nothing to replay")
        from hermes.app.skills.gym_replay import find_baseline, replay_in_gym

        folder = context.lifecycle.waiting_candidate(name) or skill.folder
        note(f"replaying {len(cases)} cases twice; each takes some seconds")
        replay = replay_in_gym(context.lifecycle.read_skill(folder), find_baseline(without))
        evaluation, pairs = await context.lifecycle.evaluate(
            folder, cases, replay, run=SKILLS_RUN, by=user_name()
        )
        return await context.lifecycle.status(name), evaluation, pairs

    status, evaluation, pairs = with_lifecycle(ctx, work)
    if as_json:
        print_json({"life": status, "judgement": evaluation, "pairs": pairs})
    else:
        _print_promotion(status, evaluation, pairs)
    if evaluation is not None and not evaluation.passed:
        ctx.exit(1)


async def _demote(context: SkillLifecycleContext, name: str, to: str) -> None:
    from hermes.core.events.skills import SkillState
    from hermes.skills.lifecycle.status import STATE_ORDER, change_state

    states: dict[str, SkillState] = {state: state for state in STATE_ORDER}
    status = await context.lifecycle.status(name)
    if STATE_ORDER.index(states[to]) >= STATE_ORDER.index(status.state):
        raise SettingsError(f"{name} is {status.state}: {to} is not a lower state")
    await context.publish(
        change_state(
            status, states[to], run=SKILLS_RUN, by=user_name(), reason="taken back by hand"
        )
    )


def _print_promotion(
    status: SkillStatus, evaluation: SkillEvaluation | None, pairs: list[ReplayPair]
) -> None:
    last, verified = status.measured, sum(use.verified for use in status.uses)
    print_fields(
        {
            "skill": status.skill,
            "state": status.state,
            "digest": status.digest[:12],
            "parents": ", ".join(each[:12] for each in status.parents),
            "live uses": f"{verified} of {len(status.uses)} verified",
            "last evaluation": "none"
            if last is None
            else "passed"
            if last.passed
            else "not passed",
        }
    )
    if pairs:
        echo()
        print_table(("case", "without", "with", "harm"), pair_rows(pairs))
    for line in judgement_lines(evaluation) if evaluation is not None else ():
        echo(line)
