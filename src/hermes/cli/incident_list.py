"""`hermes incident list` and `show`: read from the journal, whoever works on it."""

from datetime import UTC, datetime

import click

from hermes.cli.incident_found import find, offered
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, fields, json_option, say, table
from hermes.cli.render_safe import clean, clip
from hermes.cli.stored import ask_journal
from hermes.cli.when import SINCE
from hermes.memory.opening import Store, exists
from hermes.sre.incident import Incident
from hermes.sre.report.account import Account, account, answered_by
from hermes.sre.report.reading import (
    LISTED,
    ONE_BY_ONE,
    STATES,
    completed,
    earlier,
    listed,
    records_of,
)
from hermes.sre.report.statements import (
    answer_of,
    cause_line,
    cause_of,
    not_matched,
    outcome,
    unchecked,
)
from hermes.sre.report.times import lasting, ordinal, times_of
from hermes.sre.report.told import Deed
from hermes.sre.triage.alerts import IncidentAlert, alerts_of

SEVERITIES = ("P0", "P1", "P2", "P3")
ALERTS = CHECKS = 20


@click.command(
    "list",
    cls=Examples,
    examples="""
hermes incident list --open
hermes incident list --severity P0 --severity P1 --since 7d
hermes incident list --service web --limit 100 --json
""",
)
@click.option(
    "--open", "only_open", is_flag=True, help="Only what still fails or waits for people."
)
@click.option(
    "--severity", multiple=True, type=click.Choice(SEVERITIES), help="Only these; may be repeated."
)
@click.option("--service", default="", help="Only of this service.")
@SINCE
@click.option("--limit", default=20, show_default=True, help="How many, newest first.")
@click.option("--drills", is_flag=True, help="Also those of the gym.")
@json_option
@click.pass_context
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
    loaded = settings_for(ctx)

    def wanted(each: Incident) -> bool:
        return (
            (not only_open or each.unresolved)
            and (not severity or each.severity in severity)
            and (not service or each.case.service == service)
            and (since is None or each.case.opened_at >= since)
        )

    async def ask(journal: Store) -> list[Incident]:
        few = limit <= ONE_BY_ONE
        known = await listed(journal, drills=drills, kinds=STATES if few else LISTED)
        found = [each for each in known if wanted(each)][::-1][:limit]
        return await completed(journal, found) if few else found

    found = ask_journal(loaded, ask) if exists(loaded.store) and limit > 0 else []
    if as_json:
        emit_json([in_words(each) for each in found])
        return
    table(
        ("incident", "opened", "severity", "state", "for", "service", "about"),
        [
            (
                each.case.incident,
                f"{each.case.opened_at.astimezone():%Y-%m-%d %H:%M}",
                each.severity,
                _state(each),
                lasting(each.duration_s(datetime.now(UTC))),
                clip(each.case.service, 20),
                clip(clean(each.case.title), 60),
            )
            for each in found
        ],
        empty="no incident" + (" is open" if only_open else " yet"),
    )


