"""What people do about approvals and incidents: one function each, for terminal, chat and web.

`person` is an actor: the name of a person, or `channel:id` for somebody who has none. `via` says
where it was done: cli, terminal, chat, web, or the name of a channel.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Literal

import anyio

from hermes.app.people import load_people
from hermes.app.policy import WATCH_RUN, is_run_active
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.views import (
    APPROVAL_LOOKBACK,
    find_approval_request,
    find_incident,
    read_incident,
)
from hermes.core.actions import ApprovalScope, why_not_always
from hermes.core.channels import InboundMessage
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events import Event
from hermes.core.events.approvals import (
    ActionStopped,
    ApprovalAnswered,
    ApprovalSettled,
    GrantRevoked,
)
from hermes.core.events.incidents import (
    AlertRaised,
    AlertSuppressed,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentHint,
    IncidentOpened,
    IncidentReopened,
)
from hermes.core.events.operations import MaintenanceAdded
from hermes.core.foreign_text import MAX_TITLE_CHARS, visible_line, visible_text
from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.core.protocols import Journal
from hermes.core.run_ids import new_id
from hermes.gateway.answers import AnswerVerb, read_answer
from hermes.policy.approvals.history import ApprovalQuestion, read_approval_history
from hermes.settings.load import LoadedSettings

SETTLE_TIMEOUT_S = 5.0
"""How long to wait for the running process to act on an answer."""
MUTE_S = 3600.0
"""How long alerts of a service are muted, where nobody says how long."""
MAX_NOTE_CHARS = 1_000
MAX_HINT_CHARS = 2_000
MAX_PROBLEM_CHARS = 4_000
PICKUP_TIMEOUT_S = 5.0
"""How long to wait for a running watch to open an incident."""
CLOCK_TOLERANCE = timedelta(seconds=5)
"""How far the clock of a platform may differ from ours."""
CLOSE_OUTCOMES = ("closed", "resolved", "no-incident", "recovered")

Refusal = Literal["", "unknown", "settled", "over", "denied"]
_SCOPES: dict[str, ApprovalScope] = {
    "once": "once",
    "session": "session",
    "always": "always",
    "go": "once",
}


class AnswerOutcome(Value, kw_only=True, frozen=True):
    """Whether an answer to an approval request counts, and what became of it."""

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
    return AnswerOutcome(
        approval=name,
        by=person,
        approved=approved,
        outcome=outcome,
        text=_outcome_text(question, outcome),
    )


def _refusal(
    question: ApprovalQuestion, person: str, verb: AnswerVerb, via: str, hash: str | None
) -> tuple[Refusal, str]:
    """Why this answer does not count, as a word and as a sentence."""
    request, now, approved = question.request, datetime.now(UTC), verb in _SCOPES
    if question.settled is not None:
        by = ", ".join(question.settled.by)
        state = question.settled.outcome + (f" by {by}" if by else "")
        return "settled", f"{request.approval} was already settled: {state}"
    if not question.is_open(now):
        return "over", f"{request.approval} is over: no one answered in time, so it is denied"
    if hash is not None and hash != request.hash and (hash or approved):
        return "denied", "the action is not the one that was shown; look at it again"
    if via == "email" and approved:
        return "denied", "the sender of an e-mail can be forged: answer elsewhere"
    if why := question.tally.objection(person, approved=approved):
        return "denied", why
    if approved and person in question.tally.yes:
        return (
            "denied",
            f"{person} has already approved it; {request.count} different people must",
        )
    if verb == "always" and (why := why_not_always(request)):
        return "denied", f"not permanently: {why}"
    return "", ""


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
    """Answer a request with what somebody pressed or wrote in a chat; None when it is no answer.

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
        with suppress(HermesError):
            asked_at = (await find_approval_request(journal, given.approval)).request.at
            if message.sent_at < asked_at - CLOCK_TOLERANCE:
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


