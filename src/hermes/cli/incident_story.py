"""`hermes incident timeline` and `report`: one incident, told from the journal."""

from collections.abc import Sequence
from pathlib import Path

import click

from hermes.cli.incident_found import find, offered
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.render_safe import clean, clip
from hermes.cli.stored import ask_journal
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentClosed, IncidentOpened, ReportWritten
from hermes.core.protocols import Recorded
from hermes.memory.opening import Store
from hermes.settings.load import Loaded
from hermes.sre.report.account import account
from hermes.sre.report.document import document, written
from hermes.sre.report.reading import earlier, records_of
from hermes.sre.report.timeline import Moment, clock
from hermes.sre.report.timeline import timeline as moments_of
from hermes.sre.report.write import write

FOLDER = "incidents"
WIDTH = 160


@click.command(cls=Examples, examples="hermes incident timeline last")
@click.argument("id", default="last", shell_complete=offered)
@json_option
@click.pass_context
def timeline(ctx: click.Context, id: str, as_json: bool) -> None:
    """Tell what happened in the incident ID, moment by moment. Times are UTC."""

    async def ask(journal: Store) -> list[Moment]:
        return moments_of(await records_of(journal, (await find(journal, id)).run))

    moments = ask_journal(settings_for(ctx), ask)
    if as_json:
        emit_json([_words(moment) for moment in moments])
        return
    day = None
    for moment in moments:
        if moment.at.date() != day:
            day = moment.at.date()
            say(f"{day} UTC", dim=True)
        say(f"{clock(moment.at)}  {clip(clean(moment.text), WIDTH)}")


@click.command(
    cls=Examples,
    examples="""
hermes incident report last > report.md
hermes incident report 4f2a1c --fresh          anew from the journal, with what came later
hermes incident report 4f2a1c --write          the file, where it could not be written before
""",
)
@click.argument("id", default="last", shell_complete=offered)
@click.option("--fresh", is_flag=True, help="Not as it was written at its end, but as of now.")
@click.option("--write", "to_file", is_flag=True, help="Also write the file, if there is none.")
@json_option
@click.pass_context
def report(ctx: click.Context, id: str, fresh: bool, to_file: bool, as_json: bool) -> None:
    """Print the report of the incident ID, as Markdown.

    It is the one that was written at its end, or a new one where more was recorded since."""
    loaded = settings_for(ctx)

    async def ask(journal: Store) -> tuple[IncidentOpened, list[Recorded], str]:
        found = await find(journal, id)
        if to_file:
            await _to_file(journal, loaded, found.run)
        records = await records_of(journal, found.run)
        return found, records, write(records, earlier=await earlier(journal, records))

    found, records, now = ask_journal(loaded, ask)
    kept = written(records)
    anew = fresh or kept is None or _outdated(records)
    text = now if anew or kept is None else kept.text
    if as_json:
        emit_json({"incident": found.incident, "path": kept.path if kept else "", "text": text})
        return
    click.echo(clean(text), nl=False)
    if kept is not None and kept.trouble:
        note(kept.trouble)
    elif kept is not None:
        note(_where(loaded, kept, anew=anew))


def _outdated(records: Sequence[Recorded]) -> bool:
    """Whether it still goes on, or more than its closing was recorded since the report."""
    if account(records).incident.unresolved:
        return True
    events = [each.event for each in records]
    last = max(place for place, event in enumerate(events) if isinstance(event, ReportWritten))
    return any(
        event.kind.startswith(("incident.", "change"))
        and event.kind != "incident.phase"
        and not (isinstance(event, IncidentClosed) and event.answered_by != "person")
        for event in events[last:]
    )


async def _to_file(journal: Store, loaded: Loaded, run: str) -> None:
    from hermes.app.veil import Veil
    from hermes.core.bus import Bus

    bus = Bus(journal, clean=Veil(loaded).event)
    if await document(journal, bus, run, loaded.home / FOLDER) is None:
        why = written(await records_of(journal, run))
        raise HermesError(why.trouble if why else "the report could not be written")


def _where(loaded: Loaded, kept: ReportWritten, *, anew: bool) -> str:
    file: Path = loaded.home / kept.path
    if not file.exists():
        return f"{file} is gone; --write makes it again"
    return f"as of now; {file} has the report as it was written then" if anew else f"kept in {file}"


def _words(moment: Moment) -> dict[str, object]:
    return {
        "at": moment.at.isoformat(),
        "seq": moment.seq,
        "kind": moment.kind,
        "text": moment.text,
    }
