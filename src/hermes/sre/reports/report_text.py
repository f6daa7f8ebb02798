"""Renders the report of an incident as Markdown."""

from collections.abc import Sequence
from datetime import datetime

from hermes.core.events.incidents import (
    ChangesUndone,
    IncidentChecked,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.incident import Incident
from hermes.core.protocols import JournalRecord
from hermes.plumbing.units import format_duration, ordinal
from hermes.sre.preceding_fix import preceding_fix_text
from hermes.sre.reports.actions import IncidentAction, events_of_type
from hermes.sre.reports.experiments import lesson_lines as people_lesson_lines
from hermes.sre.reports.experiments import proved_on_copies, tested_lines
from hermes.sre.reports.lessons import model_prevention_text, prevention_hints
from hermes.sre.reports.markdown import (
    command_block,
    escape_text,
    inline_code,
    script_excerpt,
    telling_line,
    without_clock_times,
)
from hermes.sre.reports.report_data import ReportData, gather_report_data, resolver_name
from hermes.sre.reports.statements import (
    cause_status,
    checks_failed_before,
    checks_not_run,
    duration_text,
    find_excluded_causes,
    outcome_text,
    playbooks_not_matched,
    playbooks_unchecked,
)
from hermes.sre.reports.timeline import build_timeline, clock_time, shorten_timeline

MAX_NAMED_CHECKS = 8
MAX_NAMED_PLAYBOOKS = 12
_MAX_ALERT_TEXT_CHARS = 600
_QUIET_TEXTS = {
    "no-incident": "No fault was found.",
    "recovered": "The problem ended.",
}
NO_REPAIR_TEXT = "not defined, no repair was verified"
MAX_READ_COMMANDS = 5
MAX_REPORT_CHARS = 20_000
LENGTH_STEPS = ((60, 20), (30, 10), (16, 5), (8, 3), (4, 1))
"""Entries of the timeline and items of each list, in decreasing order."""


def render_head(data: ReportData) -> str:
    incident, details = data.incident, data.incident.details
    title = f"Incident: {escape_text(details.title)}"
    rows = [
        f"- Incident: {inline_code(details.incident)}",
        f"- Date: {details.opened_at:%Y-%m-%d %H:%M:%S} UTC",
        f"- Severity: {incident.severity}" + _reason_suffix(incident.reason),
        f"- Duration: {duration_text(data.incident, data.now)}",
    ]
    if details.service:
        rows.append(f"- Service: {escape_text(details.service, 80)}")
    # Underlined, not marked with `#`: the title is untrusted text.
    return f"{title}\n{'=' * 20}\n\n" + "\n".join(rows)


def render_impact(data: ReportData) -> str:
    incident, details = data.incident, data.incident.details
    named = (
        f"The alert names the service {escape_text(details.service, 80)}: "
        if details.service
        else ""
    )
    lines = [f"{named}{escape_text(details.title)}."]
    if incident.reason:
        lines.append(f"Graded {incident.severity}: {escape_text(incident.reason)}.")
    if incident.parts:
        names = ", ".join(escape_text(name, 80) for name in incident.parts)
        lines.append(f"Joined later by alerts about: {names}.")
    if failing := checks_failed_before(data.checks):
        names = ", ".join(escape_text(name, 80) for name in failing[:MAX_NAMED_CHECKS])
        left_out = len(failing) - MAX_NAMED_CHECKS
        more = f" and {left_out} more" if left_out > 0 else ""
        lines.append(f"Before anything was changed these checks failed: {names}{more}.")
    count = incident.alerts
    lines.append(f"{count} alert{'s were' if count != 1 else ' was'} received.")
    if details.text:
        lines.append(f"The first alert said: {escape_text(details.text, _MAX_ALERT_TEXT_CHARS)}")
    return _section("Impact", "\n".join(lines))


def render_timeline(data: ReportData, max_entries: int) -> str:
    moments, left_out = shorten_timeline(build_timeline(data.records), max_entries)
    lines = [
        f"- {clock_time(each.at)} {escape_text(without_clock_times(each.text), 300)}"
        for each in moments
    ]
    if left_out:
        lines.insert(
            max_entries // 2,
            f"- … {left_out} entries left out; `hermes incident timeline` has them",
        )
    lines.append(f"- {clock_time(data.now)} this report was written")
    began = data.times.detect
    since = ""
    if began:
        since = (
            f" According to the alert, the problem began {format_duration(began)} "
            "before the incident was opened."
        )
    return _section("Timeline", f"Times of day in UTC.{since}\n\n" + "\n".join(lines))


def render_cause(data: ReportData, max_items: int) -> str:
    """The root cause where it was found; else what is known."""
    diagnosis, found = data.incident.diagnosis, cause_status(data.incident) == "found"
    lines = [_cause_text(data.incident, "" if found else proved_on_copies(data.records))]
    if not found:
        lines += _failed_check_lines(data, max_items)
    if diagnosis is not None and (diagnosis.evidence or found):
        lines += ["", *_evidence_lines(data, diagnosis.evidence, max_items)]
    lines += _finding_lines(data, max_items)
    heading = "Root cause" if found else "What is known"
    return _section(heading, "\n".join(lines).rstrip()) + _render_ruled_out(data, max_items)


def render_hints(data: ReportData, max_items: int) -> str:
    lines = [
        f"- {clock_time(each.at)} {escape_text(each.person, 80)}: {escape_text(each.text, 300)}"
        for each in data.incident.hints
    ]
    heading = "Hints by people, not verified"
    return _section(heading, _limited_list(lines, max_items)) if lines else ""


def _failed_check_lines(data: ReportData, max_items: int) -> list[str]:
    """Checks that failed before anything was changed, with their details."""
    names = checks_failed_before(data.checks)
    details = {each.check: each.detail for each in data.checks if each.when == "before"}
    lines = [
        f"- {escape_text(name, 80)}: {escape_text(details[name] or 'failed', 200)}"
        for name in names
    ]
    return ["", "Checks that failed:", *lines[:max_items]] if lines else []


def _render_ruled_out(data: ReportData, max_items: int) -> str:
    """Only what was checked in this incident, with a result."""
    found = list(find_excluded_causes(data.incident, data.layers, data.records).shown)
    if absent := playbooks_not_matched(data.records):
        found.insert(0, _playbooks_line(absent, "playbooks did not find their fault"))
    return _section("Ruled out", _bullet_list(found, max_items)) if found else ""


def render_escalation(data: ReportData, max_items: int) -> str:
    """Return what was observed for the people who take over, and what they may try."""
    known = data.incident.diagnosis.escalation if data.incident.diagnosis is not None else ()
    lines = []
    for each in known:
        events = ", ".join(map(str, each.evidence))
        where = f" (event {events})" if events else ""
        lines.append(f"- {escape_text(each.about, 40)}: {escape_text(each.text, 300)}{where}")
    return (
        _section("For the people who take over", _limited_list(lines, 3 * max_items))
        if lines
        else ""
    )


def render_gaps(data: ReportData, max_items: int) -> str:
    """Return what could not be checked, what is not known, and interruptions."""
    diagnosis = data.incident.diagnosis
    found = [
        _playbooks_line(each.skills, f"playbooks could not be checked completely: {each.why}")
        for each in playbooks_unchecked(data.records)
    ]
    found += checks_not_run(data.checks)
    found += list(diagnosis.gaps) if diagnosis is not None else []
    found += [one for layer in data.layers for one in layer.gaps]
    claimed = find_excluded_causes(data.incident, data.layers, data.records).claimed
    found += [f"{text} (excluded by the model without evidence)" for text in claimed]
    lines = [_bullet_list(found, max_items)] if found else []
    lines += [
        f"- Nothing was recorded for {format_duration(seconds)} from {clock_time(since)} on, "
        "until the work resumed."
        for since, seconds in data.incident.gaps[:max_items]
    ]
    lines += [
        f"- The investigator of {escape_text(layer.layer, 40)} failed."
        for layer in data.layers
        if layer.status == "failed"
    ]
    return _section("What could not be checked", "\n".join(lines)) if lines else ""


def _playbooks_line(names: tuple[str, ...], what: str) -> str:
    listed = ", ".join(names[:MAX_NAMED_PLAYBOOKS]) + (
        ", …" if len(names) > MAX_NAMED_PLAYBOOKS else ""
    )
    one = what.replace("playbooks", "playbook", 1) if len(names) == 1 else what
    return f"{len(names)} {one} ({listed})"


def render_recurrence(data: ReportData) -> str:
    times, before = data.recurrence.times, data.incident.details.seen_before
    days = data.recurrence.days
    if times > 1:
        names = ", ".join(inline_code(name) for name in data.recurrence.before[-3:])
        line = f"{ordinal(times)} time in {days} days. Before: {names}."
    elif before:
        line = f"Seen {before} times before, but not in the last {days} days."
    else:
        line = f"No other incident of the same kind in the last {days} days."
    return _section("Recurrence", line)


def _cause_text(incident: Incident, on_copies: str) -> str:
    """`on_copies`: what experiments proved, where the host does not confirm it."""
    diagnosis, found = incident.diagnosis, cause_status(incident) == "found"
    unconfirmed, fix = escape_text(on_copies, 400), incident.after_fix
    followed = f" As the journal shows, {escape_text(preceding_fix_text(fix))}." if fix else ""
    if diagnosis is None or not (diagnosis.mechanism or diagnosis.verdict in _QUIET_TEXTS):
        return (unconfirmed or "The cause of this incident is not known.") + followed
    parts = [_QUIET_TEXTS[diagnosis.verdict]] if diagnosis.verdict in _QUIET_TEXTS else []
    if diagnosis.verdict == "recovered" and not incident.changes:
        parts.append("Hermes had changed nothing for this incident.")
    if not found and diagnosis.mechanism:
        parts.append(f"{unconfirmed or 'No cause is proved.'} What was seen:")
    if diagnosis.component:
        parts.append(f"Component: {escape_text(diagnosis.component)}.")
    if diagnosis.mechanism:
        parts.append(f"Mechanism: {escape_text(diagnosis.mechanism, 400)}.")
    if diagnosis.value:
        parts.append(f"Value: {escape_text(diagnosis.value)}.")
    sure = f" (confidence {diagnosis.confidence:.0%})" if diagnosis.confidence else ""
    return " ".join(parts) + sure + followed


def _evidence_lines(data: ReportData, numbers: tuple[int, ...], max_items: int) -> list[str]:
    """Numbers of events of this incident, with a short description of each."""
    found = data.incident.diagnosis
    claim = f"{found.component} {found.mechanism} {found.value}" if found is not None else ""
    known = {action.seq: _action_result(action, claim) for action in data.actions if action.seq}
    for each in data.records:
        if isinstance(each.event, IncidentChecked):
            how = "passed" if each.event.ok else "failed"
            known[each.seq] = f": check {escape_text(each.event.check, 80)} {how}"
    lines = [f"- event {number}{known.get(number, '')}" for number in dict.fromkeys(numbers)]
    heading = "Evidence, by the numbers of its events in the journal:"
    return [heading, _limited_list(lines, max_items)]


def _action_result(action: IncidentAction, claim: str) -> str:
    output = "no output"
    if action.output.strip():
        output = inline_code(telling_line(action.output, claim, 200), 200)
    return f": {inline_code(action.command, 160)} gave {output}"


def _finding_lines(data: ReportData, max_items: int) -> list[str]:
    lines = []
    for layer in data.layers:
        where = ", ".join(map(str, layer.evidence[:MAX_NAMED_CHECKS]))
        lines += [
            f"- {escape_text(layer.layer, 40)}: {escape_text(finding, 300)}"
            + (f" (events {where})" if where else "")
            for finding in layer.findings[: min(max_items, 3)]
        ]
    return ["", "What the investigators found:", *lines] if lines else []


def _bullet_list(texts: list[str], max_items: int) -> str:
    return _limited_list(
        [f"- {escape_text(each, 300)}" for each in dict.fromkeys(texts)], max_items
    )


def _reason_suffix(reason: str) -> str:
    return f" ({escape_text(reason)})" if reason else ""


def _section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"


def render_remediation(data: ReportData, max_items: int) -> str:
    executed = [action for action in data.changes if action.ending != "cut off"]
    back = {each.call_id: each.undone for each in data.incident.changes}
    lines = [
        _action_line(number, action, back.get(action.call_id, ""))
        for number, action in enumerate(executed[:max_items], 1)
    ]
    if len(executed) > max_items:
        lines.append(f"\n… and {len(executed) - max_items} more, which the journal has")
    if not executed:
        reads = [action for action in data.actions if action.ending == "ok" and not action.changed]
        lines = ["Nothing was changed on the host."]
        if reads:
            lines.append("Commands that only read, among others:")
            lines += [
                f"- {script_excerpt(action.command)}"
                for action in reads[: min(max_items, MAX_READ_COMMANDS)]
            ]
    if tests := tested_lines(data.records):
        lines += ["", "Tests on copies of the host, before anything was changed:"]
        lines.append(_limited_list(tests, max_items))
    return (
        _section("Remediation", "\n".join(lines))
        + _render_undo_commands(executed[:max_items])
        + _render_interrupted(data, max_items)
        + _render_refused(data, max_items)
        + _render_undone(data, max_items)
    )


def render_verification(data: ReportData, max_items: int) -> str:
    incident = data.incident
    lines = [_verification_text(incident.verified)]
    if over := incident.recovered:
        how = f": {escape_text(over.how, 200)}" if over.how else ""
        lines.append(f"The problem ended at {over.recovered_at:%Y-%m-%d %H:%M:%S} UTC{how}.")
    lines += _check_lines(data, max_items)
    lines += ["", f"Outcome: {outcome_text(incident)}"]
    return _section("Verification", "\n".join(lines))


def render_prevention(data: ReportData) -> str:
    lines = [
        f"- {hint}"
        for hint in prevention_hints(data.incident, data.recurrence, data.refused_actions)
    ]
    if by_model := model_prevention_text(data.records):
        lines.append(f"- In the words of the model: {by_model}")
    text = _section("Prevention", "\n".join(lines))
    learned = people_lesson_lines(data.records)
    return text + (_section("Learned from people", "\n".join(learned)) if learned else "")


def render_figures(data: ReportData) -> str:
    times, cost = data.times, data.cost
    repair = format_duration(times.repair) if times.repair is not None else NO_REPAIR_TEXT
    spent = f"{cost.calls} model calls, {cost.usage.tokens:,} tokens"
    spent = spent if cost.calls else "no model was called"
    if cost.usage.cost_usd:
        spent += f", ${cost.usage.cost_usd:.4f}"
    lines = [
        f"- Time to detect (MTTD): {format_duration(times.detect)}",
        f"- Time to begin (MTTA): {format_duration(times.acknowledge)}",
        f"- Time to repair (MTTR): {repair}",
        f"- Answered by: {escape_text(resolver_name(data), 120)}",
        f"- Cost: {spent}; {len(data.actions)} commands, {len(data.changes)} of them changes",
        # Repeated at the end, because untrusted text above may contain such a line.
        f"- Outcome: {outcome_text(data.incident)}",
    ]
    return _section("Figures", "\n".join(lines))


def _action_line(number: int, action: IncidentAction, undone: str) -> str:
    by = f" by {escape_text(action.by, 80)}" if action.by else ""
    attempt = f", attempt {action.attempt}" if action.attempt else ""
    how = "done" if action.ending == "ok" else escape_text(action.detail, 80)
    if action.is_undo:
        how += ", to undo a change"
    if undone:
        how += ", undone later" if undone == "yes" else ", could not be undone"
    return f"{number}. {command_block(action.command)}{by}{attempt}: {how} (event {action.seq})"


def _render_undo_commands(executed: list[IncidentAction]) -> str:
    known = [(number, action) for number, action in enumerate(executed, start=1) if action.undo]
    if not known:
        return ""
    lines = [f"{number}. {command_block(action.undo)}" for number, action in known]
    return _section("Undo commands", "By the number of the step:\n\n" + "\n".join(lines))


def _render_interrupted(data: ReportData, max_items: int) -> str:
    lines = [
        f"- {command_block(action.command)} began and no result was recorded: it may have run. "
        f"Undo: {command_block(action.undo) if action.undo else 'none is known'}"
        for action in data.changes
        if action.ending == "cut off"
    ]
    return _section("Cut off", _limited_list(lines, max_items)) if lines else ""


def _render_refused(data: ReportData, max_items: int) -> str:
    lines = []
    for each in data.refused_actions:
        if each.would_have_run:
            lines.append(f"- would have run: {command_block(each.command)}")
            continue
        how = escape_text(each.why, 200)
        if each.waiting:
            how += f" (`hermes approvals show {each.waiting}`)"
        lines.append(f"- {command_block(each.command)}: {how}")
    return _section("Refused or waiting", _limited_list(lines, max_items)) if lines else ""


def _render_undone(data: ReportData, max_items: int) -> str:
    by_call = {action.call_id: action for action in data.actions}
    lines = []
    for event in events_of_type(data.records, ChangesUndone):
        why = f": {escape_text(event.reason, 200)}" if event.reason else ""
        lines.append(f"Changes were undone{why}.\n")
        for call in event.calls:
            lines.append(f"- undone: {_action_excerpt(by_call.get(call), call)}")
        for call in event.failed:
            lines.append(
                f"- still in force, could not be undone: {_action_excerpt(by_call.get(call), call)}"
            )
    return _section("Undone", _limited_list(lines, 2 * max_items)) if lines else ""


def _action_excerpt(action: IncidentAction | None, call: str) -> str:
    return script_excerpt(action.command) if action is not None else inline_code(call)


def _verification_text(verified: IncidentVerified | None) -> str:
    if verified is None:
        return "No check has verified a repair."
    again = f" after {escape_text(verified.trigger, 120)} was run again" if verified.trigger else ""
    if verified.ok:
        return (
            f"The checks passed{again}; the verification took {format_duration(verified.seconds)}."
        )
    wrong = "; ".join(escape_text(check, 160) for check in verified.checks[:5])
    return f"The checks did not pass{again}" + (f": {wrong}." if wrong else ".")


def _check_lines(data: ReportData, max_items: int) -> list[str]:
    """The last result of each check: before, after, and with the trigger."""
    last: dict[str, dict[str, str]] = {}
    for event in data.checks:
        state = "not run" if event.unknown else "passed" if event.ok else "failed"
        detail = "" if event.ok else f" ({escape_text(event.detail, 120)})" if event.detail else ""
        last.setdefault(event.check, {})[event.when] = state + detail
    if not last:
        return []
    names = {"before": "before", "after": "after", "trigger": "with the trigger"}
    lines = [
        f"- {escape_text(check, 120)}: "
        + ", ".join(f"{names[when]} {results[when]}" for when in names if when in results)
        for check, results in last.items()
    ]
    return ["", _limited_list(lines, max_items)]


def _limited_list(lines: list[str], max_items: int) -> str:
    more = [f"- … and {len(lines) - max_items} more"] if len(lines) > max_items else []
    return "\n".join([*lines[:max_items], *more])


def render_report(
    records: Sequence[JournalRecord],
    *,
    earlier: Sequence[IncidentOpened] = (),
    now: datetime | None = None,
) -> str:
    """The report of the incident in these records. Raises `HermesError` without one."""
    data = gather_report_data(records, earlier=earlier, now=now)
    text = ""
    for moments, items in LENGTH_STEPS:
        text = _render_sections(data, moments, items)
        if len(text) <= MAX_REPORT_CHARS:
            break
    return text


def _render_sections(data: ReportData, moments: int, items: int) -> str:
    return (
        render_head(data)
        + render_impact(data)
        + render_timeline(data, moments)
        + render_cause(data, items)
        + render_hints(data, items)
        + render_escalation(data, items)
        + render_gaps(data, items)
        + render_remediation(data, items)
        + render_verification(data, items)
        + render_prevention(data)
        + render_recurrence(data)
        + render_figures(data)
        + "\n"
    )