async def revoke_grant(journal: Journal, wanted: str, *, person: str) -> str:
    """End a grant, by its id or the end of it. Like denying, anybody may do it.

    Raises `HermesError`.
    """
    now = datetime.now(UTC)
    history = await read_approval_history(journal, since=now - APPROVAL_LOOKBACK)
    found = [each.grant for each in history.live_grants(now) if each.grant.id.endswith(wanted)]
    if len(found) != 1 or not wanted:
        raise HermesError(f"there is no grant {wanted!r}; `hermes approvals grants` lists them")
    await journal.append(GrantRevoked(run=found[0].run, grant=found[0].id, by=person))
    return found[0].id


class IncidentOutcome(Value, kw_only=True, frozen=True):
    """What a person did about an incident."""

    incident: str
    by: str
    state: str
    text: str
    """One line for the person."""
    fingerprint: str = ""


class ReportedProblem(Value, kw_only=True, frozen=True):
    alert: int
    """The number of its event."""
    incident: str
    """Empty while no watch has opened one."""
    watched: bool


async def report_problem(
    loaded: LoadedSettings, journal: Journal, text: str, *, service: str = "", severity: str = ""
) -> ReportedProblem:
    """Somebody reports a problem: an alert, which a running watch handles at once.

    Raises `HermesError` when it was suppressed, or says nothing.
    """
    if not visible_line(text):
        raise HermesError("describe the problem in a few words")
    alert = _problem_alert(text, visible_line(service, MAX_TITLE_CHARS), severity)
    number = (await journal.append(SecretRedactor(loaded).clean_event(alert)))[-1]
    watched = is_run_active(loaded, WATCH_RUN)
    found = await _wait_for_pickup(journal, alert, number) if watched else ""
    return ReportedProblem(alert=number, incident=found, watched=watched)


def _problem_alert(text: str, service: str, severity: str) -> AlertRaised:
    title = visible_line(text.strip().splitlines()[0], MAX_TITLE_CHARS)
    mark = f"{service}\n{' '.join(title.lower().split())}".encode()
    return AlertRaised(
        run=WATCH_RUN,
        fingerprint=f"person:{hashlib.sha256(mark).hexdigest()[:16]}",
        title=title,
        text=visible_text(text).strip()[:MAX_PROBLEM_CHARS],
        source="person",
        labels=(("service", service),) if service else (),
        severity=severity,
    )


async def _wait_for_pickup(journal: Journal, alert: AlertRaised, number: int) -> str:
    """Return the incident that a watcher opened or extended for it; empty after the timeout."""
    with anyio.move_on_after(PICKUP_TIMEOUT_S):
        while True:
            newest = await journal.last()
            if found := await _find_pickup(journal, alert, number):
                return found
            await journal.changed(newest)
    return ""


async def _find_pickup(journal: Journal, alert: AlertRaised, number: int) -> str:
    kinds = ("incident.opened", "incident.joined", "alert.suppressed")
    async for each in journal.read(after=number, kinds=kinds):
        event = each.event
        if isinstance(event, AlertSuppressed) and event.fingerprint == alert.fingerprint:
            raise HermesError(f"the alert was suppressed: {event.why}")
        if isinstance(event, IncidentOpened) and (
            number in event.alerts or event.fingerprint == alert.fingerprint
        ):
            return event.incident
        if alert.fingerprint in getattr(event, "fingerprints", ()):
            return str(getattr(event, "incident", ""))
    return ""


async def acknowledge_incident(
    loaded: LoadedSettings, journal: Journal, incident: str, *, person: str
) -> IncidentOutcome:
    """Somebody takes care of it. Raises `HermesError`."""

    def event(known: Incident) -> Event:
        _require_open(known)
        name = known.details.incident
        return IncidentAcknowledged(run=known.details.run, incident=name, by=person)

    return await _record(loaded, journal, incident, person, event, "acknowledged")


async def tell_incident(
    loaded: LoadedSettings, journal: Journal, incident: str, text: str, *, person: str
) -> IncidentOutcome:
    """Keep what a person says about it, for whoever works on it and for the report.

    A hint decides nothing, so whoever may talk to Hermes gives one, also without a name. Raises
    `HermesError`.
    """
    event = await make_hint(journal, incident, text, person=person)
    await journal.append(SecretRedactor(loaded).clean_event(event))
    return IncidentOutcome(
        incident=event.incident,
        by=person,
        state="told",
        text=f"{event.incident}: kept as a hint by {person}, not verified",
    )


