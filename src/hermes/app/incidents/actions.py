"""What people do about incidents: one function each, for terminal, chat and web.

`person` is an actor: the name of a person, or `channel:id` for one who has no name.
"""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import anyio
from msgspec.structs import replace

from hermes.app.incidents.views import (
    find_incident,
    read_incident,
)
from hermes.app.people import load_people
from hermes.app.policy import WATCH_RUN, is_run_active
from hermes.app.secret_redactor import SecretRedactor
from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events import Event
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
from hermes.plumbing.units import format_duration
from hermes.settings.load import LoadedSettings

MUTE_S = 3600.0
"""How long alerts of a service are muted unless a length is given."""
MAX_REASON_CHARS, MAX_HINT_CHARS = 1_000, 2_000
MAX_PROBLEM_CHARS = 4_000
PICKUP_TIMEOUT_S = 5.0
"""How long to wait for a running watch to open an incident."""
CLOSE_OUTCOMES = ("closed", "resolved", "no-incident", "recovered")


class IncidentOutcome(Value, kw_only=True, frozen=True):
    """The result of what a person did about an incident."""

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
    """Report a problem as a person: an alert, which a running watch handles at once.

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
    """Record that a person takes care of it. Raises `HermesError`."""

    def event(known: Incident) -> Event:
        _require_open(known)
        name = known.details.incident
        return IncidentAcknowledged(run=known.details.run, incident=name, by=person)

    return await _record(loaded, journal, incident, person, event, "acknowledged")


async def tell_incident(
    loaded: LoadedSettings, journal: Journal, incident: str, text: str, *, person: str
) -> IncidentOutcome:
    """Keep what a person says about it, for those who work on it and for the report.

    A hint decides nothing, so anyone who may talk to Hermes can give one, also without a name.
    Raises `HermesError`.
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
    """Close it: a person has handled it, or it is no incident. Raises `HermesError`."""
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
            reason=visible_line(reason, MAX_REASON_CHARS),
        )

    return await _record(loaded, journal, incident, person, event, outcome)


async def reopen_incident(
    loaded: LoadedSettings, journal: Journal, incident: str, *, person: str, reason: str = ""
) -> IncidentOutcome:
    """The watch continues with it. Raises `HermesError`."""

    def event(known: Incident) -> Event:
        if known.status == "open":
            raise HermesError(f"{known.details.incident} is open")
        name, why = known.details.incident, visible_line(reason, MAX_REASON_CHARS)
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

    done = await _record(loaded, journal, incident, person, event, "muted")
    shown = format_duration(seconds)
    return replace(done, text=f"{done.text} for {shown}; `hermes maintenance` ends it")


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
