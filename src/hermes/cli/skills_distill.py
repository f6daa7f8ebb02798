"""`hermes skills distill`: a draft skill with a playbook from a run that was verified."""

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.skills_lives import Desk, at_lives, strong_model
from hermes.core.errors import SettingsError
from hermes.skills.distill.writing import Distilled


@click.command(
    cls=Examples,
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

    async def work(desk: Desk) -> tuple[Distilled, str]:
        from hermes.skills.distill.distil import distil

        records = [each async for each in desk.journal.read(run=run)]
        if not records:
            raise SettingsError(f"there is no run {run!r}; see: hermes sessions list")
        rehearse = None
        if scenario:
            from hermes.app.proving import rehearse_in_gym

            note(f"rehearsing in {scenario} #{seed}; each rehearsal takes some seconds")
            rehearse = rehearse_in_gym(scenario, seed)
        made = await distil(records, name=name, rehearse=rehearse)
        if with_model:
            made = await _improved(desk, made)
        if dry_run:
            return made, ""
        drafted = await desk.lives.draft(made, run=run)
        return made, f"{drafted.skill}: {drafted.folder}" + (
            f" (extends it, ×{drafted.extends.score:.2f} the same)" if drafted.extends else ""
        )

    made, kept = at_lives(ctx, work)
    if as_json:
        emit_json({"name": made.name, "kept": kept, "playbook": made.playbook, "body": made.body})
        return
    say(made.playbook)
    say(f"draft {kept}" if kept else "nothing was kept")
    if kept:
        say(f"prove it: hermes skills promote {kept.partition(':')[0]} --scenario NAME --seeds 1,2")


async def _improved(desk: Desk, made: Distilled) -> Distilled:
    from hermes.skills.distill.with_model import improve

    async with strong_model(desk) as model:
        better, why = await improve(made, model)
    if why:
        note(f"as the rules made it: {why}")
    return better
