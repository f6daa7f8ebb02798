"""`hermes skills promote`: where a skill stands, and the gate it has to pass to go on."""

import click

from hermes.app.approving import user_name
from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, fields, json_option, note, say, table
from hermes.cli.skills_desk import RUN
from hermes.cli.skills_lives import Desk, at_lives, judgement_lines, pair_rows, seeds_of
from hermes.core.errors import SettingsError
from hermes.skills.lifecycle.gate import Judgement
from hermes.skills.lifecycle.life import Life
from hermes.skills.lifecycle.replay import Case, Pair

Outcome = tuple[Life, Judgement | None, list[Pair]]


@click.command(
    cls=Examples,
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
    cases = [Case(name=scenario, seed=seed) for seed in seeds_of(seeds)] if scenario else []
    cases += [Case(name=each, seed=1, kind="look-alike") for each in look_alike]

    async def work(desk: Desk) -> Outcome:
        skill = desk.library.find(name)
        if back is not None:
            await _step_back(desk, name, back)
        if not cases:
            return await desk.lives.life(name), None, []
        if skill.playbook is None:
            raise SettingsError(f"{name} has no playbook: there is nothing to replay")
        from hermes.app.proving import baseline, replay_in_gym

        folder = desk.lives.waiting(name) or skill.folder
        note(f"playing {len(cases)} cases twice; each takes some seconds")
        replay = replay_in_gym(desk.lives.read(folder), baseline(without))
        judgement, pairs = await desk.lives.prove(folder, cases, replay, run=RUN, by=user_name())
        return await desk.lives.life(name), judgement, pairs

    life, judgement, pairs = at_lives(ctx, work)
    if as_json:
        emit_json({"life": life, "judgement": judgement, "pairs": pairs})
    else:
        _tell(life, judgement, pairs)
    if judgement is not None and not judgement.passed:
        ctx.exit(1)


async def _step_back(desk: Desk, name: str, to: str) -> None:
    from hermes.core.events.skills import SkillState
    from hermes.skills.lifecycle.life import ORDER, step

    states: dict[str, SkillState] = {state: state for state in ORDER}
    life = await desk.lives.life(name)
    if ORDER.index(states[to]) >= ORDER.index(life.state):
        raise SettingsError(f"{name} is {life.state}: {to} is no step back")
    await desk.publish(step(life, states[to], run=RUN, by=user_name(), reason="taken back by hand"))


def _tell(life: Life, judgement: Judgement | None, pairs: list[Pair]) -> None:
    last = life.measured
    fields(
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
        say()
        table(("case", "without", "with", "harm"), pair_rows(pairs))
    for line in judgement_lines(judgement) if judgement is not None else ():
        say(line)
