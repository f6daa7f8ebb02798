"""Answers of people to approval requests, from terminal, chat and web.

`person` is an actor: the name of a person, or `channel:id` for one who has no name. `via` says
where it was done: cli, terminal, chat, web, or the name of a channel.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import anyio

from hermes.app.incidents.views import (
    APPROVAL_LOOKBACK,
    find_approval_request,
)
from hermes.app.people import load_people
from hermes.app.policy import is_run_active
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.actions import ApprovalScope, why_not_always
from hermes.core.channels import InboundMessage
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalSettled,
    GrantRevoked,
)
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.gateway.answers import AnswerVerb, read_answer
from hermes.policy.approvals.history import ApprovalQuestion, read_approval_history
from hermes.settings.load import LoadedSettings

SETTLE_TIMEOUT_S = 5.0
"""How long to wait for the running process to act on an answer."""
MAX_NOTE_CHARS = 1_000
CLOCK_TOLERANCE = timedelta(seconds=5)
"""How far the clock of a platform may differ from ours."""

Refusal = Literal["", "unknown", "settled", "over", "denied"]
_SCOPES: dict[str, ApprovalScope] = {
    "once": "once",
    "session": "session",
    "always": "always",
    "go": "once",
}


class AnswerOutcome(Value, kw_only=True, frozen=True):
    """The result of an answer to an approval request: whether it counts, and what became of it."""

    approval: str
    by: str
    approved: bool
    refusal: Refusal = ""
    """Why the answer does not count, as one word; empty: it counts."""
    outcome: str = ""
    """What the running process made of it; `waiting` for other people, `recorded` when no process
    works on the run now."""
    text: str = ""
    """One line for the person who answered."""

    @property
    def counts(self) -> bool:
        return not self.refusal


async def answer_approval(
    loaded: LoadedSettings,
    journal: Journal,
    approval: str,
    verb: AnswerVerb,
    *,
    person: str,
    via: str,
    hash: str | None = None,
    note: str = "",
) -> AnswerOutcome:
    """Answer a request: the person, their groups, the deadline and the action are checked here.

    `hash` is that of the action that the person was shown; None where the entry point shows it
    itself. A yes to another action, or to none, does not count.
    """
    approved = verb in _SCOPES
    try:
        question = await find_approval_request(journal, approval)
    except StoreError:
        raise
    except HermesError as error:
        return AnswerOutcome(
            approval=approval, by=person, approved=approved, refusal="unknown", text=str(error)
        )
    name = question.request.approval
    refusal, why = _refusal(question, person, verb, via, hash)
    if not refusal and approved:
        why = (await load_people(loaded, journal)).objection(person)
        refusal = "denied" if why else ""
    if refusal:
        return AnswerOutcome(approval=name, by=person, approved=approved, refusal=refusal, text=why)
    event = SecretRedactor(loaded).clean_event(_answer_event(question, verb, person, via, note))
    assert isinstance(event, ActionStopped | ApprovalAnswered)
    numbers = await journal.append(event)
    question.tally.add(event)
    outcome = await _wait_for_outcome(loaded, journal, question, numbers[-1])
    text = _outcome_text(question, outcome)
    if outcome == ("denied" if approved else "approved"):  # an answer at the same time was first
        refusal, text = "settled", _settled_text(question, outcome, ())
    return AnswerOutcome(
        approval=name, by=person, approved=approved, refusal=refusal, outcome=outcome, text=text
    )


def _refusal(
    question: ApprovalQuestion, person: str, verb: AnswerVerb, via: str, hash: str | None
) -> tuple[Refusal, str]:
    """Return why this answer does not count, as a word and as a sentence."""
    request, now, approved = question.request, datetime.now(UTC), verb in _SCOPES
    if question.settled is not None:
        return "settled", _settled_text(question, question.settled.outcome, question.settled.by)
    if not question.is_open(now):
        return "over", f"{request.approval} is over: no one answered in time, so it is denied"
    if hash is not None and hash != request.hash and (hash or approved):
        return "denied", "the action is not the one that was shown; look at it again"
    if via == "email" and approved:
        return "denied", "the sender of an e-mail can be forged: answer elsewhere"
    if why := question.tally.objection(person, approved=approved):
        return "denied", why
    if approved and person in question.tally.yes:
        rest = f"; {request.count} different people must" if request.count > 1 else ""
        return "denied", f"{person} has already approved it{rest}"
    if decided := question.tally.outcome:  # the process that asked has not acted on it yet
        return "settled", _settled_text(question, decided, question.tally.by)
    if verb == "always" and (why := why_not_always(request)):
        return "denied", f"not permanently: {why}"
    return "", ""


def _settled_text(question: ApprovalQuestion, outcome: str, by: Sequence[str]) -> str:
    who = f" by {', '.join(by)}" if by else ""
    return f"{question.request.approval} was already settled: {outcome}{who}"


def _answer_event(
    question: ApprovalQuestion, verb: AnswerVerb, person: str, via: str, note: str
) -> ActionStopped | ApprovalAnswered:
    request = question.request
    if question.seconds and verb not in _SCOPES:
        return ActionStopped(
            run=request.run, call_id=request.call_id, by=person, approval=request.approval
        )
    return ApprovalAnswered(
        run=request.run,
        approval=request.approval,
        approved=verb in _SCOPES,
        by=person,
        scope=_SCOPES.get(verb, "once"),
        via=via,
        note=visible_line(note, MAX_NOTE_CHARS),
    )


async def _wait_for_outcome(
    loaded: LoadedSettings,
    journal: Journal,
    question: ApprovalQuestion,
    after: int,
) -> str:
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


async def answer_by_message(
    loaded: LoadedSettings,
    journal: Journal,
    message: InboundMessage,
    *,
    quoted_approval: str = "",
    allowed: bool,
) -> AnswerOutcome | None:
    """Answer a request with what a person pressed or wrote in a chat; None when it is no answer.

    `quoted_approval` is the request in the message that this one quotes, and `allowed` whether the
    sender may talk to Hermes there.
    """
    channel = message.address.channel
    person = (await load_people(loaded, journal)).actor_of(channel, message.sender)
    given = read_answer(message, quoted_approval)
    if given is None:
        return None
    problem = given.problem if allowed else f"{person} may not talk to Hermes here"
    if not problem and message.sent_at is not None and not message.pressed:
        asked_at = await _asked_at(journal, given.approval)
        if asked_at is not None and message.sent_at < asked_at - CLOCK_TOLERANCE:
            problem = "it was written before the question was asked"
    if problem:
        return AnswerOutcome(
            approval=given.approval,
            by=person,
            approved=given.verb in _SCOPES,
            refusal="denied",
            text=problem,
        )
    return await answer_approval(
        loaded, journal, given.approval, given.verb, person=person, via=channel
    )


async def _asked_at(journal: Journal, approval: str) -> datetime | None:
    """Return None for an unknown request: the answer to it is refused later."""
    try:
        return (await find_approval_request(journal, approval)).request.at
    except StoreError:
        raise
    except HermesError:
        return None


async def revoke_grant(journal: Journal, wanted: str, *, person: str) -> str:
    """End a grant, by its id or the end of it. Like denying, any person may do it.

    Raises `HermesError`.
    """
    now = datetime.now(UTC)
    history = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    found = [each.grant for each in history.live_grants(now) if each.grant.id.endswith(wanted)]
    if len(found) != 1 or not wanted:
        raise HermesError(f"there is no grant {wanted!r}; `hermes approvals grants` lists them")
    await journal.append(GrantRevoked(run=found[0].run, grant=found[0].id, by=person))
    return found[0].id
