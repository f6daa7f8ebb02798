"""`hermes incident timeline`, `report` and `stats`."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from hermes.app.incidents.views import find_incident
from hermes.cli.context import load_settings, query_journal, since_option
from hermes.cli.incidents.lookup import complete_incident_id
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_fields, print_json, print_table, write_file
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError
from hermes.core.events.incidents import IncidentClosed, IncidentOpened, ReportWritten
from hermes.core.incident import Incident
from hermes.core.protocols import JournalRecord
from hermes.memory.store import JournalStore, store_exists
from hermes.plumbing.units import format_duration
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import (
    gather_report_data,
    list_incidents,
    read_earlier_incidents,
    read_incident_records,
)
from hermes.sre.reports.report_file import find_written_report, write_report_file
from hermes.sre.reports.report_text import render_report
from hermes.sre.reports.statistics import (
    DurationStatistics,
    IncidentStatistics,
    compute_statistics,
    render_svg_chart,
    render_terminal_chart,
)
from hermes.sre.reports.timeline import TimelineEntry, build_timeline, clock_time

REPORT_FOLDER = "incidents"
TIMELINE_COLUMNS = 160


@cli_command("hermes incident timeline last")
@click.argument("id", default="last", shell_complete=complete_incident_id)
def timeline(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the timeline of the incident ID. Times are UTC."""

    async def query(journal: JournalStore) -> list[TimelineEntry]:
        return build_timeline(
            await read_incident_records(journal, (await find_incident(journal, id)).run)
        )

    entries = query_journal(load_settings(ctx), query)
    if as_json:
        print_json([_timeline_row(entry) for entry in entries])
        return
    day = None
    for entry in entries:
        if entry.at.date() != day:
            day = entry.at.date()
            echo(f"{day} UTC", dim=True)
        echo(f"{clock_time(entry.at)}  {clip(clean(entry.text), TIMELINE_COLUMNS)}")


@cli_command("""
hermes incident report last > report.md
hermes incident report 4f2a1c --fresh          generated again from the journal
hermes incident report 4f2a1c --write          also write the missing file
""")
@click.argument("id", default="last", shell_complete=complete_incident_id)
@click.option("--fresh", is_flag=True, help="Generate it again from the journal.")
@click.option("--write", "to_file", is_flag=True, help="Also write the file, if there is none.")
def report(ctx: click.Context, id: str, fresh: bool, to_file: bool, as_json: bool) -> None:
    """Print the report of the incident ID, as Markdown.

    It is the report written at the end, or a new one when more was recorded since.
    """
    loaded = load_settings(ctx)

    async def query(journal: JournalStore) -> tuple[IncidentOpened, list[JournalRecord], str]:
        found = await find_incident(journal, id)
        if to_file:
            await _write_report_file(journal, loaded, found.run)
        records = await read_incident_records(journal, found.run)
        return (
            found,
            records,
            render_report(records, earlier=await read_earlier_incidents(journal, records)),
        )

    found, records, now = query_journal(loaded, query)
    written = find_written_report(records)
    is_new = fresh or written is None or _is_report_outdated(records)
    text = now if is_new or written is None else written.text
    if as_json:
        print_json(
            {"incident": found.incident, "path": written.path if written else "", "text": text}
        )
        return
    click.echo(clean(text), nl=False)
    if written is not None and written.trouble:
        note(written.trouble)
    elif written is not None:
        note(_report_file_text(loaded, written, is_new=is_new))


def _is_report_outdated(records: Sequence[JournalRecord]) -> bool:
    """Return whether the incident is unresolved, or more than its closing was recorded since."""
    if gather_report_data(records).incident.unresolved:
        return True
    events = [each.event for each in records]
    last = max(
        position for position, event in enumerate(events) if isinstance(event, ReportWritten)
    )
    return any(
        event.kind.startswith(("incident.", "change"))
        and event.kind != "incident.phase"
        and not (isinstance(event, IncidentClosed) and event.answered_by != "person")
        for event in events[last:]
    )


