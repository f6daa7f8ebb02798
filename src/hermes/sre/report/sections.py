"""The first half of a report: what it was, when, and why."""

from hermes.core.events.incidents import IncidentChecked
from hermes.sre.incident import Incident
from hermes.sre.report.account import Account
from hermes.sre.report.markdown import code, timeless, words
from hermes.sre.report.statements import (
    cause_of,
    exclusions,
    failed_before,
    not_matched,
    not_run,
    unchecked,
)
from hermes.sre.report.timeline import clock, shortened, timeline
from hermes.sre.report.times import lasting, ordinal
from hermes.sre.report.told import Deed

FEW = 8
NAMES = 12
_TEXT = 600


def head(account: Account) -> str:
    incident, case = account.incident, account.incident.case
    title = f"Incident: {words(case.title)}"
    rows = [
        f"- Incident: {code(case.incident)}",
        f"- Date: {case.opened_at:%Y-%m-%d %H:%M:%S} UTC",
        f"- Severity: {incident.severity}" + _because(incident.reason),
        f"- Duration: {_duration(account)}",
    ]
    if case.service:
        rows.append(f"- Service: {words(case.service, 80)}")
    # Underlined, not marked with `#`: the title was written by others.
    return f"{title}\n{'=' * 20}\n\n" + "\n".join(rows)


def impact(account: Account) -> str:
    incident, case = account.incident, account.incident.case
    named = f"The alert names the service {words(case.service, 80)}: " if case.service else ""
    lines = [f"{named}{words(case.title)}."]
    if incident.reason:
        lines.append(f"Graded {incident.severity}: {words(incident.reason)}.")
    if incident.parts:
        names = ", ".join(words(name, 80) for name in incident.parts)
        lines.append(f"Joined later by alerts about: {names}.")
    if failing := failed_before(account.checks):
        names = ", ".join(words(name, 80) for name in failing[:FEW])
        more = f" and {len(failing) - FEW} more" if len(failing) > FEW else ""
        lines.append(f"Before anything was changed these checks failed: {names}{more}.")
    count = incident.alerts
    lines.append(f"{count} alert{'s were' if count != 1 else ' was'} received.")
    if case.text:
        lines.append(f"The first alert said: {words(case.text, _TEXT)}")
    return _section("Impact", "\n".join(lines))


def times(account: Account, most: int) -> str:
    moments, left_out = shortened(timeline(account.records), most)
    lines = [f"- {clock(each.at)} {words(timeless(each.text), 300)}" for each in moments]
    if left_out:
        lines.insert(
            most // 2, f"- … {left_out} moments left out; `hermes incident timeline` has them"
        )
    lines.append(f"- {clock(account.now)} this report was written")
    began = account.times.detect
    since = ""
    if began:
        since = (
            f" According to the alert, the problem began {lasting(began)} before the incident "
            "was opened."
        )
    return _section("Timeline", f"Times of day in UTC.{since}\n\n" + "\n".join(lines))


def cause(account: Account, most: int) -> str:
    """A root cause only where one was found; else what is known."""
    diagnosis, found = account.incident.diagnosis, cause_of(account.incident) == "found"
    lines = [_named(account.incident, found=found)]
    if not found:
        lines += _failing(account, most)
    if diagnosis is not None and (diagnosis.evidence or found):
        lines += ["", *_evidence(account, diagnosis.evidence, most)]
    lines += _found(account, most)
    heading = "Root cause" if found else "What is known"
    return _section(heading, "\n".join(lines).rstrip()) + _ruled_out(account, most)


def _failing(account: Account, most: int) -> list[str]:
    """Checks that failed before anything was changed, with what they saw."""
    names = failed_before(account.checks)
    seen = {each.check: each.detail for each in account.checks if each.when == "before"}
    lines = [f"- {words(name, 80)}: {words(seen[name] or 'failed', 200)}" for name in names]
    return ["", "Checks that failed:", *lines[:most]] if lines else []


def _ruled_out(account: Account, most: int) -> str:
    """Only what was looked at in this incident, with a result."""
    found = list(exclusions(account.incident, account.layers, account.records).shown)
    if absent := not_matched(account.records):
        found.insert(0, _skills(absent, "playbooks looked for their fault and did not find it"))
    return _section("Ruled out", _listed(found, most)) if found else ""