@click.command(
    cls=Examples, examples="hermes incident show last\nhermes incident show 4f2a1c --json"
)
@click.argument("id", default="last", shell_complete=offered)
@json_option
@click.pass_context
def show(ctx: click.Context, id: str, as_json: bool) -> None:
    """Show the incident ID: what it was, what was done, whether it holds."""

    async def ask(journal: Store) -> tuple[Account, list[IncidentAlert]]:
        records = await records_of(journal, (await find(journal, id)).run)
        whole = account(records, earlier=await earlier(journal, records))
        return whole, await alerts_of(journal, whole.incident)

    whole, alerts = ask_journal(settings_for(ctx), ask)
    if as_json:
        emit_json({**_all_words(whole), "alert_details": alerts})
        return
    incident, case = whole.incident, whole.incident.case
    say(clean(clip(case.title, 100)), bold=True)
    heading, cause = cause_line(incident)
    changed, times = whole.changes, whole.times
    repaired = lasting(times.repair) if times.repair is not None else "not defined"
    fields(
        {
            "incident": case.incident,
            "state": _state(incident),
            "outcome": outcome(incident),
            "severity": incident.severity + (f" ({incident.reason})" if incident.reason else ""),
            "service": case.service,
            "opened": f"{case.opened_at.astimezone():%Y-%m-%d %H:%M:%S}",
            "outage": _outage(incident, whole.now),
            "alerts": incident.alerts,
            "acknowledged by": incident.acknowledged_by,
            heading: clip(cause, 200),
            "changes": [f"{clip(deed.command, 80)} [{_ending(whole, deed)}]" for deed in changed],
            "refused": [f"{clip(each.command, 80)} ({each.why})" for each in whole.refused],
            "times": f"to detect {lasting(times.detect)} · to begin {lasting(times.acknowledge)}"
            f" · to repair {repaired}",
            "answered by": answered_by(whole),
            "model calls": whole.cost.calls or "none",
            "recurrence": f"{ordinal(whole.again.times)} time in {whole.again.days} days",
            "report": incident.report_path,
        }
    )
    for alert in alerts[:ALERTS]:
        say(clean(f"  {_alert_line(alert)}"))
    if len(alerts) > ALERTS:
        say(f"  and {len(alerts) - ALERTS} more alerts; --json has them all", dim=True)
    for check in whole.checks[-CHECKS:]:
        mark = "?" if check.unknown else "✓" if check.ok else "✗"
        say(clean(f"  {mark} {check.when}: {clip(check.check, 60)}  {clip(check.detail, 60)}"))


def in_words(incident: Incident) -> dict[str, object]:
    """One line of a listing, for programs."""
    case, times = incident.case, times_of(incident)
    over, recovered, answer = incident.over_at, incident.recovered, answer_of(incident)
    return {
        "incident": case.incident,
        "run": case.run,
        "title": case.title,
        "state": incident.status,
        "phase": incident.phase,
        "severity": incident.severity,
        "reason": incident.reason,
        "service": case.service,
        "fingerprint": case.fingerprint,
        "opened_at": case.opened_at.isoformat(),
        "closed_at": incident.closed.at.isoformat() if incident.closed else None,
        "over_at": over.isoformat() if over else None,
        "recovered_at": recovered.recovered_at.isoformat() if recovered else None,
        "recovered_how": recovered.how if recovered else "",
        "unresolved": incident.unresolved,
        "outage_began_at": incident.outage_began_at.isoformat(),
        "duration_s": incident.duration_s(datetime.now(UTC)),
        "question": incident.question,
        "parts": incident.parts,
        "answered_by": answer.by if incident.closed else None,
        "outcome": outcome(incident),
        "cause_found": cause_of(incident) == "found",
        "acknowledged_by": incident.acknowledged_by,
        "alerts": incident.alerts,
        "seen_before": case.seen_before,
        "mttd": times.detect,
        "mtta": times.acknowledge,
        "mttr": times.repair,
    }


def _all_words(whole: Account) -> dict[str, object]:
    incident = whole.incident
    return {
        **in_words(incident),
        "text": incident.case.text,
        "labels": incident.case.labels,
        "diagnosis": incident.diagnosis,
        "changes": whole.changes,
        "refused": whole.refused,
        "checks": whole.checks,
        "verified": incident.verified,
        "times_in_14_days": whole.again.times,
        "before": whole.again.before,
        "cost": whole.cost,
        "answered_by_name": answered_by(whole),
        "did_not_match": not_matched(whole.records),
        "unchecked": unchecked(whole.records),
        "report": incident.report_path,
    }


def _ending(whole: Account, deed: Deed) -> str:
    """How the change ended, and whether it was undone."""
    undone = {each.call_id: each.taken_back for each in whole.incident.changes}
    more = {"yes": ", undone", "failed": ", could not be undone"}
    return deed.ending + more.get(undone.get(deed.call_id, ""), "")


def _state(incident: Incident) -> str:
    if incident.status == "resolved" and not incident.resolved_by_checks:
        return "resolved, not verified"  # a person said so
    if incident.status != "open":
        return incident.status
    if incident.question:
        return "open, question"
    return f"open, {incident.phase}" if incident.phase else "open"


def _outage(incident: Incident, now: datetime) -> str:
    """How long, from the first failure on, and how we know that it is over."""
    lasted = lasting(incident.duration_s(now))
    if incident.ended_at is None:
        return f"{lasted}, not over"
    recovered = incident.recovered
    if recovered is None:
        return lasted
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
