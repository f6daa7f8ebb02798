"""Finds the question somebody means, and puts it into words."""

from datetime import UTC, datetime, timedelta

import anyio
import click
import msgspec

from hermes.app.policy import is_run_active
from hermes.cli.context import load_settings, query_journal, require_journal
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_fields, print_json, print_table
from hermes.cli.render.lines import format_duration
from hermes.cli.render.terminal_text import clean, clip, escape_invisible
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.policy.approvals.history import (
    APPROVAL_EVENT_KINDS,
    ApprovalHistory,
    ApprovalQuestion,
    read_approval_history,
)
from hermes.settings.load import LoadedSettings

APPROVAL_LOOKBACK = timedelta(days=30)


def recent_approvals(loaded: LoadedSettings) -> ApprovalHistory:
    """What was asked lately; nothing when there is no journal yet."""
    if not store_exists(loaded.store):
        return ApprovalHistory()

    async def ask(journal: JournalStore) -> ApprovalHistory:
        return await read_approval_history(journal, since=datetime.now(UTC) - APPROVAL_LOOKBACK)

    return query_journal(loaded, ask)


async def find_approval_request(journal: Journal, wanted: str) -> ApprovalQuestion:
    """By id, its beginning or end; the only open one when nothing is said."""
    now = datetime.now(UTC)
    past = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    if not wanted:
        return _only_open_request(list(past.open_questions(now)))
    if wanted in past.questions:
        return past.questions[wanted]
    found = [
        each for id, each in past.questions.items() if id.startswith(wanted) or id.endswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.request.approval for each in found[:5])
        raise HermesError(f"{wanted!r} may be {names}; say more of it")
    raise HermesError(f"there is no question {wanted!r}; `hermes approvals list` shows them")


def _only_open_request(waiting: list[ApprovalQuestion]) -> ApprovalQuestion:
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise HermesError("nothing waits for an answer")
    names = "\n".join(f"  {each.request.approval}  {each.request.shown[:60]}" for each in waiting)
    raise HermesError(f"{len(waiting)} wait for an answer; say which:\n{names}")


def approval_request_data(question: ApprovalQuestion, loaded: LoadedSettings) -> dict[str, object]:
    """Everything about one question, for people and for programs."""
    request, tally, now = question.request, question.tally, datetime.now(UTC)
    return {
        "id": request.approval,
        "state": question.state(now),
        "action": request.shown,
        "tool": request.tool,
        "effects": list(request.effects),
        "rule": request.rule,
        "reason": request.reason,
        "undo": request.undo,
        "place": request.place,
        "tainted": request.tainted,
        "requester": request.requester,
        "approvers": list(request.approvers),
        "escalated": list(tally.escalated),
        "count": request.count,
        "approved_by": list(tally.yes),
        "denied_by": tally.no,
        "asked_at": request.at.isoformat(),
        "until": request.until.isoformat() if request.until else "",
        "run": request.run,
        "subagent": request.run.partition("/")[2],
        "running": is_run_active(loaded, request.run),
        "hash": request.hash,
    }


def time_left(question: ApprovalQuestion) -> str:
    until = question.request.until
    if until is None:
        return ""
    seconds = (until - datetime.now(UTC)).total_seconds()
    return format_duration(seconds) if seconds > 0 else "over"


@click.command("list", cls=CommandWithExamples, examples="hermes approvals list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also what was settled lately.")
@json_option
@click.pass_context
def list_(ctx: click.Context, everything: bool = False, as_json: bool = False) -> None:
    """List what waits for an answer, oldest first."""
    loaded, now = load_settings(ctx), datetime.now(UTC)
    past = recent_approvals(loaded)
    found = list(past.questions.values()) if everything else list(past.open_questions(now))
    if as_json:
        print_json([approval_request_data(each, loaded) for each in found])
        return
    print_table(
        ("id", "state", "left", "by", "rule", "action"),
        [
            (
                each.request.approval,
                _request_state(each, now),
                time_left(each) if each.is_open(now) else "",
                each.request.requester,
                each.request.rule,
                clip(each.request.shown, 60),
            )
            for each in found
        ],
        empty="nothing waits for an answer",
    )


def _request_state(question: ApprovalQuestion, now: datetime) -> str:
    state, count = question.state(now), question.request.count
    return f"{state} ({len(question.tally.yes)} of {count})" if count > 1 else state


@click.command(cls=CommandWithExamples, examples="hermes approvals show 4f2a1c")
@click.argument("id", default="")
@json_option
@click.pass_context
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the question ID in full: what would be done, why it is asked, and the way back."""
    loaded = load_settings(ctx)

    async def ask(journal: JournalStore) -> ApprovalQuestion:
        return await find_approval_request(journal, id)

    told = approval_request_data(query_journal(loaded, ask), loaded)
    if as_json:
        print_json(told)
        return
    # What the agent wrote is shown so that no control character of it can repaint this page.
    action = escape_invisible(str(told.pop("action")))
    print_fields({name.replace("_", " "): value for name, value in told.items()})
    echo()
    echo("\n".join(f"┃ {line}" for line in action.split("\n")))


@click.command(cls=CommandWithExamples, examples="hermes approvals watch --json | my-notifier")
@json_option
@click.pass_context
def watch(ctx: click.Context, as_json: bool) -> None:
    """Show what waits, and then each question and answer as it comes, until interrupted.

    With --json one object a line: the event, with its kind.
    """
    anyio.run(_watch_requests, load_settings(ctx), as_json)


async def _watch_requests(loaded: LoadedSettings, as_json: bool) -> None:
    async with open_journal(require_journal(loaded)) as journal:
        past, shown = ApprovalHistory(), False
        newest = await journal.last()
        async for recorded in journal.read(kinds=APPROVAL_EVENT_KINDS):
            past.add(recorded)
        if not as_json:
            for each in past.open_questions(datetime.now(UTC)):
                shown = True
                echo(_request_line(each))
            if not shown:
                echo("nothing waits; watching")
        async for recorded in Bus(journal).follow(after=newest):
            if recorded.event.kind in APPROVAL_EVENT_KINDS:
                past.add(recorded)
                _print_event(past, recorded, as_json)


def _print_event(past: ApprovalHistory, recorded: JournalRecord, as_json: bool) -> None:
    event = recorded.event
    if as_json:
        click.echo(msgspec.json.encode(event).decode())
        return
    question = past.questions.get(str(getattr(event, "approval", "")))
    if question is not None:
        echo(_request_line(question))


def _request_line(question: ApprovalQuestion) -> str:
    request, now = question.request, datetime.now(UTC)
    by = (question.settled.by if question.settled else ()) or tuple(question.tally.yes)
    who = f" by {', '.join(by)}" if by else ""
    return clean(
        f"{request.approval}  {_request_state(question, now)}{who}  {clip(request.shown, 80)}"
    )
