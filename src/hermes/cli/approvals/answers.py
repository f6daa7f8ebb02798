"""`hermes approvals approve`, `deny` and `stop`: a person's answer, written into the journal."""

from datetime import UTC, datetime, timedelta

import anyio
import click

from hermes.app.policy import always_rules_path, is_run_active, user_name
from hermes.cli.approvals.requests import find_approval_request, recent_approvals
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_json, print_table
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
"""Seconds in which a process that lives takes note of an answer."""


@click.command(
    cls=CommandWithExamples,
    examples="""
hermes approvals approve                      the only one that waits
hermes approvals approve 4f2a1c --session     also when this session does exactly the same again
hermes approvals approve 4f2a1c --always      for good: a rule that `hermes policy always` shows
""",
)
@click.argument("id", default="")
@click.option("--session", is_flag=True, help="Also for exactly the same later in its session.")
@click.option("--always", is_flag=True, help="For good: becomes a rule you can read and revoke.")
@click.option("--note", default="", metavar="TEXT", help="Why; kept in the journal.")
@json_option
@click.pass_context
def approve(
    ctx: click.Context, id: str, session: bool, always: bool, note: str, as_json: bool
) -> None:
    """Say yes to the question ID. It counts for exactly the action that was shown."""
    if session and always:
        raise click.UsageError("--session or --always, not both")
    scope: ApprovalScope = "always" if always else "session" if session else "once"
    _record_answer(load_settings(ctx), id, approved=True, scope=scope, note=note, as_json=as_json)


@click.command(
    cls=CommandWithExamples, examples='hermes approvals deny 4f2a1c --note "use the replica"'
)
@click.argument("id", default="")
@click.option("--note", default="", metavar="TEXT", help="Why: the agent is told.")
@json_option
@click.pass_context
def deny(ctx: click.Context, id: str, note: str, as_json: bool) -> None:
    """Say no to the question ID."""
    _record_answer(load_settings(ctx), id, approved=False, scope="once", note=note, as_json=as_json)


@click.command(cls=CommandWithExamples, examples="hermes approvals stop 4f2a1c")
@click.argument("id", default="")
@json_option
@click.pass_context
def stop(ctx: click.Context, id: str, as_json: bool) -> None:
    """Keep the announced action ID from being done. Anybody may."""
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

    async def give(journal: JournalStore) -> tuple[ApprovalQuestion, str]:
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

    question, outcome = query_journal(loaded, give)
    request = question.request
    if as_json:
        print_json({"id": request.approval, "by": who, "approved": approved, "outcome": outcome})
        return
    echo(f"{request.approval}: {_outcome_text(question, outcome)}")


def _check_answer(
    question: ApprovalQuestion, who: str, approved: bool, scope: ApprovalScope
) -> None:
    """Raises `HermesError` when it is over, `PolicyDenied` when this answer would not count."""
    request, now = question.request, datetime.now(UTC)
    if question.settled is not None:
        by = ", ".join(question.settled.by)
        raise HermesError(
            f"{request.approval} was settled before: {question.settled.outcome}"
            + (f" by {by}" if by else "")
        )
    if not question.is_open(now):
        raise HermesError(f"{request.approval} is over: nobody answered in time, which is a no")
    if why := question.tally.objection(who, approved=approved):
        raise PolicyDenied(why)
    if who in question.tally.yes and approved:
        raise PolicyDenied(f"{who} has said yes already; {request.count} different people must")
    if scope == "always" and (why := why_not_always(request)):
        raise PolicyDenied(f"not with --always: {why}")


async def _wait_for_outcome(
    journal: Journal, question: ApprovalQuestion, after: int, loaded: LoadedSettings
) -> str:
    """How it was settled; `waiting` for others, or `recorded` for a run that does not run."""
    request = question.request
    if question.tally.outcome is None:
        return "waiting"
    if not is_run_active(loaded, request.run):
        return "recorded"
    with anyio.move_on_after(SETTLE_TIMEOUT_S):
        while True:
            newest = await journal.last()
            async for recorded in journal.read(
                after=after, run=request.run, kinds=("approval.settled",)
            ):
                event = recorded.event
                if isinstance(event, ApprovalSettled) and event.approval == request.approval:
                    return event.outcome
            await journal.changed(newest)
    return "recorded"


def _outcome_text(question: ApprovalQuestion, outcome: str) -> str:
    request, tally = question.request, question.tally
    if outcome == "waiting":
        return f"{len(tally.yes)} of {request.count} have said yes; it waits for the others"
    if outcome == "recorded":
        whole = request.run.partition("/")[0]
        return f"written down; its run finds it when it goes on (hermes --resume {whole})"
    if outcome == "changed":
        return "what it would do has changed since it was asked, so it is not done"
    if outcome == "denied" and question.seconds:
        return "stopped"
    return outcome


@click.command(cls=CommandWithExamples, examples="hermes approvals grants --json")
@json_option
@click.pass_context
def grants(ctx: click.Context, as_json: bool) -> None:
    """List what may be done again without asking, each for one exact action of one run.

    What was allowed for good is listed by `hermes policy always`.
    """
    found = _live_grants(load_settings(ctx))
    if as_json:
        print_json([_grant_row(each) for each in found])
        return
    rows = [_grant_row(each) for each in found]
    print_table(
        ("id", "left", "until", "by", "action"),
        [(r["id"], r["left"], r["until"], r["by"], clip(str(r["action"]), 60)) for r in rows],
        empty="nothing may be done again without asking",
    )


@click.command(
    cls=CommandWithExamples, examples="hermes approvals revoke grant-20260306-031500-4f2a1c"
)
@click.argument("id")
@json_option
@click.pass_context
def revoke(ctx: click.Context, id: str, as_json: bool) -> None:
    """Take back the leave ID: it is asked about again, also in a process that runs now.

    The name of a rule that an answer "always" made works as well.
    """
    loaded = load_settings(ctx)
    name = _revoke_rule(loaded, id) if id.startswith("always-") else _revoke_grant(loaded, id)
    if as_json:
        print_json({"id": name, "revoked": True})
    else:
        echo(f"{name} is asked about again")


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
        raise HermesError(f"there is no leave {id!r}; `hermes approvals grants` lists them")
    grant = found[0].grant

    async def change(journal: JournalStore) -> None:
        await journal.append(GrantRevoked(run=grant.run, grant=grant.id, by=user_name()))

    query_journal(loaded, change)
    return grant.id


def _live_grants(loaded: LoadedSettings) -> list[GrantUsage]:
    now = datetime.now(UTC)
    return [
        held
        for held in recent_approvals(loaded).grants.values()
        if not held.revoked
        and held.grant.given_at <= now < _grant_expiry(held)
        and (held.grant.uses == 0 or held.used < held.grant.uses)
    ]


def _grant_expiry(held: GrantUsage) -> datetime:
    return held.grant.given_at + timedelta(seconds=held.grant.valid_for)


def _grant_row(held: GrantUsage) -> dict[str, object]:
    grant = held.grant
    return {
        "id": grant.id,
        "left": grant.uses - held.used if grant.uses else "any",
        "used": held.used,
        "until": f"{_grant_expiry(held).astimezone():%Y-%m-%d %H:%M}",
        "by": ", ".join(grant.by),
        "scope": grant.scope,
        "rule": grant.rule,
        "run": grant.run,
        "action": held.shown,
    }
