"""The review that begins by itself: how it is done quietly, and how a person sees it."""

import os
from contextlib import AsyncExitStack

import click

from hermes.cli.output import emit_json, fields, say
from hermes.cli.skills_lives import Desk, at_lives, strong_model
from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillsReviewed

POLITE = 10
"""Whatever else this machine does goes first."""


def review_quietly(ctx: click.Context, without: str) -> None:
    """For a log: one line when it is done, none when there was nothing to do."""
    os.nice(POLITE)
    event = at_lives(ctx, lambda desk: _review(desk, without))
    if event is not None:
        say(f"{event.at:%Y-%m-%d %H:%M} {event.why}: {told(event)}")


async def _review(desk: Desk, without: str) -> SkillsReviewed | None:
    from hermes.app.proving import baseline, replay_in_gym
    from hermes.app.review_due import when_due
    from hermes.app.self_review import only_one, review_by_itself

    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(only_one(desk.loaded, desk.journal))
        except SettingsError:
            return None  # another one is at it
        found = await when_due(desk.journal, desk.loaded)
        if found is None:
            return None
        reference = desk.loaded.settings.skills.review_model
        model = None
        if reference:
            model = await stack.enter_async_context(strong_model(desk, reference))
        return await review_by_itself(
            found,
            desk.journal,
            desk.lives,
            desk.library,
            desk.publish,
            model,
            lambda skill: replay_in_gym(skill, baseline(without)),
        )


def show_status(ctx: click.Context, as_json: bool) -> None:
    async def work(desk: Desk) -> None:
        from hermes.app.self_review import status_of

        status = await status_of(desk.journal, desk.loaded)
        if as_json:
            emit_json({name: getattr(status, name) for name in status.__struct_fields__})
            return
        last = status.last
        fields(
            {
                "by itself": "yes" if status.by_itself else "no (skills.review_by_itself)",
                "model": status.model or "none (skills.review_model): failures are only counted",
                "now": status.running or "nothing is running",
                "due": status.due.why if status.due else "no",
                "tasks": f"{status.tasks} of {status.every} since the last review",
                "alike": f"{status.alike} of {status.same} met the same error",
                "last": f"{last.at.astimezone():%Y-%m-%d %H:%M}, {last.why}" if last else "none",
                "came of it": told(last) if last else "",
            }
        )

    at_lives(ctx, work)


def told(event: SkillsReviewed) -> str:
    """What came of a review, in a line."""
    if not event.changed:
        return f"nothing was changed. {event.detail}"
    return f"{event.changed}: {'taken' if event.accepted else 'not taken'}. {event.detail}"
