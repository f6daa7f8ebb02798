"""Renders the notification of an escalation on one screen, the most important first."""

from collections.abc import Iterator, Sequence

from hermes.core.events.incidents import EscalationLine
from hermes.core.foreign_text import visible_line
from hermes.core.incident import Incident
from hermes.plumbing.units import format_duration
from hermes.sre.reports.statements import UNKNOWN_CAUSE_LABEL, cause_line

MAX_LINES, MAX_LINE_CHARS, MAX_WRAPPED_LINES = 30, 100, 2
FACT_LABELS = {
    "process": ("process", 4),
    "configuration": ("configuration", 2),
    "error": ("log", 5),
    "port": ("port", 3),
    "disk": ("disk", 6),
    "consumer": ("uses most", 4),
    "change": ("changed", 4),
    "earlier": ("last time", 1),
}
"""By what a line is about: its label, and how many lines the notification has of it."""
CLOSING_LABELS = {
    "command": ("try", 3),
    "need": ("Hermes needs", 2),
    "unchecked": ("not checked", 3),
}


def escalation_lines(incident: Incident) -> list[str]:
    closed, found = incident.closed, incident.diagnosis
    assert closed is not None  # only called for escalated incidents
    lasts = format_duration(incident.duration_s(closed.at))
    since = f"{incident.outage_began_at:%Y-%m-%d %H:%M:%S} UTC"
    known = found.escalation if found is not None else ()
    head = [("failing for", lasts), ("since", since)]
    label, cause = cause_line(incident)
    if label != UNKNOWN_CAUSE_LABEL:
        head.append((label, cause))
    head.append(("impact", incident.reason))
    closing = [*_labelled(known, CLOSING_LABELS), *_attempt_lines(incident), *_gap_lines(incident)]
    id = incident.details.incident
    closing.append(("all facts", f"hermes incident show {id}"))
    closing.append(("report", incident.report_path or f"hermes incident report {id}"))
    first, last = list(_wrap(head)), list(_wrap(closing))
    facts = list(_wrap(_labelled(known, FACT_LABELS)))
    left = MAX_LINES - len(first)
    return [*first, *facts[: max(0, left - len(last))], *last[-left:]]


def _labelled(
    known: Sequence[EscalationLine], labels: dict[str, tuple[str, int]]
) -> Iterator[tuple[str, str]]:
    for about, (label, most) in labels.items():
        shown = [each.text for each in known if each.about == about][:most]
        for number, text in enumerate(shown, start=1):
            yield (f"{label} {number}" if about == "command" else label), text


def _attempt_lines(incident: Incident) -> Iterator[tuple[str, str]]:
    how = {"yes": "undone", "failed": "COULD NOT BE UNDONE", "": "in force"}
    for change in incident.changes:
        yield "tried", f"{change.command} ({how[change.undone]})"


def _gap_lines(incident: Incident) -> Iterator[tuple[str, str]]:
    """Why it was escalated, what the checks say, and what the models excluded."""
    closed, found = incident.closed, incident.diagnosis
    yield "failing", ", ".join(sorted(incident.failing or ()))
    for text in found.ruled_out if found is not None else ():
        yield "excluded by the model", text
    reason = closed.reason if closed is not None else ""
    for text in found.gaps if found is not None else ():
        if text not in (reason, reason[:300]):
            yield "not checked or not known", text
    yield "reason", reason


def _wrap(pairs: Sequence[tuple[str, str]] | Iterator[tuple[str, str]]) -> Iterator[str]:
    """A long text gets a second line; each sentence is told once."""
    told: set[str] = set()
    for label, text in pairs:
        line = visible_line(text, MAX_WRAPPED_LINES * MAX_LINE_CHARS - len(label) - 8)
        if not line or line in told:
            continue
        told.add(line)
        whole = f"{label}: {line}"
        if len(whole) <= MAX_LINE_CHARS:
            yield whole
            continue
        cut = whole.rfind(" ", len(label) + 3, MAX_LINE_CHARS + 1)
        cut = cut if cut > MAX_LINE_CHARS // 2 else MAX_LINE_CHARS
        yield whole[:cut].rstrip()
        yield f"  {whole[cut:].strip()}"[:MAX_LINE_CHARS]
