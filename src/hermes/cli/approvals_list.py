"""`hermes approvals list`, `show` and `watch`: what waits for an answer."""

from datetime import UTC, datetime

import anyio
import click
import msgspec

from hermes.cli.approvals_found import find, in_words, left, recalled
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, say, table
from hermes.cli.render_safe import clean, clip, visible
from hermes.cli.stored import ask_journal, existing_journal
from hermes.core.bus import Bus
from hermes.core.protocols import Recorded
from hermes.memory.opening import Store, open_journal
from hermes.policy.approvals_past import QUESTIONS, Past, Question
from hermes.settings.load import Loaded


@click.command("list", cls=Examples, examples="hermes approvals list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also what was settled lately.")
@json_option
@click.pass_context
def list_(ctx: click.Context, everything: bool = False, as_json: bool = False) -> None:
    """List what waits for an answer, oldest first."""
    loaded, now = settings_for(ctx), datetime.now(UTC)
    past = recalled(loaded)
    found = list(past.questions.values()) if everything else list(past.open(now))
    if as_json:
        emit_json([in_words(each, loaded) for each in found])
        return
    table(
        ("id", "state", "left", "by", "rule", "action"),
        [
            (
                each.request.approval,
                _state(each, now),
                left(each) if each.open(now) else "",
                each.request.requester,
                each.request.rule,
                clip(each.request.shown, 60),
            )
            for each in found
        ],
        empty="nothing waits for an answer",
    )


def _state(question: Question, now: datetime) -> str:
    state, count = question.state(now), question.request.count
    return f"{state} ({len(question.tally.yes)} of {count})" if count > 1 else state


@click.command(cls=Examples, examples="hermes approvals show 4f2a1c")
@click.argument("id", default="")
@json_option
@click.pass_context
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the question ID in full: what would be done, why it is asked, and the way back."""
    loaded = settings_for(ctx)

    async def ask(journal: Store) -> Question:
        return await find(journal, id)

    told = in_words(ask_journal(loaded, ask), loaded)
    if as_json:
        emit_json(told)
        return
    # What the agent wrote is shown so that no control character of it can repaint this page.
    action = visible(str(told.pop("action")))
    fields({name.replace("_", " "): value for name, value in told.items()})
    say()
    say("\n".join(f"┃ {line}" for line in action.split("\n")))


@click.command(cls=Examples, examples="hermes approvals watch --json | my-notifier")
@json_option
@click.pass_context
def watch(ctx: click.Context, as_json: bool) -> None:
    """Show what waits, and then each question and answer as it comes, until interrupted.

    With --json one object a line: the event, with its kind.
    """
    anyio.run(_watch, settings_for(ctx), as_json)


async def _watch(loaded: Loaded, as_json: bool) -> None:
    async with open_journal(existing_journal(loaded)) as journal:
        past, shown = Past(), False
        newest = await journal.last()
        async for recorded in journal.read(kinds=QUESTIONS):
            past.feed(recorded)
        if not as_json:
            for each in past.open(datetime.now(UTC)):
                shown = True
                say(_line(each))
            if not shown:
                say("nothing waits; watching")
        async for recorded in Bus(journal).follow(after=newest):
            if recorded.event.kind in QUESTIONS:
                past.feed(recorded)
                _tell(past, recorded, as_json)


def _tell(past: Past, recorded: Recorded, as_json: bool) -> None:
    event = recorded.event
    if as_json:
        click.echo(msgspec.json.encode(event).decode())
        return
    question = past.questions.get(str(getattr(event, "approval", "")))
    if question is not None:
        say(_line(question))


def _line(question: Question) -> str:
    request, now = question.request, datetime.now(UTC)
    by = (question.settled.by if question.settled else ()) or tuple(question.tally.yes)
    who = f" by {', '.join(by)}" if by else ""
    return clean(f"{request.approval}  {_state(question, now)}{who}  {clip(request.shown, 80)}")
