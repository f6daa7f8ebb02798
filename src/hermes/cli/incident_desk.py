"""`hermes incident open`, `ack`, `close` and `reopen`: what a person says about an incident."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import click

from hermes.app.approving import lives, user_name
from hermes.app.veil import Veil
from hermes.cli.incident_found import find, offered
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.stored import ask_journal
from hermes.core.errors import HermesError
from hermes.core.events import Event
from hermes.core.events.incidents import (
    AlertRaised,
    AlertSuppressed,
    IncidentAcknowledged,
    IncidentClosed,
    IncidentOpened,
    IncidentReopened,
)
from hermes.core.protocols import Journal
from hermes.memory.opening import Store, open_journal
from hermes.settings.load import Loaded
from hermes.sre.incident import Incident
from hermes.sre.report.account import account
from hermes.sre.report.markdown import TITLE, one_line, visible
from hermes.sre.report.reading import records_of

WATCH = "watch"
PATIENCE = 5.0
"""Seconds in which a watcher that lives takes up an alert."""
TEXT = 4_000
ENDINGS = ("closed", "resolved", "no-incident", "recovered")


@click.command(
    "open",
    cls=Examples,
    examples="""
hermes incident open "the shop shows old prices" --service shop --severity P2
hermes incident open "mails wait for an hour" --json
""",
)
@click.argument("text")
@click.option("--service", default="", help="Which service it is about.")
@click.option("--severity", type=click.Choice(("P0", "P1", "P2", "P3")), default=None)
@json_option
@click.pass_context
def open_(ctx: click.Context, text: str, service: str, severity: str | None, as_json: bool) -> None:
    """Say in TEXT what is wrong. A running watcher takes it up at once."""
    loaded = settings_for(ctx)
    if not one_line(text):
        raise click.UsageError("say in a few words what is wrong")
    alert = _alert(text, service, severity or "")

    async def give() -> tuple[int, str]:
        async with open_journal(loaded.store) as journal:
            cleaned = Veil(loaded).event(alert)
            number = (await journal.append(cleaned))[-1]
            return number, await _taken_up(journal, alert, number) if _watched(loaded) else ""

    number, incident = anyio.run(give)
    if as_json:
        emit_json({"alert": number, "incident": incident or None, "watched": _watched(loaded)})
    elif incident:
        say(f"taken up: {incident} (`hermes incident show {incident}`)")
    elif _watched(loaded):
        note(f"written down as event {number}; the watcher has not opened an incident yet")
    else:
        note(
            f"written down as event {number}, but no watcher runs in this home; "
            "`hermes watch` takes it up when it starts"
        )


@click.command(cls=Examples, examples="hermes incident ack last")
@click.argument("id", default="last", shell_complete=offered)
@json_option
@click.pass_context
def ack(ctx: click.Context, id: str, as_json: bool) -> None:
    """Say that you have seen the incident ID."""

    def event(incident: Incident, who: str) -> Event:
        _must_be_open(incident)
        name = incident.case.incident
        return IncidentAcknowledged(run=incident.case.run, incident=name, by=who)

    _say(ctx, id, event, "acknowledged", as_json=as_json)


@click.command(
    cls=Examples,
    examples="""
hermes incident close last --reason "a cable was out"
hermes incident close 4f2a1c --as no-incident --reason "a planned restart"
""",
)
@click.argument("id", default="last", shell_complete=offered)
@click.option("--as", "ending", type=click.Choice(ENDINGS), default="closed", show_default=True)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the journal and the report.")
@json_option
@click.pass_context
def close(ctx: click.Context, id: str, ending: str, reason: str, as_json: bool) -> None:
    """End the incident ID: a person has dealt with it, or it is none."""

    def event(incident: Incident, who: str) -> Event:
        if incident.status not in ("open", "escalated"):
            raise HermesError(
                f"{incident.case.incident} is over already: {incident.status}; "
                "`hermes incident reopen` opens it again"
            )
        return IncidentClosed(
            run=incident.case.run,
            incident=incident.case.incident,
            outcome=ending,  # type: ignore[arg-type]  # one of ENDINGS
            answered_by="person",
            by=who,
            reason=one_line(reason, 1_000),
        )

    _say(ctx, id, event, ending, as_json=as_json)


@click.command(cls=Examples, examples='hermes incident reopen last --reason "it is back"')
@click.argument("id", default="last", shell_complete=offered)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the journal.")
@json_option
@click.pass_context
def reopen(ctx: click.Context, id: str, reason: str, as_json: bool) -> None:
    """Open the incident ID again: it was not over. A running watcher takes it up."""

    def event(incident: Incident, who: str) -> Event:
        if incident.status == "open":
            raise HermesError(f"{incident.case.incident} is open")
        name, why = incident.case.incident, one_line(reason, 1_000)
        return IncidentReopened(run=incident.case.run, incident=name, by=who, reason=why)

    loaded = _say(ctx, id, event, "open again", as_json=as_json)
    if not as_json and not _watched(loaded):
        note("no watcher runs in this home; `hermes watch` takes it up when it starts")


def _say(
    ctx: click.Context,
    id: str,
    event: Callable[[Incident, str], Event],
    done: str,
    *,
    as_json: bool,
) -> Loaded:
    loaded, who = settings_for(ctx), user_name()

    async def give(journal: Store) -> str:
        run = (await find(journal, id)).run
        incident = account(await records_of(journal, run)).incident
        await journal.append(Veil(loaded).event(event(incident, who)))
        return incident.case.incident

    name = ask_journal(loaded, give)
    if as_json:
        emit_json({"incident": name, "by": who, "state": done})
    else:
        closed = done if done in ("acknowledged", "open again", "closed") else f"closed as {done}"
        say(f"{name}: {closed} by {who}")
    return loaded


def _alert(text: str, service: str, severity: str) -> AlertRaised:
    title, labels = one_line(text.strip().splitlines()[0], TITLE), ()
    mark = f"{service}\n{' '.join(title.lower().split())}".encode()
    return AlertRaised(
        run=WATCH,
        fingerprint=f"person:{hashlib.sha256(mark).hexdigest()[:16]}",
        title=title,
        text=visible(text).strip()[:TEXT],
        source="person",
        labels=(("service", service),) if service else labels,
        severity=severity,
    )


def _must_be_open(incident: Incident) -> None:
    if incident.status not in ("open", "escalated"):
        raise HermesError(f"{incident.case.incident} is over: {incident.status}")


def _watched(loaded: Loaded) -> bool:
    return lives(loaded, WATCH)


async def _taken_up(journal: Journal, alert: AlertRaised, number: int) -> str:
    """The incident that a watcher opened for it, or put it to; empty when none did in time."""
    ask: Callable[[], Awaitable[str]] = partial(_answer, journal, alert, number)
    with anyio.move_on_after(PATIENCE):
        while True:
            newest = await journal.last()
            if found := await ask():
                return found
            await journal.changed(newest)
    return ""


async def _answer(journal: Journal, alert: AlertRaised, number: int) -> str:
    kinds = ("incident.opened", "incident.joined", "alert.suppressed")
    async for each in journal.read(after=number, kinds=kinds):
        event = each.event
        if isinstance(event, AlertSuppressed) and event.fingerprint == alert.fingerprint:
            raise HermesError(f"heard and not acted upon: {event.why}")
        if isinstance(event, IncidentOpened) and (
            number in event.alerts or event.fingerprint == alert.fingerprint
        ):
            return event.incident
        if alert.fingerprint in getattr(event, "fingerprints", ()):
            return str(getattr(event, "incident", ""))
    return ""
