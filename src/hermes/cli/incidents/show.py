"""`hermes incident list` and `show`."""

from datetime import UTC, datetime

import click

from hermes.app.incidents.views import describe_incident, find_incident, summarize_incident
from hermes.cli.context import load_settings, query_journal, since_option
from hermes.cli.incidents.lookup import complete_incident_id
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_fields, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.incident import Incident
from hermes.memory.store import JournalStore, store_exists
from hermes.plumbing.units import format_duration, ordinal
from hermes.sre.reports.actions import IncidentAction
from hermes.sre.reports.experiments import tested_text
from hermes.sre.reports.report_data import (
    LISTING_KINDS,
    MAX_SEPARATE_QUERIES,
    STATE_KINDS,
    IncidentAlert,
    ReportData,
    complete_incidents,
    gather_report_data,
    list_incidents,
    read_earlier_incidents,
    read_incident_alerts,
    read_incident_records,
    resolver_name,
)
from hermes.sre.reports.statements import (
    cause_line,
    outcome_text,
)

SEVERITIES = ("P0", "P1", "P2", "P3")
MAX_SHOWN_ALERTS = MAX_SHOWN_CHECKS = 20


@cli_command("""
hermes incident list --open
hermes incident list --severity P0 --severity P1 --since 7d
hermes incident list --service web --limit 100 --json
""")
@click.option(
    "--open", "only_open", is_flag=True, help="Only what still fails or waits for people."
)
@click.option(
    "--severity", multiple=True, type=click.Choice(SEVERITIES), help="Only these; may be repeated."
)
@click.option("--service", default="", help="Only of this service.")
@since_option
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--drills", is_flag=True, help="Also incidents of drills.")
def list_(
    ctx: click.Context,
    only_open: bool = False,
    severity: tuple[str, ...] = (),
    service: str = "",
    since: datetime | None = None,
    limit: int = 20,
    drills: bool = False,
    as_json: bool = False,
) -> None:
    """List the latest incidents."""
    loaded = load_settings(ctx)

    def wanted(each: Incident) -> bool:
        return (
            (not only_open or each.unresolved)
            and (not severity or each.severity in severity)
            and (not service or each.details.service == service)
            and (since is None or each.details.opened_at >= since)
        )

    async def query(journal: JournalStore) -> list[Incident]:
        per_incident = limit <= MAX_SEPARATE_QUERIES
        known = await list_incidents(
            journal, drills=drills, kinds=STATE_KINDS if per_incident else LISTING_KINDS
        )
        found = [each for each in known if wanted(each)][::-1][:limit]
        return await complete_incidents(journal, found) if per_incident else found

    found = query_journal(loaded, query) if store_exists(loaded.store) and limit > 0 else []
    if as_json:
        print_json([summarize_incident(each) for each in found])
        return
    narrowed = severity or service or since is not None
    print_table(
        ("incident", "opened", "severity", "state", "duration", "service", "about"),
        [
            (
                each.details.incident,
                format_time(each.details.opened_at),
                each.severity,
                _incident_state(each),
                format_duration(each.duration_s(datetime.now(UTC))),
                clip(each.details.service, 20),
                clip(clean(each.details.title), 60),
            )
            for each in found
        ],
        empty="no incident " + ("matches" if narrowed else "is open" if only_open else "yet"),
    )


