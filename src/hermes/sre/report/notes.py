"""What an incident teaches about the house it happened in, as short sentences to remember.

Nothing that only an alert or an output said is taken over as a fact: a sentence is made of what
checks and the diagnosis established, and names the incident that it rests on.
"""

from collections.abc import Sequence

from hermes.core.events.incidents import AlertsJoined, IncidentOpened
from hermes.core.protocols import Recorded
from hermes.sre.report.account import Account, account
from hermes.sre.report.markdown import one_line
from hermes.sre.report.statements import cause_of, outcome
from hermes.sre.report.times import lasting, ordinal
from hermes.sre.report.told import of_kind

MOST = 6
LINE = 160


def notes_of(
    records: Sequence[Recorded], *, earlier: Sequence[IncidentOpened] = ()
) -> tuple[str, ...]:
    """Topology, causes that were proved, what helped and what did not, how often it came back."""
    whole = account(records, earlier=earlier)
    found = [*_cause(whole), *_helped(whole), *_together(whole), *_again(whole)]
    return tuple(dict.fromkeys(found))[:MOST]


def _cause(whole: Account) -> list[str]:
    """Only a cause that was found: any other diagnosis is a guess."""
    incident = whole.incident
    diagnosis, name = incident.diagnosis, incident.case.incident
    if diagnosis is None or not diagnosis.component or cause_of(incident) != "found":
        return []
    what = one_line(diagnosis.component, 80)
    how = one_line(diagnosis.mechanism, LINE)
    if outcome(incident) == "resolved":
        service = f" of {one_line(incident.case.service, 40)}" if incident.case.service else ""
        return [f"Trouble{service} came from {what}: {how} (verified by checks in {name})"]
    if diagnosis.verdict == "no-incident":
        return [f"An alert about {what} was false: {how} (checked in {name})"]
    return []


def _helped(whole: Account) -> list[str]:
    incident, name = whole.incident, whole.incident.case.incident
    standing = {c.call_id for c in incident.changes if not c.taken_back}
    kept = [deed for deed in whole.changes if deed.call_id in standing and deed.ending == "ok"]
    back = [c for c in incident.changes if c.taken_back == "yes"]
    lines = []
    if outcome(incident) == "resolved" and kept:
        lines.append(f"after `{one_line(kept[-1].command, LINE)}` the checks passed in {name}")
    lines += [f"`{one_line(c.command, LINE)}` was undone in {name}" for c in back[:2]]
    return lines


def _together(whole: Account) -> list[str]:
    """Alerts that came as one trouble: what breaks, breaks together."""
    case = whole.incident.case
    titles = [t for event in of_kind(whole.records, AlertsJoined) for t in event.titles]
    others = [one_line(title, 60) for title in dict.fromkeys(titles) if title != case.title]
    if not others:
        return []
    listed = ", ".join(others[:3])
    return [f"Alerts that came together with {one_line(case.title, 60)!r}: {listed}"]


def _again(whole: Account) -> list[str]:
    times = whole.again.times
    if times < 2:
        return []
    repair = whole.times.repair
    took = f" (time to repair: {lasting(repair)})" if repair is not None else ""
    title = one_line(whole.incident.case.title, 80)
    return [f"{title!r} came the {ordinal(times)} time in {whole.again.days} days{took}"]
