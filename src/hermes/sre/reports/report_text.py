"""The first half of a report: what it was, when, and why."""

from collections.abc import Sequence
from datetime import datetime

from hermes.core.events.incidents import (
    ChangesUndone,
    IncidentChecked,
    IncidentOpened,
    IncidentVerified,
)
from hermes.core.protocols import JournalRecord
from hermes.sre.incident import Incident
from hermes.sre.reports.actions import IncidentAction, events_of_type
from hermes.sre.reports.lessons import model_prevention_text, prevention_hints
from hermes.sre.reports.markdown import (
    command_block,
    escape_text,
    inline_code,
    script_excerpt,
    without_clock_times,
)
from hermes.sre.reports.report_data import ReportData, gather_report_data, resolver_name
from hermes.sre.reports.statements import (
    cause_status,
    checks_failed_before,
    checks_not_run,
    find_excluded_causes,
    outcome_text,
    playbooks_not_matched,
    playbooks_unchecked,
)
from hermes.sre.reports.timeline import build_timeline, clock_time, shorten_timeline
from hermes.sre.reports.times import format_duration, ordinal

MAX_NAMED_CHECKS = 8
MAX_NAMED_PLAYBOOKS = 12
_MAX_ALERT_TEXT_CHARS = 600


def render_head(account: ReportData) -> str:
    incident, case = account.incident, account.incident.details
    title = f"Incident: {escape_text(case.title)}"
    rows = [
        f"- Incident: {inline_code(case.incident)}",
        f"- Date: {case.opened_at:%Y-%m-%d %H:%M:%S} UTC",
        f"- Severity: {incident.severity}" + _reason_suffix(incident.reason),
        f"- Duration: {_duration_text(account)}",
    ]
    if case.service:
        rows.append(f"- Service: {escape_text(case.service, 80)}")
    # Underlined, not marked with `#`: the title was written by others.
    return f"{title}\n{'=' * 20}\n\n" + "\n".join(rows)


def render_impact(account: ReportData) -> str:
    incident, case = account.incident, account.incident.details
    named = f"The alert names the service {escape_text(case.service, 80)}: " if case.service else ""
    lines = [f"{named}{escape_text(case.title)}."]
    if incident.reason:
        lines.append(f"Graded {incident.severity}: {escape_text(incident.reason)}.")
    if incident.parts:
        names = ", ".join(escape_text(name, 80) for name in incident.parts)
        lines.append(f"Joined later by alerts about: {names}.")
    if failing := checks_failed_before(account.checks):
        names = ", ".join(escape_text(name, 80) for name in failing[:MAX_NAMED_CHECKS])
        more = (
            f" and {len(failing) - MAX_NAMED_CHECKS} more"
            if len(failing) > MAX_NAMED_CHECKS
            else ""
        )
        lines.append(f"Before anything was changed these checks failed: {names}{more}.")
    count = incident.alerts
    lines.append(f"{count} alert{'s were' if count != 1 else ' was'} received.")
    if case.text:
        lines.append(f"The first alert said: {escape_text(case.text, _MAX_ALERT_TEXT_CHARS)}")
    return _section("Impact", "\n".join(lines))


def render_timeline(account: ReportData, most: int) -> str:
    moments, left_out = shorten_timeline(build_timeline(account.records), most)
    lines = [
        f"- {clock_time(each.at)} {escape_text(without_clock_times(each.text), 300)}"
        for each in moments
    ]
    if left_out:
        lines.insert(
            most // 2, f"- … {left_out} moments left out; `hermes incident timeline` has them"
        )
    lines.append(f"- {clock_time(account.now)} this report was written")
    began = account.times.detect
    since = ""
    if began:
        since = (
            f" According to the alert, the problem began {format_duration(began)} before the incident "
            "was opened."
        )
    return _section("Timeline", f"Times of day in UTC.{since}\n\n" + "\n".join(lines))


def render_cause(account: ReportData, most: int) -> str:
    """A root cause only where one was found; else what is known."""
    diagnosis, found = account.incident.diagnosis, cause_status(account.incident) == "found"
    lines = [_cause_text(account.incident, found=found)]
    if not found:
        lines += _failed_check_lines(account, most)
    if diagnosis is not None and (diagnosis.evidence or found):
        lines += ["", *_evidence_lines(account, diagnosis.evidence, most)]
    lines += _finding_lines(account, most)
    heading = "Root cause" if found else "What is known"
    return _section(heading, "\n".join(lines).rstrip()) + _render_ruled_out(account, most)


