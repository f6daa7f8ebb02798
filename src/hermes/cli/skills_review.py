"""`hermes skills review`: the agent reads its own failing runs and proposes one change."""

import click

from hermes.cli.lazy import Examples
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.skills_lives import Desk, at_lives, strong_model
from hermes.cli.skills_review_self import review_quietly, show_status
from hermes.core.events.skills import SkillsReviewed
from hermes.skills.review.due import Due


@click.command(
    cls=Examples,
    examples="""
hermes skills review --check
hermes skills review --status
hermes skills review --now
hermes skills review --evolve stale-lock
""",
)
@click.option("--check", is_flag=True, help="Only say whether one is due, and why.")
@click.option("--status", is_flag=True, help="What is counted, running, and came of the last.")
@click.option("--background", is_flag=True, hidden=True, help="As a conversation's end begins it.")
@click.option("--now", is_flag=True, help="Do not wait until one is due.")
@click.option("--evolve", default="", metavar="NAME", help="Search for a better NAME with gepa.")
@click.option(
    "--without",
    default="restart-everything",
    show_default=True,
    help="Who answers in replays without the change.",
)
@json_option
@click.pass_context
def review(
    ctx: click.Context, /, check: bool, now: bool, evolve: str, without: str, **given: bool
) -> None:
    """Look back over the tasks since the last review.

    One is due after 15 finished tasks, or after 3 that met the same error (skills.review_every,
    skills.same_errors). The model proposes one change to one skill; it is played against the cases
    that once proved that skill, and comes into use only when it passes the gate.

    It also begins by itself, in the background, when a conversation ends and one is due: with the
    model of skills.review_model, or, where none is set, by counting alone. To switch that off:
    hermes config set skills.review_by_itself false
    """
    as_json = given["as_json"]
    if evolve:
        _evolve(ctx, evolve, without, as_json)
        return
    if given["status"]:
        show_status(ctx, as_json)
        return
    if given["background"]:
        review_quietly(ctx, without)
        return

    async def work(desk: Desk) -> tuple[Due | None, SkillsReviewed | None]:
        from hermes.app.review_due import when_due
        from hermes.app.self_review import only_one

        found = await when_due(desk.journal, desk.loaded, anyway=now)
        if found is None or check:
            return found, None
        async with only_one(desk.loaded, desk.journal):
            event = await _review(desk, found, without)
            await desk.publish(event)
        return found, event

    found, event = at_lives(ctx, work)
    if as_json:
        emit_json({"due": found, "review": event})
    elif found is None:
        say("no review is due")
    elif event is None:
        say(f"a review is due: {found.why}")
    else:
        changed = f"{event.changed}: {'taken' if event.accepted else 'not taken'}"
        say(f"{found.why}; {changed if event.changed else 'nothing was changed'}. {event.detail}")


def _evolve(ctx: click.Context, name: str, without: str, as_json: bool) -> None:
    async def work(desk: Desk) -> tuple[bool, str]:
        from hermes.app.proving import baseline, replay_in_gym
        from hermes.app.reviewing import evolve_skill

        skill = desk.library.find(name)
        async with strong_model(desk) as model:
            return await evolve_skill(
                skill, desk.lives, model, lambda changed: replay_in_gym(changed, baseline(without))
            )

    accepted, detail = at_lives(ctx, work)
    if as_json:
        emit_json({"skill": name, "accepted": accepted, "detail": detail})
    else:
        say(f"{name}: {'taken' if accepted else 'not taken'}; {detail}")


async def _review(desk: Desk, found: Due, without: str) -> SkillsReviewed:
    from hermes.app.proving import baseline, replay_in_gym
    from hermes.app.reviewing import review as look_back

    async with strong_model(desk) as model:
        return await look_back(
            found,
            desk.journal,
            desk.lives,
            desk.library,
            model,
            lambda skill: replay_in_gym(skill, baseline(without)),
        )
