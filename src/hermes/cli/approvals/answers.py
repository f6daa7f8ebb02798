"""`hermes approvals approve`, `deny`, `stop`, `grants` and `revoke`."""

from datetime import UTC, datetime, timedelta

import anyio
import click

from hermes.app.policy import always_rules_path, is_run_active, user_name
from hermes.cli.approvals.requests import find_approval_request, recent_approvals
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clip
from hermes.core.actions import ApprovalScope, why_not_always
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalSettled,
    GrantRevoked,
)
from hermes.core.protocols import Journal
from hermes.memory.store import JournalStore
from hermes.policy.approvals.history import ApprovalQuestion, GrantUsage
from hermes.settings.load import LoadedSettings

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