def _failed_check_lines(account: ReportData, most: int) -> list[str]:
    """Checks that failed before anything was changed, with what they saw."""
    names = checks_failed_before(account.checks)
    seen = {each.check: each.detail for each in account.checks if each.when == "before"}
    lines = [
        f"- {escape_text(name, 80)}: {escape_text(seen[name] or 'failed', 200)}" for name in names
    ]
    return ["", "Checks that failed:", *lines[:most]] if lines else []


def _render_ruled_out(account: ReportData, most: int) -> str:
    """Only what was looked at in this incident, with a result."""
    found = list(find_excluded_causes(account.incident, account.layers, account.records).shown)
    if absent := playbooks_not_matched(account.records):
        found.insert(
            0, _playbooks_line(absent, "playbooks looked for their fault and did not find it")
        )
    return _section("Ruled out", _bullet_list(found, most)) if found else ""


def render_gaps(account: ReportData, most: int) -> str:
    """What could not be checked, what is not known, and when nothing looked."""
    diagnosis = account.incident.diagnosis
    found = [
        _playbooks_line(each.skills, f"playbooks could not be checked completely: {each.why}")
        for each in playbooks_unchecked(account.records)
    ]
    found += checks_not_run(account.checks)
    found += list(diagnosis.gaps) if diagnosis is not None else []
    found += [one for layer in account.layers for one in layer.gaps]
    claimed = find_excluded_causes(account.incident, account.layers, account.records).claimed
    found += [f"{text} (excluded by the model without evidence)" for text in claimed]
    lines = [_bullet_list(found, most)] if found else []
    lines += [
        f"- Nothing was recorded for {format_duration(seconds)} from {clock_time(since)} on, until the work "
        "resumed."
        for since, seconds in account.incident.gaps[:most]
    ]
    lines += [
        f"- The investigator of {escape_text(layer.layer, 40)} failed."
        for layer in account.layers
        if layer.status == "failed"
    ]
    return _section("What could not be checked", "\n".join(lines)) if lines else ""


def _playbooks_line(names: tuple[str, ...], what: str) -> str:
    listed = ", ".join(names[:MAX_NAMED_PLAYBOOKS]) + (
        ", …" if len(names) > MAX_NAMED_PLAYBOOKS else ""
    )
    one = what.replace("playbooks", "playbook", 1) if len(names) == 1 else what
    return f"{len(names)} {one} ({listed})"


def render_recurrence(account: ReportData) -> str:
    times, before = account.recurrence.times, account.incident.details.seen_before
    days = account.recurrence.days
    if times > 1:
        names = ", ".join(inline_code(name) for name in account.recurrence.before[-3:])
        line = f"{ordinal(times)} time in {days} days. Before: {names}."
    elif before:
        line = f"Seen {before} times before, but not in the last {days} days."
    else:
        line = f"No other incident of the same kind in the last {days} days."
    return _section("Recurrence", line)


def _cause_text(incident: Incident, *, found: bool) -> str:
    diagnosis = incident.diagnosis
    if diagnosis is None or not (diagnosis.mechanism or diagnosis.verdict in _QUIET_TEXTS):
        return "The cause of this incident is not known."
    said = [_QUIET_TEXTS[diagnosis.verdict]] if diagnosis.verdict in _QUIET_TEXTS else []
    if diagnosis.verdict == "recovered" and not incident.changes:
        said.append("Hermes had changed nothing.")
    if not found and diagnosis.mechanism:
        said.append("No cause is proved. What was seen:")
    if diagnosis.component:
        said.append(f"Component: {escape_text(diagnosis.component)}.")
    if diagnosis.mechanism:
        said.append(f"Mechanism: {escape_text(diagnosis.mechanism, 400)}.")
    if diagnosis.value:
        said.append(f"Value: {escape_text(diagnosis.value)}.")
    sure = f" (confidence {diagnosis.confidence:.0%})" if diagnosis.confidence else ""
    return " ".join(said) + sure


_QUIET_TEXTS = {
    "no-incident": "No fault was found.",
    "recovered": "The problem ended.",
}


def _evidence_lines(account: ReportData, numbers: tuple[int, ...], most: int) -> list[str]:
    """Numbers of events, with the gist of what they hold; only such as are in this incident."""
    known = {deed.seq: _action_result(deed) for deed in account.actions if deed.seq}
    for each in account.records:
        if isinstance(each.event, IncidentChecked):
            how = "passed" if each.event.ok else "failed"
            known[each.seq] = f": check {escape_text(each.event.check, 80)} {how}"
    lines = [f"- event {number}{known.get(number, '')}" for number in dict.fromkeys(numbers)]
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return ["Evidence, by the numbers of its events in the journal:", *lines[:most], *more]


