"""`hermes incident open`, `ack`, `tell`, `close` and `reopen`."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import click

from hermes.app.incidents.actions import (
    CLOSE_OUTCOMES,
    IncidentOutcome,
    ReportedProblem,
    acknowledge_incident,
    close_incident,
    reopen_incident,
    report_problem,
    tell_incident,
)
from hermes.app.people import local_actor
from hermes.app.policy import WATCH_RUN, is_run_active
from hermes.cli.context import load_settings, query_journal
from hermes.cli.incidents.lookup import complete_incident_id
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json
from hermes.core.foreign_text import visible_line
from hermes.memory.store import JournalStore, open_journal
from hermes.settings.load import LoadedSettings


@cli_command("""
hermes incident open "the shop shows old prices" --service shop --severity P2
hermes incident open "mails wait for an hour" --json
""")
@click.argument("text")
@click.option("--service", default="", help="Which service it is about.")
@click.option("--severity", type=click.Choice(("P0", "P1", "P2", "P3")), default=None)
def open_(ctx: click.Context, text: str, service: str, severity: str | None, as_json: bool) -> None:
    """Report the problem described in TEXT. A running watcher handles it at once."""
    loaded = load_settings(ctx)
    if not visible_line(text):
        raise click.UsageError("describe the problem in a few words")

    async def publish() -> ReportedProblem:
        async with open_journal(loaded.store) as journal:
            return await report_problem(
                loaded, journal, text, service=service, severity=severity or ""
            )

    done = anyio.run(publish)
    number, incident = done.alert, done.incident
    if as_json:
        print_json(
            {"alert": number, "incident": incident or None, "watched": _is_watch_running(loaded)}
        )
    elif incident:
        echo(f"opened: {incident} (`hermes incident show {incident}`)")
    elif _is_watch_running(loaded):
        note(f"recorded as event {number}; the watcher has not opened an incident yet")
    else:
        note(
            f"recorded as event {number}, but no watcher is running in this home; "
            "`hermes watch` handles it when it starts"
        )


@cli_command("hermes incident ack last")
@click.argument("id", default="last", shell_complete=complete_incident_id)
def ack(ctx: click.Context, id: str, as_json: bool) -> None:
    """Acknowledge the incident ID."""
    _act(load_settings(ctx), partial(acknowledge_incident, incident=id), as_json=as_json)


@cli_command("""
hermes incident tell last "we replaced the disk of db-2 yesterday"
hermes incident tell 4f2a1c "the deploy at 14:05 was rolled back" --json
""")
@click.argument("id", shell_complete=complete_incident_id)
@click.argument("text")
def tell(ctx: click.Context, id: str, text: str, as_json: bool) -> None:
    """Tell what you know about the incident ID, for the models that work on it and the report.

    It counts as a hint: nobody has verified it, and it is no order and no approval.
    """
    _act(load_settings(ctx), partial(tell_incident, incident=id, text=text), as_json=as_json)


@cli_command("""
hermes incident close last --reason "a cable was out"
hermes incident close 4f2a1c --as no-incident --reason "a planned restart"
""")
@click.argument("id", default="last", shell_complete=complete_incident_id)
@click.option(
    "--as", "ending", type=click.Choice(CLOSE_OUTCOMES), default="closed", show_default=True
)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the journal and the report.")
def close(ctx: click.Context, id: str, ending: str, reason: str, as_json: bool) -> None:
    """Close the incident ID: a person has handled it, or it is not an incident.

    A learned check whose alert was no incident gets less weight.
    """
    loaded = load_settings(ctx)
    action = partial(close_incident, incident=id, outcome=ending, reason=reason)
    done = _act(loaded, action, as_json=as_json)
    if ending == "no-incident":
        from hermes.app.checks.learned_checks import mark_false_alarm

        if name := mark_false_alarm(loaded, done.fingerprint):
            note(f"less weight for the learned check: `hermes health learned {name}`")


@cli_command('hermes incident reopen last --reason "it is back"')
@click.argument("id", default="last", shell_complete=complete_incident_id)
@click.option("--reason", default="", metavar="TEXT", help="Kept in the journal.")
def reopen(ctx: click.Context, id: str, reason: str, as_json: bool) -> None:
    """Open the incident ID again. A running watcher continues with it."""
    loaded = load_settings(ctx)
    _act(loaded, partial(reopen_incident, incident=id, reason=reason), as_json=as_json)
    if not as_json and not _is_watch_running(loaded):
        note("no watcher is running in this home; `hermes watch` handles it when it starts")


def _act(
    loaded: LoadedSettings, action: Callable[..., Awaitable[IncidentOutcome]], *, as_json: bool
) -> IncidentOutcome:
    """Do it as the person at this terminal, and print what was done."""

    async def record(journal: JournalStore) -> IncidentOutcome:
        who = await local_actor(loaded, journal)
        return await action(loaded, journal, person=who)

    done = query_journal(loaded, record)
    if as_json:
        print_json({"incident": done.incident, "by": done.by, "state": done.state})
    else:
        echo(done.text)
    return done


def _is_watch_running(loaded: LoadedSettings) -> bool:
    return is_run_active(loaded, WATCH_RUN)
