"""Derives prevention hints and notes for later incidents from the events of one."""

import re
from collections.abc import Sequence

from hermes.core.events.incidents import AlertsJoined, IncidentOpened, ReportWritten
from hermes.core.foreign_text import visible_line
from hermes.core.incident import Incident
from hermes.core.protocols import JournalRecord
from hermes.plumbing.units import format_duration, ordinal
from hermes.sre.reports.actions import RefusedAction, events_of_type
from hermes.sre.reports.markdown import escape_text
from hermes.sre.reports.report_data import ReportData, gather_report_data
from hermes.sre.reports.statements import (
    QUIET_OUTCOMES,
    IncidentRecurrence,
    cause_status,
    incident_times,
    outcome_text,
)

SLOW_DETECTION_S = 300.0
"""Seconds to detect a problem, beyond which a probe is missing."""
MAX_HINTS = 6
_PREVENTION_HINTS: tuple[tuple[str, str], ...] = (
    (r"allows no eviction",
     "Give a workload one replica more than its disruption budget demands."),
    (r"fit into quota", "Raise the quota first, and let an alert say when it is nearly used."),
    (r"selector .* matches no pod", "Check after each change of a service that it has endpoints."),
    (r"no space|disk|inode|/dev/shm|\bfull\b",
     "Cap or rotate what fills the disk, and let a probe warn before it is full."),
    (r"certificate|\btls\b|x509|\bexpir",
     "Renew it by a job, and let a probe warn weeks before the end."),
    (r"memory|\boom\b|\bleak|\brss\b",
     "Set a limit that fits the real need, and watch how the memory grows."),
    (r"\bcpu\b|runaway|busy loop", "Limit what one service may take of the processor."),
    (r"connections?\b.*(exhaust|too many|limit)|too many (clients|connections)|\bpool\b",
     "Size the pool of the clients below the limit of the server, with a time-out."),
    (r"deadlock|waits? for a lock|lock (time|wait)|blocks? other|idle in transaction",
     "Keep transactions short and set a lock time-out."),
    (r"\block\b.*(dead|stale|left|killed)|(stale|old|dead).{0,12}\block\b",
     "Let a lock end with the process that holds it, as flock does."),
    (r"\bindex\b|slow quer|sequential scan", "Check plans of new queries before they go live."),
    (r"password|token|credential|secret|rotat",
     "Rotate credentials where they are used in the same step, and try them afterwards."),
    (r"\bdns\b|resolv|unknown host|/etc/hosts",
     "Keep names in one place and check that they resolve."),
    (r"firewall|iptables|\bnft\b|partition|unreachable",
     "Keep network rules under version control and test the paths that services need."),
    (r"upstream|proxy_pass|bad gateway", "Check that upstreams answer before a proxy is reloaded."),
    (r"permission|owner|chown|chmod|denied", "Set owner and mode by the deployment, not by hand."),
    (r"deploy(?!ment/)|release|rollback|revision|version",
     "Let a release prove itself on one host before the others."),
    (r"config|setting|typo|syntax|\bvariable\b|\bedit",
     "Check a configuration before it is loaded, and keep it under version control."),
    (r"\bmodule\b|dependenc|import ?error|\bpackages?\b",
     "Pin dependencies and start the service once in the build."),
    (r"port\b.*(taken|in use)|address already in use",
     "Give each service a port of its own, written down."),
    (r"cron|schedul|\bjob\b", "Let a job report its end, and alarm when it does not."),
    (r"queue|backlog|consumer|\blag\b",
     "Watch the length of the queue, not only whether it is served."),
    (r"crash|killed|exited|failed state|restart",
     "Let the supervisor start it again, and alarm on repeated restarts."),
)  # fmt: skip
_CLUSTER_OBJECT = re.compile(
    r"[a-z0-9-]*/(?:deployment|statefulset|daemonset|service|ingress|poddisruptionbudget)/"
)
"""Names that people chose: they say nothing about a mechanism."""
_PATHS = re.compile(r"(?<![\w.])/(?!(?:etc/hosts|dev/shm)\b)[\w.@+/-]+")
_PREVENTION_SECTION = re.compile(
    r"^#{1,4}[^\n]*(?:prevention|follow.up|lessons)[^\n]*\n(.+?)(?=^#{1,4}\s|\Z)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
MAX_NOTES = 6
MAX_LINE_CHARS = 160


def prevention_hints(
    incident: Incident, recurrence: IncidentRecurrence, refused: Sequence[RefusedAction]
) -> list[str]:
    """Fixed sentences without any untrusted text."""
    found = [*_course_hints(incident, recurrence, refused), *_mechanism_hints(incident)]
    if not found:
        found = ["Nothing in the journal points at a particular prevention."]
    return list(dict.fromkeys(found))[:MAX_HINTS]


def model_prevention_text(records: Sequence[JournalRecord]) -> str:
    """The prevention section of a report that a model wrote; empty without one."""
    for event in reversed(events_of_type(records, ReportWritten)):
        if (
            not event.path
            and not event.trouble
            and (match := _PREVENTION_SECTION.search(event.text))
        ):
            return escape_text(visible_line(match.group(1), 500), 500)
    return ""


def _mechanism_hints(incident: Incident) -> list[str]:
    """Hints for a cause that was found; the text of an alert only describes symptoms."""
    diagnosis = incident.diagnosis
    if incident.status == "recovered" or (diagnosis and diagnosis.verdict in QUIET_OUTCOMES):
        return []
    if diagnosis is None or cause_status(incident) != "found":
        return ["The cause is not known: find it first."]
    component = "" if _CLUSTER_OBJECT.match(diagnosis.component) else diagnosis.component
    # Names of files would be taken for what happened: an import.lock, a pool.conf.
    text = _PATHS.sub(" ", " ".join((component, diagnosis.mechanism, diagnosis.value)).lower())
    return [hint for pattern, hint in _PREVENTION_HINTS if re.search(pattern, text)][:2]


def _course_hints(
    incident: Incident, recurrence: IncidentRecurrence, refused: Sequence[RefusedAction]
) -> list[str]:
    found = []
    diagnosis, times = incident.diagnosis, incident_times(incident)
    if recurrence.times > 1:
        found.append(
            f"It is the {ordinal(recurrence.times)} time in {recurrence.days} days: look for a "
            "cause that the work on the earlier ones did not remove."
        )
    if diagnosis is not None and diagnosis.verdict == "no-incident":
        found.append("Correct the check that raised the alert: no fault was found.")
    if diagnosis is not None and diagnosis.verdict == "recovered":
        found.append("Find out why it failed for a while; it may come back.")
    if times.detect is not None and times.detect > SLOW_DETECTION_S:
        found.append(f"It took {format_duration(times.detect)} to be detected: add a probe for it.")
    if refused:
        found.append("Decide beforehand, by a rule, what may be done without asking.")
    if any(change.undone == "failed" for change in incident.changes):
        found.append("A change could not be undone: look at the host by hand.")
    if incident.gaps:
        found.append("Run the watch under a supervisor: the work on the incident was interrupted.")
    return found


def incident_notes(
    records: Sequence[JournalRecord], *, earlier: Sequence[IncidentOpened] = ()
) -> tuple[str, ...]:
    """Proved causes, what helped and what did not, related alerts, and recurrences."""
    data = gather_report_data(records, earlier=earlier)
    found = [
        *_cause_notes(data),
        *_fix_notes(data),
        *_joined_alert_notes(data),
        *_recurrence_notes(data),
    ]
    return tuple(dict.fromkeys(found))[:MAX_NOTES]


def _cause_notes(data: ReportData) -> list[str]:
    """Only for a cause that was found."""
    incident = data.incident
    diagnosis, name = incident.diagnosis, incident.details.incident
    if diagnosis is None or not diagnosis.component or cause_status(incident) != "found":
        return []
    what = visible_line(diagnosis.component, 80)
    how = visible_line(diagnosis.mechanism, MAX_LINE_CHARS)
    if outcome_text(incident) == "resolved":
        service = (
            f" of {visible_line(incident.details.service, 40)}" if incident.details.service else ""
        )
        return [f"Trouble{service} came from {what}: {how} (verified by checks in {name})"]
    if diagnosis.verdict == "no-incident":
        return [f"An alert about {what} was false: {how} (checked in {name})"]
    return []


def _fix_notes(data: ReportData) -> list[str]:
    incident, name = data.incident, data.incident.details.incident
    standing = {c.call_id for c in incident.changes if not c.undone}
    kept = [
        action for action in data.changes if action.call_id in standing and action.ending == "ok"
    ]
    back = [c for c in incident.changes if c.undone == "yes"]
    lines = []
    if outcome_text(incident) == "resolved" and kept:
        lines.append(
            f"after `{visible_line(kept[-1].command, MAX_LINE_CHARS)}` the checks passed in {name}"
        )
    lines += [f"`{visible_line(c.command, MAX_LINE_CHARS)}` was undone in {name}" for c in back[:2]]
    return lines


def _joined_alert_notes(data: ReportData) -> list[str]:
    """Alerts that belonged to the same incident."""
    details = data.incident.details
    titles = [t for event in events_of_type(data.records, AlertsJoined) for t in event.titles]
    others = [visible_line(title, 60) for title in dict.fromkeys(titles) if title != details.title]
    if not others:
        return []
    listed = ", ".join(others[:3])
    return [f"Alerts that came together with {visible_line(details.title, 60)!r}: {listed}"]


def _recurrence_notes(data: ReportData) -> list[str]:
    times = data.recurrence.times
    if times < 2:
        return []
    repair = data.times.repair
    took = f" (time to repair: {format_duration(repair)})" if repair is not None else ""
    title = visible_line(data.incident.details.title, 80)
    return [f"{title!r} came the {ordinal(times)} time in {data.recurrence.days} days{took}"]
