"""`hermes approvals`: lists, shows and answers approval requests, and revokes grants."""

from datetime import UTC, datetime, timedelta

import anyio
import click
import msgspec

from hermes.app.people import user_name
from hermes.app.policy import always_rules_path, is_run_active
from hermes.cli.context import find_unique, load_settings, query_journal, require_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip, escape_invisible
from hermes.core.actions import ApprovalScope, why_not_always
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalSettled,
    GrantRevoked,
)
from hermes.core.protocols import Journal, JournalRecord
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.plumbing.units import format_duration
from hermes.policy.approvals.history import (
    APPROVAL_EVENT_KINDS,
    ApprovalHistory,
    ApprovalQuestion,
    GrantUsage,
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
        "tested": request.tested,
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


SETTLE_TIMEOUT_S = 5.0
"""How long to wait for the running process to act on an answer."""


@cli_command("""
hermes approvals approve                      the only open request
hermes approvals approve 4f2a1c --session     also for the same action later in its session
hermes approvals approve 4f2a1c --always      permanently: `hermes policy always` lists it
""")
@click.argument("id", default="")
@click.option("--session", is_flag=True, help="Also for the same action later in its session.")
@click.option(
    "--always", is_flag=True, help="Permanently: becomes a rule that you can read and revoke."
)
@click.option("--note", default="", metavar="TEXT", help="Why; kept in the journal.")
def approve(
    ctx: click.Context, id: str, session: bool, always: bool, note: str, as_json: bool
) -> None:
    """Approve the request ID. It counts only for exactly the action that was shown."""
    if session and always:
        raise click.UsageError("--session or --always, not both")
    scope: ApprovalScope = "always" if always else "session" if session else "once"
    _record_answer(load_settings(ctx), id, approved=True, scope=scope, note=note, as_json=as_json)


@cli_command('hermes approvals deny 4f2a1c --note "use the replica"')
@click.argument("id", default="")
@click.option("--note", default="", metavar="TEXT", help="Why; the agent gets this text.")
def deny(ctx: click.Context, id: str, note: str, as_json: bool) -> None:
    """Deny the request ID."""
    _record_answer(load_settings(ctx), id, approved=False, scope="once", note=note, as_json=as_json)


@cli_command("hermes approvals stop 4f2a1c")
@click.argument("id", default="")
def stop(ctx: click.Context, id: str, as_json: bool) -> None:
    """Prevent the announced action ID. Anyone may do this."""
    _record_answer(load_settings(ctx), id, approved=False, scope="once", note="", as_json=as_json)


def _record_answer(
    loaded: LoadedSettings,
    id: str,
    *,
    approved: bool,
    scope: ApprovalScope,
    note: str,
    as_json: bool,
) -> None:
    who = user_name()

    async def record(journal: JournalStore) -> tuple[ApprovalQuestion, str]:
        question = await find_approval_request(journal, id)
        _check_answer(question, who, approved, scope)
        request = question.request
        if question.seconds and not approved:
            event: ActionStopped | ApprovalAnswered = ActionStopped(
                run=request.run, call_id=request.call_id, by=who, approval=request.approval
            )
        else:
            event = ApprovalAnswered(
                run=request.run,
                approval=request.approval,
                approved=approved,
                by=who,
                scope=scope,
                via="cli",
                note=note,
            )
        numbers = await journal.append(event)
        question.tally.add(event)
        return question, await _wait_for_outcome(journal, question, numbers[-1], loaded)

    question, outcome = query_journal(loaded, record)
    request = question.request
    if as_json:
        print_json({"id": request.approval, "by": who, "approved": approved, "outcome": outcome})
        return
    echo(f"{request.approval}: {_outcome_text(question, outcome)}")


def _check_answer(
    question: ApprovalQuestion, who: str, approved: bool, scope: ApprovalScope
) -> None:
    """Raises `HermesError` when it is over, `PolicyDenied` when this answer does not count."""
    request, now = question.request, datetime.now(UTC)
    if question.settled is not None:
        by = ", ".join(question.settled.by)
        raise HermesError(
            f"{request.approval} was already settled: {question.settled.outcome}"
            + (f" by {by}" if by else "")
        )
    if not question.is_open(now):
        raise HermesError(f"{request.approval} is over: no one answered in time, so it is denied")
    if why := question.tally.objection(who, approved=approved):
        raise PolicyDenied(why)
    if who in question.tally.yes and approved:
        raise PolicyDenied(f"{who} has already approved it; {request.count} different people must")
    if scope == "always" and (why := why_not_always(request)):
        raise PolicyDenied(f"not with --always: {why}")


async def _wait_for_outcome(
    journal: Journal, question: ApprovalQuestion, after: int, loaded: LoadedSettings
) -> str:
    """Return the outcome; `waiting` for other people, or `recorded` when the run is not active."""
    request = question.request
    if question.tally.outcome is None:
        return "waiting"
    if not is_run_active(loaded, request.run):
        return "recorded"
    with anyio.move_on_after(SETTLE_TIMEOUT_S):
        while True:
            last_position = await journal.last()
            async for recorded in journal.read(
                after=after, run=request.run, kinds=("approval.settled",)
            ):
                event = recorded.event
                if isinstance(event, ApprovalSettled) and event.approval == request.approval:
                    return event.outcome
            await journal.changed(last_position)
    return "recorded"


def _outcome_text(question: ApprovalQuestion, outcome: str) -> str:
    request, tally = question.request, question.tally
    if outcome == "waiting":
        return f"{len(tally.yes)} of {request.count} have approved; it waits for the others"
    if outcome == "recorded":
        root_run = request.run.partition("/")[0]
        return f"recorded; the run uses it when it is resumed (hermes --resume {root_run})"
    if outcome == "changed":
        return "the action has changed since the request, so it is not run"
    if outcome == "denied" and question.seconds:
        return "stopped"
    return outcome


@cli_command("hermes approvals grants --json")
def grants(ctx: click.Context, as_json: bool) -> None:
    """List the grants: actions of a run that may be repeated without asking.

    `hermes policy always` lists what is allowed permanently.
    """
    found = _live_grants(load_settings(ctx))
    if as_json:
        print_json([_grant_row(each) for each in found])
        return
    rows = [_grant_row(each) for each in found]
    print_table(
        ("id", "left", "until", "by", "action"),
        [(r["id"], r["left"], r["until"], r["by"], clip(str(r["action"]), 60)) for r in rows],
        empty="there are no grants",
    )


@cli_command("hermes approvals revoke grant-20260306-031500-4f2a1c")
@click.argument("id")
def revoke(ctx: click.Context, id: str, as_json: bool) -> None:
    """Revoke the grant ID: the action needs approval again, also in a running process.

    The name of a rule created by `approve --always` works as well.
    """
    loaded = load_settings(ctx)
    name = _revoke_rule(loaded, id) if id.startswith("always-") else _revoke_grant(loaded, id)
    if as_json:
        print_json({"id": name, "revoked": True})
    else:
        echo(f"{name} is revoked")


def _revoke_rule(loaded: LoadedSettings, name: str) -> str:
    from hermes.policy.approvals.always_allowed import revoke_always

    if not revoke_always(always_rules_path(loaded), name):
        raise HermesError(f"there is no {name!r}; `hermes policy always` lists them")
    return name


def _revoke_grant(loaded: LoadedSettings, id: str) -> str:
    found = [
        each for each in _live_grants(loaded) if id in (each.grant.id, each.grant.id[-len(id) :])
    ]
    if len(found) != 1:
        raise HermesError(f"there is no grant {id!r}; `hermes approvals grants` lists them")
    grant = found[0].grant

    async def change(journal: JournalStore) -> None:
        await journal.append(GrantRevoked(run=grant.run, grant=grant.id, by=user_name()))

    query_journal(loaded, change)
    return grant.id


def _live_grants(loaded: LoadedSettings) -> list[GrantUsage]:
    now = datetime.now(UTC)
    return [
        usage
        for usage in recent_approvals(loaded).grants.values()
        if not usage.revoked
        and usage.grant.given_at <= now < _grant_expiry(usage)
        and (usage.grant.uses == 0 or usage.used < usage.grant.uses)
    ]


def _grant_expiry(usage: GrantUsage) -> datetime:
    return usage.grant.given_at + timedelta(seconds=usage.grant.valid_for)


def _grant_row(usage: GrantUsage) -> dict[str, object]:
    grant = usage.grant
    return {
        "id": grant.id,
        "left": grant.uses - usage.used if grant.uses else "any",
        "used": usage.used,
        "until": format_time(_grant_expiry(usage)),
        "by": ", ".join(grant.by),
        "scope": grant.scope,
        "rule": grant.rule,
        "run": grant.run,
        "action": usage.shown,
    }