def _action_result(deed: IncidentAction) -> str:
    output = inline_code(deed.output, 200) if deed.output.strip() else "no output"
    return f": {inline_code(deed.command, 160)} gave {output}"


def _finding_lines(account: ReportData, most: int) -> list[str]:
    lines = []
    for layer in account.layers:
        where = ", ".join(map(str, layer.evidence[:MAX_NAMED_CHECKS]))
        lines += [
            f"- {escape_text(layer.layer, 40)}: {escape_text(finding, 300)}"
            + (f" (events {where})" if where else "")
            for finding in layer.findings[: min(most, 3)]
        ]
    return ["", "What the investigators found:", *lines] if lines else []


def _bullet_list(texts: list[str], most: int) -> str:
    once = list(dict.fromkeys(texts))
    lines = [f"- {escape_text(text, 300)}" for text in once[:most]]
    if len(once) > most:
        lines.append(f"- … and {len(once) - most} more")
    return "\n".join(lines)


def _reason_suffix(reason: str) -> str:
    return f" ({escape_text(reason)})" if reason else ""


def _duration_text(account: ReportData) -> str:
    going_on = "" if account.incident.ended_at is not None else " so far"
    return format_duration(account.duration_s) + going_on


def _section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"


MAX_READ_COMMANDS = 5


def render_remediation(account: ReportData, most: int) -> str:
    ran = [deed for deed in account.changes if deed.ending != "cut off"]
    back = {each.call_id: each.undone for each in account.incident.changes}
    lines = [
        _action_line(place, deed, back.get(deed.call_id, ""))
        for place, deed in enumerate(ran[:most], 1)
    ]
    if len(ran) > most:
        lines.append(f"\n… and {len(ran) - most} more, which the journal has")
    if not ran:
        looks = [deed for deed in account.actions if deed.ending == "ok" and not deed.changed]
        lines = ["Nothing was changed on the host."]
        if looks:
            lines.append("Commands that only read, among others:")
            lines += [
                f"- {script_excerpt(deed.command)}"
                for deed in looks[: min(most, MAX_READ_COMMANDS)]
            ]
    text = _remedy_section("Remediation", "\n".join(lines))
    return (
        text
        + _render_undo_commands(ran[:most])
        + _render_interrupted(account, most)
        + _render_refused(account, most)
        + _render_undone(account, most)
    )


def render_verification(account: ReportData, most: int) -> str:
    incident = account.incident
    lines = [_verification_text(incident.verified)]
    if over := incident.recovered:
        how = f": {escape_text(over.how, 200)}" if over.how else ""
        lines.append(f"The problem ended at {over.recovered_at:%Y-%m-%d %H:%M:%S} UTC{how}.")
    lines += _check_lines(account, most)
    lines += ["", f"Outcome: {outcome_text(incident)}"]
    return _remedy_section("Verification", "\n".join(lines))


def render_prevention(account: ReportData) -> str:
    lines = [
        f"- {hint}"
        for hint in prevention_hints(account.incident, account.recurrence, account.refused_actions)
    ]
    if by_model := model_prevention_text(account.records):
        lines.append(f"- In the words of the model: {by_model}")
    return _remedy_section("Prevention", "\n".join(lines))


def render_figures(account: ReportData) -> str:
    times, cost = account.times, account.cost
    spent = f"{cost.calls} model calls, {cost.usage.tokens:,} tokens"
    spent = spent if cost.calls else "no model was called"
    if cost.usage.cost_usd:
        spent += f", ${cost.usage.cost_usd:.4f}"
    lines = [
        f"- Time to detect (MTTD): {format_duration(times.detect)}",
        f"- Time to begin (MTTA): {format_duration(times.acknowledge)}",
        f"- Time to repair (MTTR): {_repair_time(account)}",
        f"- Answered by: {escape_text(resolver_name(account), 120)}",
        f"- Cost: {spent}; {len(account.actions)} commands, {len(account.changes)} of them changes",
        # Repeated at the end, because texts of others above may contain such a line.
        f"- Outcome: {outcome_text(account.incident)}",
    ]
    return _remedy_section("Figures", "\n".join(lines))


def _repair_time(account: ReportData) -> str:
    seconds = account.times.repair
    return (
        format_duration(seconds) if seconds is not None else "not defined, no repair was verified"
    )


