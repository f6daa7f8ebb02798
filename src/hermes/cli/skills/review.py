"""The review that begins by itself: how it is done quietly, and how a person sees it."""

import os
from contextlib import AsyncExitStack

import click

from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_fields, print_json
from hermes.cli.skills.lifecycle import SkillLifecycleContext, open_strong_model, with_lifecycle
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillsReviewed
from hermes.skills.lifecycle.review import DueReview

REVIEW_NICENESS = 10
"""Whatever else this machine does goes first."""


def review_in_background(ctx: click.Context, without: str) -> None:
    """For a log: one line when it is done, none when there was nothing to do."""
    os.nice(REVIEW_NICENESS)
    event = with_lifecycle(ctx, lambda desk: _review_if_due(desk, without))
    if event is not None:
        echo(f"{event.at:%Y-%m-%d %H:%M} {event.why}: {review_text(event)}")


async def _review_if_due(context: SkillLifecycleContext, without: str) -> SkillsReviewed | None:
    from hermes.app.gym_replay import find_baseline, replay_in_gym
    from hermes.app.skills.review import review_lock, run_automatic_review
    from hermes.app.skills.review_due import find_due_review

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(review_lock(context.loaded, context.journal))
        except SettingsError:
            return None  # another one is at it
        found = await find_due_review(context.journal, context.loaded)
        if found is None:
            return None
        reference = context.loaded.settings.skills.review_model
        model = None
        if reference:
            model = await stack.enter_async_context(open_strong_model(context, reference))
        return await run_automatic_review(
            found,
            context.journal,
            context.lives,
            context.library,
            context.publish,
            model,
            lambda skill: replay_in_gym(skill, find_baseline(without)),
        )


def show_review_status(ctx: click.Context, as_json: bool) -> None:
    async def work(desk: SkillLifecycleContext) -> None:
        from hermes.app.skills.review import read_review_status

        status = await read_review_status(desk.journal, desk.loaded)
        if as_json:
            print_json({name: getattr(status, name) for name in status.__struct_fields__})
            return
        last = status.last
        print_fields(
            {
                "by itself": "yes" if status.by_itself else "no (skills.review_by_itself)",
                "model": status.model or "none (skills.review_model): failures are only counted",
                "now": status.running or "nothing is running",
                "due": status.due.why if status.due else "no",
                "tasks": f"{status.tasks} of {status.every} since the last review",
                "alike": f"{status.alike} of {status.same} met the same error",
                "last": f"{last.at.astimezone():%Y-%m-%d %H:%M}, {last.why}" if last else "none",
                "came of it": review_text(last) if last else "",
            }
        )

    with_lifecycle(ctx, work)


def review_text(event: SkillsReviewed) -> str:
    """What came of a review, in a line."""
    if not event.changed:
        return f"nothing was changed. {event.detail}"
    return f"{event.changed}: {'taken' if event.accepted else 'not taken'}. {event.detail}"


@click.command(
    cls=CommandWithExamples,
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
        _evolve_skill(ctx, evolve, without, as_json)
        return
    if given["status"]:
        show_review_status(ctx, as_json)
        return
    if given["background"]:
        review_in_background(ctx, without)
        return

    async def work(desk: SkillLifecycleContext) -> tuple[DueReview | None, SkillsReviewed | None]:
        from hermes.app.skills.review import review_lock
        from hermes.app.skills.review_due import find_due_review

        found = await find_due_review(desk.journal, desk.loaded, anyway=now)
        if found is None or check:
            return found, None
        async with review_lock(desk.loaded, desk.journal):
            event = await _review_now(desk, found, without)
            await desk.publish(event)
        return found, event

    found, event = with_lifecycle(ctx, work)
    if as_json:
        print_json({"due": found, "review": event})
    elif found is None:
        echo("no review is due")
    elif event is None:
        echo(f"a review is due: {found.why}")
    else:
        changed = f"{event.changed}: {'taken' if event.accepted else 'not taken'}"
        echo(f"{found.why}; {changed if event.changed else 'nothing was changed'}. {event.detail}")


def _evolve_skill(ctx: click.Context, name: str, without: str, as_json: bool) -> None:
    async def work(desk: SkillLifecycleContext) -> tuple[bool, str]:
        from hermes.app.gym_replay import find_baseline, replay_in_gym
        from hermes.app.skills.review import evolve_skill

        skill = desk.library.find(name)
        async with open_strong_model(desk) as model:
            return await evolve_skill(
                skill,
                desk.lives,
                model,
                lambda changed: replay_in_gym(changed, find_baseline(without)),
            )

    accepted, detail = with_lifecycle(ctx, work)
    if as_json:
        print_json({"skill": name, "accepted": accepted, "detail": detail})
    else:
        echo(f"{name}: {'taken' if accepted else 'not taken'}; {detail}")


async def _review_now(
    context: SkillLifecycleContext, found: DueReview, without: str
) -> SkillsReviewed:
    from hermes.app.gym_replay import find_baseline, replay_in_gym
    from hermes.app.skills.review import review_failures as look_back

    async with open_strong_model(context) as model:
        return await look_back(
            found,
            context.journal,
            context.lives,
            context.library,
            model,
            lambda skill: replay_in_gym(skill, find_baseline(without)),
        )