def gaps(account: Account, most: int) -> str:
    """What could not be checked, what is not known, and when nothing looked."""
    diagnosis = account.incident.diagnosis
    found = [
        _skills(each.skills, f"playbooks could not be checked completely: {each.why}")
        for each in unchecked(account.records)
    ]
    found += not_run(account.checks)
    found += list(diagnosis.gaps) if diagnosis is not None else []
    found += [one for layer in account.layers for one in layer.gaps]
    claimed = exclusions(account.incident, account.layers, account.records).claimed
    found += [f"{text} (excluded by the model without evidence)" for text in claimed]
    lines = [_listed(found, most)] if found else []
    lines += [
        f"- Nothing was recorded for {lasting(seconds)} from {clock(since)} on, until the work "
        "resumed."
        for since, seconds in account.incident.gaps[:most]
    ]
    lines += [
        f"- The investigator of {words(layer.layer, 40)} failed."
        for layer in account.layers
        if layer.status == "failed"
    ]
    return _section("What could not be checked", "\n".join(lines)) if lines else ""


def _skills(names: tuple[str, ...], what: str) -> str:
    listed = ", ".join(names[:NAMES]) + (", …" if len(names) > NAMES else "")
    one = what.replace("playbooks", "playbook", 1) if len(names) == 1 else what
    return f"{len(names)} {one} ({listed})"


def again(account: Account) -> str:
    times, before = account.again.times, account.incident.case.seen_before
    days = account.again.days
    if times > 1:
        names = ", ".join(code(name) for name in account.again.before[-3:])
        line = f"{ordinal(times)} time in {days} days. Before: {names}."
    elif before:
        line = f"Seen {before} times before, but not in the last {days} days."
    else:
        line = f"No other incident of the same kind in the last {days} days."
    return _section("Recurrence", line)


def _named(incident: Incident, *, found: bool) -> str:
    diagnosis = incident.diagnosis
    if diagnosis is None or not (diagnosis.mechanism or diagnosis.verdict in _QUIET):
        return "The cause of this incident is not known."
    said = [_QUIET[diagnosis.verdict]] if diagnosis.verdict in _QUIET else []
    if diagnosis.verdict == "recovered" and not incident.changes:
        said.append("Hermes had changed nothing.")
    if not found and diagnosis.mechanism:
        said.append("No cause is proved. What was seen:")
    if diagnosis.component:
        said.append(f"Component: {words(diagnosis.component)}.")
    if diagnosis.mechanism:
        said.append(f"Mechanism: {words(diagnosis.mechanism, 400)}.")
    if diagnosis.value:
        said.append(f"Value: {words(diagnosis.value)}.")
    sure = f" (confidence {diagnosis.confidence:.0%})" if diagnosis.confidence else ""
    return " ".join(said) + sure


_QUIET = {
    "no-incident": "No fault was found.",
    "recovered": "The problem ended.",
}


def _evidence(account: Account, numbers: tuple[int, ...], most: int) -> list[str]:
    """Numbers of events, with the gist of what they hold; only such as are in this incident."""
    known = {deed.seq: _result(deed) for deed in account.deeds if deed.seq}
    for each in account.records:
        if isinstance(each.event, IncidentChecked):
            how = "passed" if each.event.ok else "failed"
            known[each.seq] = f": check {words(each.event.check, 80)} {how}"
    lines = [f"- event {number}{known.get(number, '')}" for number in dict.fromkeys(numbers)]
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return ["Evidence, by the numbers of its events in the journal:", *lines[:most], *more]


def _result(deed: Deed) -> str:
    output = code(deed.output, 200) if deed.output.strip() else "no output"
    return f": {code(deed.command, 160)} gave {output}"


def _found(account: Account, most: int) -> list[str]:
    lines = []
    for layer in account.layers:
        where = ", ".join(map(str, layer.evidence[:FEW]))
        lines += [
            f"- {words(layer.layer, 40)}: {words(finding, 300)}"
            + (f" (events {where})" if where else "")
            for finding in layer.findings[: min(most, 3)]
        ]
    return ["", "What the investigators found:", *lines] if lines else []


def _listed(texts: list[str], most: int) -> str:
    once = list(dict.fromkeys(texts))
    lines = [f"- {words(text, 300)}" for text in once[:most]]
    if len(once) > most:
        lines.append(f"- … and {len(once) - most} more")
    return "\n".join(lines)


def _because(reason: str) -> str:
    return f" ({words(reason)})" if reason else ""


def _duration(account: Account) -> str:
    going_on = "" if account.incident.ended_at is not None else " so far"
    return lasting(account.duration_s) + going_on


def _section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"