async def make_hint(journal: Journal, incident: str, text: str, *, person: str) -> IncidentHint:
    """The event of `tell_incident`, for callers that record it with others: the bus redacts it.

    Raises `HermesError`.
    """
    hint = visible_text(text).strip()[:MAX_HINT_CHARS]
    if not hint:
        raise HermesError("say something about the incident in a few words")
    opened = await find_incident(journal, incident)
    return IncidentHint(run=opened.run, incident=opened.incident, person=person, text=hint)


async def close_incident(
    loaded: LoadedSettings,
    journal: Journal,
    incident: str,
    *,
    person: str,
    outcome: str = "closed",
    reason: str = "",
) -> IncidentOutcome:
    """A person has handled it, or it is none. Raises `HermesError`."""
    if outcome not in CLOSE_OUTCOMES:
        raise HermesError(f"an incident is closed as one of: {', '.join(CLOSE_OUTCOMES)}")

    def event(known: Incident) -> Event:
        if known.status not in ("open", "escalated"):
            raise HermesError(
                f"{known.details.incident} is already over: {known.status}; "
                "`hermes incident reopen` opens it again"
            )
        return IncidentClosed(
            run=known.details.run,
            incident=known.details.incident,
            outcome=outcome,  # type: ignore[arg-type]  # one of CLOSE_OUTCOMES
            answered_by="person",
            by=person,
            reason=visible_line(reason, MAX_NOTE_CHARS),
        )

    return await _record(loaded, journal, incident, person, event, outcome)


async def reopen_incident(
    loaded: LoadedSettings, journal: Journal, incident: str, *, person: str, reason: str = ""
) -> IncidentOutcome:
    """The watch continues with it. Raises `HermesError`."""

    def event(known: Incident) -> Event:
        if known.status == "open":
            raise HermesError(f"{known.details.incident} is open")
        name, why = known.details.incident, visible_line(reason, MAX_NOTE_CHARS)
        return IncidentReopened(run=known.details.run, incident=name, by=person, reason=why)

    return await _record(loaded, journal, incident, person, event, "open again")


async def mute_incident(
    loaded: LoadedSettings,
    journal: Journal,
    incident: str,
    *,
    person: str,
    seconds: float = MUTE_S,
) -> IncidentOutcome:
    """Alerts of its service open no incident for a while: a maintenance window.

    Raises `HermesError`.
    """

    def event(known: Incident) -> Event:
        target = known.details.service or known.details.labels.get("host", "")
        if not target:
            raise HermesError(
                f"{known.details.incident} names no service: `hermes maintenance add TARGET` "
                "mutes alerts by host or label"
            )
        now = datetime.now(UTC)
        return MaintenanceAdded(
            run=WATCH_RUN,
            window=new_id("maintenance"),
            target=visible_line(target, 200),
            begins=now,
            until=now + timedelta(seconds=seconds),
            by=person,
            reason=f"muted in {known.details.incident}",
        )

    return await _record(loaded, journal, incident, person, event, "muted")


async def _record(
    loaded: LoadedSettings,
    journal: Journal,
    wanted: str,
    person: str,
    make_event: Callable[[Incident], Event],
    state: str,
) -> IncidentOutcome:
    if problem := (await load_people(loaded, journal)).objection(person):
        raise PolicyDenied(problem)
    incident = await read_incident(journal, wanted)
    await journal.append(SecretRedactor(loaded).clean_event(make_event(incident)))
    name = incident.details.incident
    plain = state in ("acknowledged", "open again", "closed", "muted")
    return IncidentOutcome(
        incident=name,
        by=person,
        state=state,
        text=f"{name}: {state if plain else f'closed as {state}'} by {person}",
        fingerprint=incident.details.fingerprint,
    )


def _require_open(incident: Incident) -> None:
    if incident.status not in ("open", "escalated"):
        raise HermesError(f"{incident.details.incident} is over: {incident.status}")