@cli_command("""
hermes incident show last
hermes incident show 4f2a1c --json
""")
@click.argument("id", default="last", shell_complete=complete_incident_id)
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the incident ID: its cause, the changes, the checks and the times."""

    async def query(journal: JournalStore) -> tuple[ReportData, list[IncidentAlert]]:
        records = await read_incident_records(journal, (await find_incident(journal, id)).run)
        data = gather_report_data(records, earlier=await read_earlier_incidents(journal, records))
        return data, await read_incident_alerts(journal, data.incident)

    data, alerts = query_journal(load_settings(ctx), query)
    if as_json:
        print_json({**describe_incident(data), "alert_details": alerts})
        return
    incident, details = data.incident, data.incident.details
    echo(clean(clip(details.title, 100)), bold=True)
    heading, cause = cause_line(incident)
    changed, times = data.changes, data.times
    repaired = format_duration(times.repair) if times.repair is not None else "not defined"
    print_fields(
        {
            "incident": details.incident,
            "state": _incident_state(incident),
            "outcome": outcome_text(incident),
            "severity": incident.severity + (f" ({incident.reason})" if incident.reason else ""),
            "service": details.service,
            "opened": f"{details.opened_at.astimezone():%Y-%m-%d %H:%M:%S}",
            "duration": _duration_text(incident, data.now),
            "alerts": incident.alerts,
            "acknowledged by": incident.acknowledged_by,
            "hints": [f"{each.person}: {clip(each.text, 200)}" for each in incident.hints],
            heading: clip(cause, 200),
            "changes": [
                f"{clip(action.command, 80)} [{_change_outcome(data, action)}]"
                for action in changed
            ],
            "tests": [clip(tested_text(each), 160) for each in incident.tests],
            **_refused_fields(data),
            "times": f"MTTD {format_duration(times.detect)}"
            f" · MTTA {format_duration(times.acknowledge)} · MTTR {repaired}",
            "answered by": resolver_name(data),
            "model calls": data.cost.calls or "none",
            "recurrence": f"{ordinal(data.recurrence.times)} time in {data.recurrence.days} days",
            "report": incident.report_path,
        }
    )
    for each in incident.diagnosis.escalation if incident.diagnosis is not None else ():
        events = f"  [{', '.join(map(str, each.evidence))}]" if each.evidence else ""
        echo(clean(f"  {each.about}: {each.text}{events}"))
    for alert in alerts[:MAX_SHOWN_ALERTS]:
        echo(clean(f"  {_alert_line(alert)}"))
    if len(alerts) > MAX_SHOWN_ALERTS:
        echo(f"  and {len(alerts) - MAX_SHOWN_ALERTS} more alerts; --json has them all", dim=True)
    for check in data.checks[-MAX_SHOWN_CHECKS:]:
        mark = "?" if check.unknown else "✓" if check.ok else "✗"
        echo(clean(f"  {mark} {check.when}: {clip(check.check, 60)}  {clip(check.detail, 60)}"))


def _refused_fields(data: ReportData) -> dict[str, object]:
    """In the mode `observe`, also what another mode would have run."""
    refused = [each for each in data.refused_actions if not each.would_have_run]
    fields: dict[str, object] = {
        "refused": [f"{clip(each.command, 80)} ({each.why})" for each in refused]
    }
    if would := [clip(each.command, 80) for each in data.refused_actions if each.would_have_run]:
        fields["would have run"] = would
    return fields


def _change_outcome(data: ReportData, action: IncidentAction) -> str:
    """Return how the change ended, and whether it was undone."""
    undone = {each.call_id: each.undone for each in data.incident.changes}
    more = {"yes": ", undone", "failed": ", could not be undone"}
    return action.ending + more.get(undone.get(action.call_id, ""), "")


def _incident_state(incident: Incident) -> str:
    if incident.status == "resolved" and not incident.resolved_by_checks:
        return "resolved, not verified"  # closed by a person
    if incident.status != "open":
        return incident.status
    if incident.question:
        return "open, question"
    return f"open, {incident.phase}" if incident.phase else "open"


def _duration_text(incident: Incident, now: datetime) -> str:
    """The duration since the first failure, and how the recovery was observed."""
    lasted, recovered = format_duration(incident.duration_s(now)), incident.recovered
    if incident.ended_at is None or recovered is None:
        return lasted if incident.ended_at else f"{lasted} so far"
    at = recovered.recovered_at.astimezone()
    return f"{lasted}, recovered {at:%Y-%m-%d %H:%M:%S} ({recovered.how})"


def _alert_line(alert: IncidentAlert) -> str:
    mark = "✗" if alert.state == "firing" else "✓" if alert.state == "resolved" else "?"
    about = alert.service or alert.host or "no service"
    since = (alert.since or alert.raised_at).astimezone()
    end = f" to {alert.resolved_at.astimezone():%H:%M:%S}" if alert.resolved_at else ""
    times = f", raised {alert.times} times" if alert.times > 1 else ""
    when = f"{since:%Y-%m-%d %H:%M:%S}{end}{times}"
    return f"{mark} {alert.state}: {clip(about, 30)}  {clip(alert.title, 70)}  ({when})"
