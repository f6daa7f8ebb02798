"""The first half of a report: what it was, when, and why."""

from hermes.core.events.incidents import IncidentDiagnosed
from hermes.core.events.skills import PlaybookEnded
from hermes.sre.report.account import Account
from hermes.sre.report.markdown import code, timeless, words
from hermes.sre.report.timeline import clock, shortened, timeline
from hermes.sre.report.times import lasting, ordinal
from hermes.sre.report.told import Deed, of_kind

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
    # Underlined, not marked with `#`: the title is somebody else's words.
    return f"{title}\n{'=' * 20}\n\n" + "\n".join(rows)


def impact(account: Account) -> str:
    incident, case = account.incident, account.incident.case
    what = f"The service {words(case.service, 80)} was concerned" if case.service else "Noticed"
    lines = [f"{what}: {words(case.title)}."]
    if incident.reason:
        lines.append(f"Graded {incident.severity}: {words(incident.reason)}.")
    failing = list(
        dict.fromkeys(c.check for c in account.checks if c.when == "before" and not c.ok)
    )
    if failing:
        names = ", ".join(words(name, 80) for name in failing[:FEW])
        more = f" and {len(failing) - FEW} more" if len(failing) > FEW else ""
        lines.append(f"Before anything was changed these checks failed: {names}{more}.")
    count = incident.alerts
    lines.append(f"{count} alert{'s' if count != 1 else ''} told of it, for {_duration(account)}.")
    if case.text:
        lines.append(f"The alert said: {words(case.text, _TEXT)}")
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
    since = f" By its source the trouble began {lasting(began)} earlier." if began else ""
    return _section("Timeline", f"Times of day in UTC.{since}\n\n" + "\n".join(lines))


def cause(account: Account, most: int) -> str:
    diagnosis = account.incident.diagnosis
    lines = [_named(diagnosis)]
    if diagnosis is not None:
        lines += ["", *_evidence(account, diagnosis.evidence, most)]
    lines += _found(account, most)
    return _section("Root cause", "\n".join(lines).rstrip()) + _ruled_out(account, most)


def _ruled_out(account: Account, most: int) -> str:
    diagnosis = account.incident.diagnosis
    found = list(diagnosis.ruled_out) if diagnosis is not None else []
    found += [one for layer in account.layers for one in layer.ruled_out]
    ended = of_kind(account.records, PlaybookEnded)
    declined = list(dict.fromkeys(e.skill for e in ended if e.outcome == "declined"))
    if declined:
        names = ", ".join(declined[:NAMES]) + (", …" if len(declined) > NAMES else "")
        found.insert(0, f"{len(declined)} known faults whose signature is not there: {names}")
    return _section("Ruled out", _listed(found, most)) if found else ""


def gaps(account: Account, most: int) -> str:
    """What is not known, and the times in which nobody looked."""
    diagnosis = account.incident.diagnosis
    found = list(diagnosis.gaps) if diagnosis is not None else []
    found += [one for layer in account.layers for one in layer.gaps]
    lines = [_listed(found, most)] if found else []
    lines += [
        f"- The watcher was gone for {lasting(seconds)} from {clock(since)} on; "
        "what it had done until then was in the journal, and no change was made twice."
        for since, seconds in account.incident.gaps[:most]
    ]
    lines += [
        f"- The investigator of {words(layer.layer, 40)} failed."
        for layer in account.layers
        if layer.status == "failed"
    ]
    return _section("Gaps", "\n".join(lines)) if lines else ""


def again(account: Account) -> str:
    times, before = account.again.times, account.incident.case.seen_before
    if times > 1:
        names = ", ".join(code(name) for name in account.again.before[-3:])
        line = f"{ordinal(times)} time in {account.again.days} days. Before: {names}."
    elif before:
        line = f"Seen {before} times before, none of them in the last {account.again.days} days."
    else:
        line = f"First time in {account.again.days} days."
    return _section("Recurrence", line)


def _named(diagnosis: IncidentDiagnosed | None) -> str:
    if diagnosis is None:
        return "Unknown: nobody came to a diagnosis that points at evidence."
    sure = f" (confidence {diagnosis.confidence:.0%})" if diagnosis.confidence else ""
    quiet = {
        "no-incident": "Nothing was wrong with the service: the alarm was.",
        "recovered": "It had been wrong and was well again before anything was done.",
    }
    said = [quiet[diagnosis.verdict]] if diagnosis.verdict in quiet else []
    if diagnosis.component:
        said.append(f"Component: {words(diagnosis.component)}.")
    if diagnosis.mechanism:
        said.append(f"Mechanism: {words(diagnosis.mechanism, 400)}.")
    if diagnosis.value:
        said.append(f"Value: {words(diagnosis.value)}.")
    return (" ".join(said) or "No component or mechanism could be named with certainty.") + sure


def _evidence(account: Account, numbers: tuple[int, ...], most: int) -> list[str]:
    """Numbers of events, with the gist of what they hold; only such as are in this incident."""
    known = {deed.seq: deed for deed in account.deeds if deed.seq}
    lines = [_shown(number, known.get(number)) for number in dict.fromkeys(numbers)]
    if not lines:
        return ["No evidence was named."]
    more = [f"- … and {len(lines) - most} more"] if len(lines) > most else []
    return ["Evidence, by the numbers of its events in the journal:", *lines[:most], *more]


def _shown(number: int, deed: Deed | None) -> str:
    if deed is None:
        return f"- event {number}"
    output = code(deed.output, 200) if deed.output.strip() else "no output"
    return f"- event {number}: {code(deed.command, 160)} gave {output}"


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
    return lasting(account.incident.duration_s(account.now))


def _section(heading: str, body: str) -> str:
    return f"\n\n## {heading}\n\n{body}"