def _action_line(place: int, deed: IncidentAction, taken_back: str) -> str:
    by = f" by {escape_text(deed.by, 80)}" if deed.by else ""
    attempt = f", attempt {deed.attempt}" if deed.attempt else ""
    how = "done" if deed.ending == "ok" else escape_text(deed.detail, 80)
    if deed.is_undo:
        how += ", to undo a change"
    if taken_back:
        how += ", undone later" if taken_back == "yes" else ", could not be undone"
    return f"{place}. {command_block(deed.command)}{by}{attempt}: {how} (event {deed.seq})"


def _render_undo_commands(ran: list[IncidentAction]) -> str:
    known = [(place, deed) for place, deed in enumerate(ran, start=1) if deed.undo]
    if not known:
        return ""
    lines = [f"{place}. {command_block(deed.undo)}" for place, deed in known]
    return _remedy_section("Undo commands", "By the number of the step:\n\n" + "\n".join(lines))


def _render_interrupted(account: ReportData, most: int) -> str:
    lines = [
        f"- {command_block(deed.command)} began and no result was ever written: it may have run. "
        f"Undo: {command_block(deed.undo) if deed.undo else 'none is known'}"
        for deed in account.changes
        if deed.ending == "cut off"
    ]
    return _remedy_section("Cut off", _limited_list(lines, most)) if lines else ""


def _render_refused(account: ReportData, most: int) -> str:
    lines = []
    for each in account.refused_actions:
        how = escape_text(each.why, 200)
        if each.waiting:
            how += f" (`hermes approvals show {each.waiting}`)"
        lines.append(f"- {command_block(each.command)}: {how}")
    return _remedy_section("Refused or waiting", _limited_list(lines, most)) if lines else ""


def _render_undone(account: ReportData, most: int) -> str:
    by_call = {deed.call_id: deed for deed in account.actions}
    lines = []
    for event in events_of_type(account.records, ChangesUndone):
        why = f": {escape_text(event.reason, 200)}" if event.reason else ""
        lines.append(f"Changes were undone{why}.\n")
        for call in event.calls:
            lines.append(f"- undone: {_action_excerpt(by_call.get(call), call)}")
        for call in event.failed:
            lines.append(
                f"- still in force, could not be undone: {_action_excerpt(by_call.get(call), call)}"
            )
    return _remedy_section("Undone", _limited_list(lines, 2 * most)) if lines else ""


def _action_excerpt(deed: IncidentAction | None, call: str) -> str:
    return script_excerpt(deed.command) if deed is not None else inline_code(call)


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


def _check_lines(account: ReportData, most: int) -> list[str]:
    """Of each check the last result of its kind: before, after, and after the trigger."""
    last: dict[str, dict[str, str]] = {}
    for event in account.checks:
        state = "not run" if event.unknown else "passed" if event.ok else "failed"
        detail = "" if event.ok else f" ({escape_text(event.detail, 120)})" if event.detail else ""
        last.setdefault(event.check, {})[event.when] = state + detail
    if not last:
        return []
    names = {"before": "before", "after": "after", "trigger": "with the trigger"}
    lines = [
        f"- {escape_text(check, 120)}: "
        + ", ".join(f"{names[when]} {seen[when]}" for when in names if when in seen)
        for check, seen in last.items()
    ]
    return ["", _limited_list(lines, most)]


def _limited_list(lines: list[str], most: int) -> str:
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([*lines[:most], *more])


def _remedy_section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"


MAX_REPORT_CHARS = 20_000
LENGTH_STEPS = ((60, 20), (30, 10), (16, 5), (8, 3), (4, 1))
"""Moments of the timeline and items of each list, the fewest last."""


def render_report(
    records: Sequence[JournalRecord],
    *,
    earlier: Sequence[IncidentOpened] = (),
    now: datetime | None = None,
) -> str:
    """Markdown about the one incident in these records. Raises `HermesError` without one."""
    whole = gather_report_data(records, earlier=earlier, now=now)
    text = ""
    for moments, items in LENGTH_STEPS:
        text = _render_sections(whole, moments, items)
        if len(text) <= MAX_REPORT_CHARS:
            break
    return text


def _render_sections(whole: ReportData, moments: int, items: int) -> str:
    return (
        render_head(whole)
        + render_impact(whole)
        + render_timeline(whole, moments)
        + render_cause(whole, items)
        + render_gaps(whole, items)
        + render_remediation(whole, items)
        + render_verification(whole, items)
        + render_prevention(whole)
        + render_recurrence(whole)
        + render_figures(whole)
        + "\n"
    )
