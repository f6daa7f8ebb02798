"""`hermes approvals list`, `show` and `watch`, and finding a request by its id."""

from datetime import UTC, datetime, timedelta

import anyio
import click
import msgspec

from hermes.app.policy import is_run_active
from hermes.cli.context import find_unique, load_settings, query_journal, require_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.terminal_text import clean, clip, escape_invisible
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.plumbing.units import format_duration
from hermes.policy.approvals.history import (
    APPROVAL_EVENT_KINDS,
    ApprovalHistory,
    ApprovalQuestion,
    read_approval_history,
)
from hermes.settings.load import LoadedSettings

APPROVAL_LOOKBACK = timedelta(days=30)


def recent_approvals(loaded: LoadedSettings) -> ApprovalHistory:
    """Recent approval requests; none when there is no journal yet."""
    if not store_exists(loaded.store):
        return ApprovalHistory()

    async def query(journal: JournalStore) -> ApprovalHistory:
        return await read_approval_history(journal, since=datetime.now(UTC) - APPROVAL_LOOKBACK)

    return query_journal(loaded, query)


async def find_approval_request(journal: Journal, wanted: str) -> ApprovalQuestion:
    """Find by id, or its beginning or end; without an id, the only open request."""
    now = datetime.now(UTC)
    history = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    if not wanted:
        return _only_open_request(list(history.open_questions(now)))
    id, _ = find_unique(
        history.questions.items(),
        wanted,
        lambda each: each[0] == wanted,
        lambda each: each[0].startswith(wanted) or each[0].endswith(wanted),
        id_of=lambda each: each[0],
        kind="request",
        list_command="hermes approvals list",
    )
    return history.questions[id]


def _only_open_request(waiting: list[ApprovalQuestion]) -> ApprovalQuestion:
    if len(waiting) == 1:
        return waiting[0]
    if not waiting:
        raise HermesError("no request waits for an answer")
    names = "\n".join(f"  {each.request.approval}  {each.request.shown[:60]}" for each in waiting)
    raise HermesError(f"{len(waiting)} requests wait for an answer; give one id:\n{names}")


def approval_request_data(question: ApprovalQuestion, loaded: LoadedSettings) -> dict[str, object]:
    """All fields of a request, for `show` and --json."""
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


@cli_command("hermes approvals list --all --json")
@click.option("--all", "everything", is_flag=True, help="Also recently settled requests.")
def list_(ctx: click.Context, everything: bool = False, as_json: bool = False) -> None:
    """List the requests that wait for an answer, oldest first."""
    loaded, now = load_settings(ctx), datetime.now(UTC)
    history = recent_approvals(loaded)
    found = list(history.questions.values()) if everything else list(history.open_questions(now))
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
        empty="no request waits for an answer",
    )


def _request_state(question: ApprovalQuestion, now: datetime) -> str:
    state, count = question.state(now), question.request.count
    return f"{state} ({len(question.tally.yes)} of {count})" if count > 1 else state


@cli_command("hermes approvals show 4f2a1c")
@click.argument("id", default="")
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the request ID in full: the action, why it needs approval, and the undo."""
    loaded = load_settings(ctx)

    async def query(journal: JournalStore) -> ApprovalQuestion:
        return await find_approval_request(journal, id)

    data = approval_request_data(query_journal(loaded, query), loaded)
    if as_json:
        print_json(data)
        return
    # Text of the agent: control characters are escaped, so that they cannot change the screen.
    action = escape_invisible(str(data.pop("action")))
    print_fields({name.replace("_", " "): value for name, value in data.items()})
    echo()
    echo("\n".join(f"┃ {line}" for line in action.split("\n")))


@cli_command("hermes approvals watch --json | my-notifier")
def watch(ctx: click.Context, as_json: bool) -> None:
    """Show open requests, then each new request and answer, until interrupted.

    With --json it prints one event per line.
    """
    anyio.run(_watch_requests, load_settings(ctx), as_json)


async def _watch_requests(loaded: LoadedSettings, as_json: bool) -> None:
    async with open_journal(require_journal(loaded)) as journal:
        history, shown = ApprovalHistory(), False
        last_position = await journal.last()
        async for recorded in journal.read(kinds=APPROVAL_EVENT_KINDS):
            history.add(recorded)
        if not as_json:
            for each in history.open_questions(datetime.now(UTC)):
                shown = True
                echo(_request_line(each))
            if not shown:
                echo("no request waits; watching")
        async for recorded in Bus(journal).follow(after=last_position):
            if recorded.event.kind in APPROVAL_EVENT_KINDS:
                history.add(recorded)
                _print_event(history, recorded, as_json)


def _print_event(history: ApprovalHistory, recorded: JournalRecord, as_json: bool) -> None:
    event = recorded.event
    if as_json:
        click.echo(msgspec.json.encode(event).decode())
        return
    question = history.questions.get(str(getattr(event, "approval", "")))
    if question is not None:
        echo(_request_line(question))


def _request_line(question: ApprovalQuestion) -> str:
    request, now = question.request, datetime.now(UTC)
    by = (question.settled.by if question.settled else ()) or tuple(question.tally.yes)
    who = f" by {', '.join(by)}" if by else ""
    return clean(
        f"{request.approval}  {_request_state(question, now)}{who}  {clip(request.shown, 80)}"
    )