async def _write_report_file(journal: JournalStore, loaded: LoadedSettings, run: str) -> None:
    from hermes.app.secret_redactor import SecretRedactor
    from hermes.core.bus import Bus

    bus = Bus(journal, clean=SecretRedactor(loaded).clean_event)
    if await write_report_file(journal, bus, run, loaded.home / REPORT_FOLDER) is None:
        why = find_written_report(await read_incident_records(journal, run))
        raise HermesError(why.trouble if why else "the report could not be written")


def _report_file_text(loaded: LoadedSettings, written: ReportWritten, *, is_new: bool) -> str:
    file: Path = loaded.home / written.path
    if not file.exists():
        return f"{file} is missing; --write writes it again"
    return (
        f"as of now; {file} has the report as it was written then" if is_new else f"kept in {file}"
    )


def _timeline_row(entry: TimelineEntry) -> dict[str, object]:
    return {"at": entry.at.isoformat(), "seq": entry.seq, "kind": entry.kind, "text": entry.text}


UNKNOWN_RESPONDER = "no one or unknown"
"""A recovery is observed; what caused it is not recorded."""


@cli_command("""
hermes incident stats --since 90d
hermes incident stats --service web --svg mttr.svg
hermes incident stats --drills --json
""")
@since_option
@click.option("--service", default="", help="Only of this service.")
@click.option("--drills", is_flag=True, help="Also incidents of drills.")
@click.option(
    "--svg", "file", type=click.Path(path_type=Path), help="Also write a chart to this file."
)
def stats(
    ctx: click.Context,
    since: datetime | None,
    service: str,
    drills: bool,
    file: Path | None,
    as_json: bool,
) -> None:
    """Count incidents, and plot the time to repair by week, with and without skills.

    MTTD: from the beginning of the problem, where its source knows it, to the incident. MTTA: from
    the incident to the first work on it or to a person who acknowledged it. MTTR: from the incident
    to checks that passed after a fix, or to a recovery that was observed; an incident for which
    neither is recorded has none. Duration, of those that have an MTTR: MTTD plus MTTR.
    """
    loaded = load_settings(ctx)

    async def query(journal: JournalStore) -> list[Incident]:
        return await list_incidents(journal, drills=drills)

    found = query_journal(loaded, query) if store_exists(loaded.store) else []
    statistics = compute_statistics(
        [
            each
            for each in found
            if (since is None or each.details.opened_at >= since)
            and (not service or each.details.service == service)
        ]
    )
    if file is not None:
        write_file(file, render_svg_chart(statistics))
        note(f"chart written to {file}")
    if as_json:
        print_json(statistics)
        return
    if not statistics.incidents:
        note("no incident yet")
        return
    _print_statistics(statistics)


def _print_statistics(statistics: IncidentStatistics) -> None:
    print_fields(
        {
            "incidents": f"{statistics.incidents}, {statistics.open} not resolved",
            "severity": _format_counts(statistics.severity),
            "outcome": _format_counts(statistics.outcome),
            "answered by": _format_counts(
                {
                    UNKNOWN_RESPONDER if name == "nobody" else name: n
                    for name, n in statistics.answered_by.items()
                }
            ),
        }
    )
    echo()
    named = {
        "duration": statistics.duration,
        "MTTD": statistics.detect,
        "MTTA": statistics.acknowledge,
        "MTTR": statistics.repair,
    }
    named |= {
        f"MTTR, {UNKNOWN_RESPONDER if name == 'nobody' else name}": spread
        for name, spread in statistics.repaired_by.items()
    }
    print_table(
        ("time", "median", "p90", "of"), [_spread_row(name, each) for name, each in named.items()]
    )
    echo()
    echo(render_terminal_chart(statistics))
    if statistics.recurring:
        echo()
        print_table(
            ("again", "times", "by skill", "first repair", "latest", "about"),
            [
                (
                    f"{each.last_at.astimezone():%Y-%m-%d}",
                    each.times,
                    each.by_skill,
                    format_duration(each.first) if each.first is not None else "–",
                    format_duration(each.last) if each.last is not None else "–",
                    clip(each.title, 60),
                )
                for each in statistics.recurring
            ],
        )


def _spread_row(name: str, spread: DurationStatistics) -> tuple[object, ...]:
    if not spread.count:
        return name, "not defined", "not defined", 0
    return name, format_duration(spread.median), format_duration(spread.p90), spread.count


def _format_counts(counted: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.items())
