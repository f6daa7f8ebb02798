"""`hermes skills review`: reviews failed tasks, on demand or in the background."""

import os
from contextlib import AsyncExitStack

import click
from msgspec.structs import asdict

from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json
from hermes.cli.render.lines import format_time
from hermes.cli.skills.lifecycle import SkillLifecycleContext, open_strong_model, with_lifecycle
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillsReviewed
from hermes.skills.lifecycle.review import DueReview

REVIEW_NICENESS = 10


def review_in_background(ctx: click.Context, without: str) -> None:
    """Review at low priority; print one line for the log, none when no review was due."""
    os.nice(REVIEW_NICENESS)
    event = with_lifecycle(ctx, lambda context: _review_if_due(context, without))
    if event is not None:
        echo(f"{event.at:%Y-%m-%d %H:%M} {event.why}: {review_text(event)}")


async def _review_if_due(context: SkillLifecycleContext, without: str) -> SkillsReviewed | None:
    from hermes.app.skills.gym_replay import find_baseline, replay_in_gym
    from hermes.app.skills.review import review_lock, run_automatic_review
    from hermes.app.skills.review_due import find_due_review

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(review_lock(context.loaded, context.journal))
        except SettingsError:
            return None  # another review is running
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
            context.lifecycle,
            context.library,
            context.publish,
            model,
            lambda skill: replay_in_gym(skill, find_baseline(without)),
        )


def show_review_status(ctx: click.Context, as_json: bool) -> None:
    async def work(context: SkillLifecycleContext) -> None:
        from hermes.app.skills.review import read_review_status

        status = await read_review_status(context.journal, context.loaded)
        if as_json:
            print_json(asdict(status))
            return
        last = status.last
        print_fields(
            {
                "automatic": "yes" if status.by_itself else "no (skills.review_by_itself)",
                "model": status.model or "none (skills.review_model): failures are only counted",
                "now": status.running or "nothing is running",
                "due": status.due.why if status.due else "no",
                "tasks": f"{status.tasks} of {status.every} since the last review",
                "alike": f"{status.alike} of {status.same} met the same error",
                "last": f"{format_time(last.at)}, {last.why}" if last else "none",
                "result": review_text(last) if last else "",
            }
        )

    with_lifecycle(ctx, work)


def review_text(event: SkillsReviewed) -> str:
    if not event.changed:
        return f"nothing was changed. {event.detail}"
    return f"{event.changed}: {'accepted' if event.accepted else 'rejected'}. {event.detail}"


@cli_command("""
hermes skills review --check
hermes skills review --status
hermes skills review --now
hermes skills review --evolve stale-lock
""")
@click.option("--check", is_flag=True, help="Only show whether a review is due, and why.")
@click.option(
    "--status", is_flag=True, help="Show the counts, the running review, and the last result."
)
@click.option(
    "--background", is_flag=True, hidden=True, help="Started at the end of a conversation."
)
@click.option("--now", is_flag=True, help="Review now, even if none is due.")
@click.option("--evolve", default="", metavar="NAME", help="Search for a better NAME with gepa.")
@click.option(
    "--without",
    default="restart-everything",
    show_default=True,
    help="The baseline in replays without the change.",
)
def review(ctx: click.Context, evolve: str, without: str, as_json: bool, **given: bool) -> None:
    """Review the tasks since the last review.

    A review is due after 15 finished tasks, or after 3 with the same error (skills.review_every,
    skills.same_errors). The model proposes one change to one skill; it is replayed in the cases
    of the last evaluation of that skill, and used only when it passes.

    It also starts automatically, in the background, when a conversation ends and a review is due:
    with the model skills.review_model; without one, failures are only counted. To switch it off:
    hermes config set skills.review_by_itself false
    """
    if evolve:
        _evolve_skill(ctx, evolve, without, as_json)
        return
    if given["status"]:
        show_review_status(ctx, as_json)
        return
    if given["background"]:
        review_in_background(ctx, without)
        return

    async def work(
        context: SkillLifecycleContext,
    ) -> tuple[DueReview | None, SkillsReviewed | None]:
        from hermes.app.skills.review import review_lock
        from hermes.app.skills.review_due import find_due_review

        found = await find_due_review(context.journal, context.loaded, anyway=given["now"])
        if found is None or given["check"]:
            return found, None
        async with review_lock(context.loaded, context.journal):
            event = await _review_now(context, found, without)
            await context.publish(event)
        return found, event

    found, event = with_lifecycle(ctx, work)
    if as_json:
        print_json({"due": found, "review": event})
    elif found is None:
        echo("no review is due")
    elif event is None:
        echo(f"a review is due: {found.why}")
    else:
        changed = f"{event.changed}: {'accepted' if event.accepted else 'rejected'}"
        echo(f"{found.why}; {changed if event.changed else 'nothing was changed'}. {event.detail}")


def _evolve_skill(ctx: click.Context, name: str, without: str, as_json: bool) -> None:
    async def work(context: SkillLifecycleContext) -> tuple[bool, str]:
        from hermes.app.skills.gym_replay import find_baseline, replay_in_gym
        from hermes.app.skills.review import evolve_skill

        skill = context.library.find(name)
        async with open_strong_model(context) as model:
            return await evolve_skill(
                skill,
                context.lifecycle,
                model,
                lambda changed: replay_in_gym(changed, find_baseline(without)),
            )

    accepted, detail = with_lifecycle(ctx, work)
    if as_json:
        print_json({"skill": name, "accepted": accepted, "detail": detail})
    else:
        echo(f"{name}: {'accepted' if accepted else 'rejected'}; {detail}")


async def _review_now(
    context: SkillLifecycleContext, found: DueReview, without: str
) -> SkillsReviewed:
    from hermes.app.skills.gym_replay import find_baseline, replay_in_gym
    from hermes.app.skills.review import review_failures

    async with open_strong_model(context) as model:
        return await review_failures(
            found,
            context.journal,
            context.lifecycle,
            context.library,
            model,
            lambda skill: replay_in_gym(skill, find_baseline(without)),
        )
