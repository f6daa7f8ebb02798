"""`hermes approvals approve`, `deny` and `stop`: a person's answer, written into the journal."""

from datetime import UTC, datetime

import anyio
import click

from hermes.app.approving import lives, user_name
from hermes.cli.approvals_found import find
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.stored import ask_journal
from hermes.core.actions import Scope, not_for_good
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalSettled,
)
from hermes.core.protocols import Journal
from hermes.memory.opening import Store
from hermes.policy.approvals_past import Question
from hermes.settings.load import Loaded

PATIENCE = 5.0
"""Seconds in which a process that lives takes note of an answer."""


@click.command(
    cls=Examples,
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
    scope: Scope = "always" if always else "session" if session else "once"
    _answer(settings_for(ctx), id, approved=True, scope=scope, note=note, as_json=as_json)


@click.command(cls=Examples, examples='hermes approvals deny 4f2a1c --note "use the replica"')
@click.argument("id", default="")
@click.option("--note", default="", metavar="TEXT", help="Why: the agent is told.")
@json_option
@click.pass_context
def deny(ctx: click.Context, id: str, note: str, as_json: bool) -> None:
    """Say no to the question ID."""
    _answer(settings_for(ctx), id, approved=False, scope="once", note=note, as_json=as_json)


@click.command(cls=Examples, examples="hermes approvals stop 4f2a1c")
@click.argument("id", default="")
@json_option
@click.pass_context
def stop(ctx: click.Context, id: str, as_json: bool) -> None:
    """Keep the announced action ID from being done. Anybody may."""
    _answer(settings_for(ctx), id, approved=False, scope="once", note="", as_json=as_json)


def _answer(
    loaded: Loaded, id: str, *, approved: bool, scope: Scope, note: str, as_json: bool
) -> None:
    who = user_name()

    async def give(journal: Store) -> tuple[Question, str]:
        question = await find(journal, id)
        _check(question, who, approved, scope)
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
        return question, await _outcome(journal, question, numbers[-1], loaded)

    question, outcome = ask_journal(loaded, give)
    request = question.request
    if as_json:
        emit_json({"id": request.approval, "by": who, "approved": approved, "outcome": outcome})
        return
    say(f"{request.approval}: {_told(question, outcome)}")


def _check(question: Question, who: str, approved: bool, scope: Scope) -> None:
    """Raises `HermesError` when it is over, `PolicyDenied` when this answer would not count."""
    request, now = question.request, datetime.now(UTC)
    if question.settled is not None:
        by = ", ".join(question.settled.by)
        raise HermesError(
            f"{request.approval} was settled before: {question.settled.outcome}"
            + (f" by {by}" if by else "")
        )
    if not question.open(now):
        raise HermesError(f"{request.approval} is over: nobody answered in time, which is a no")
    if why := question.tally.objection(who, approved=approved):
        raise PolicyDenied(why)
    if who in question.tally.yes and approved:
        raise PolicyDenied(f"{who} has said yes already; {request.count} different people must")
    if scope == "always" and (why := not_for_good(request)):
        raise PolicyDenied(f"not with --always: {why}")


async def _outcome(journal: Journal, question: Question, after: int, loaded: Loaded) -> str:
    """How it was settled; `waiting` for others, or `recorded` for a run that does not run."""
    request = question.request
    if question.tally.outcome is None:
        return "waiting"
    if not lives(loaded, request.run):
        return "recorded"
    with anyio.move_on_after(PATIENCE):
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


def _told(question: Question, outcome: str) -> str:
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
