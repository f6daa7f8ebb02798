"""`hermes approvals`: lists, shows and answers approval requests, and revokes grants."""

from datetime import UTC, datetime

import anyio
import click
import msgspec

from hermes.app.incidents.approval_answers import AnswerOutcome, answer_approval, revoke_grant
from hermes.app.incidents.views import APPROVAL_LOOKBACK, describe_approval, find_approval_request
from hermes.app.people import local_actor
from hermes.app.policy import always_rules_path
from hermes.cli.context import load_settings, query_journal, require_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip, escape_invisible
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.protocols import JournalRecord
from hermes.gateway.answers import AnswerVerb
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


def recent_approvals(loaded: LoadedSettings) -> ApprovalHistory:
    """Recent approval requests; none when there is no journal yet."""
    if not store_exists(loaded.store):
        return ApprovalHistory()

    async def query(journal: JournalStore) -> ApprovalHistory:
        return await read_approval_history(journal, since=datetime.now(UTC) - APPROVAL_LOOKBACK)

    return query_journal(loaded, query)


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
        print_json([describe_approval(each, loaded) for each in found])
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
                clip(each.request.purpose or each.request.shown, 60),
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

    data = describe_approval(query_journal(loaded, query), loaded)
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
    what = clip(request.purpose or request.shown, 80)
    return clean(f"{request.approval}  {_request_state(question, now)}{who}  {what}")


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
    verb: AnswerVerb = "always" if always else "session" if session else "once"
    _record_answer(load_settings(ctx), id, verb, note=note, as_json=as_json)


@cli_command('hermes approvals deny 4f2a1c --note "use the replica"')
@click.argument("id", default="")
@click.option("--note", default="", metavar="TEXT", help="Why; the agent gets this text.")
def deny(ctx: click.Context, id: str, note: str, as_json: bool) -> None:
    """Deny the request ID."""
    _record_answer(load_settings(ctx), id, "deny", note=note, as_json=as_json)


@cli_command("hermes approvals stop 4f2a1c")
@click.argument("id", default="")
def stop(ctx: click.Context, id: str, as_json: bool) -> None:
    """Prevent the announced action ID. Anyone may do this."""
    _record_answer(load_settings(ctx), id, "stop", note="", as_json=as_json)


def _record_answer(
    loaded: LoadedSettings, id: str, verb: AnswerVerb, *, note: str, as_json: bool
) -> None:
    async def record(journal: JournalStore) -> AnswerOutcome:
        who = await local_actor(loaded, journal)
        return await answer_approval(loaded, journal, id, verb, person=who, via="cli", note=note)

    done = query_journal(loaded, record)
    if done.refusal == "denied":
        raise PolicyDenied(done.text)
    if done.refusal:
        raise HermesError(done.text)
    if done.approved and done.outcome == "changed":
        raise PolicyDenied(done.text)
    if as_json:
        print_json(
            {
                "id": done.approval,
                "by": done.by,
                "approved": done.approved,
                "outcome": done.outcome,
            }
        )
        return
    echo(f"{done.approval}: {done.text}")


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
    async def change(journal: JournalStore) -> str:
        return await revoke_grant(journal, id, person=await local_actor(loaded, journal))

    return query_journal(loaded, change)


def _live_grants(loaded: LoadedSettings) -> list[GrantUsage]:
    return list(recent_approvals(loaded).live_grants(datetime.now(UTC)))


def _grant_row(usage: GrantUsage) -> dict[str, object]:
    grant = usage.grant
    return {
        "id": grant.id,
        "left": grant.uses - usage.used if grant.uses else "any",
        "used": usage.used,
        "until": format_time(usage.expires_at),
        "by": ", ".join(grant.by),
        "scope": grant.scope,
        "rule": grant.rule,
        "run": grant.run,
        "action": usage.shown,
    }
