"""Renders the notification of an escalation on one screen, the most important first."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from hermes.core.events.incidents import EscalationLine, IncidentDiagnosed
from hermes.core.foreign_text import cut_words, visible_line
from hermes.core.incident import Incident
from hermes.plumbing.units import format_duration
from hermes.sre.reports.statements import (
    SYMPTOM_CONFIDENCE,
    UNKNOWN_CAUSE_LABEL,
    cause_line,
)
from hermes.sre.triage.topology import alert_location

MAX_LINES, MAX_LINE_CHARS, MAX_REASON_CHARS = 23, 100, 84
"""With its title a notification fills a screen of 24 lines."""
MAX_VALUE_AGE_S = 30.0
"""Values that were measured longer ago are shown with their time."""
_REFUSED_CHECK = re.compile(r"^(\S+) may not go on: not allowed: .*", re.DOTALL)
_NAME_WITH_DIGITS = re.compile(
    r"\S*[/:]\S*|\b\d+(?:\.\d+){3}\b|(?<!\S)[^\s\d]*[A-Za-z][^\s\d]*\d\S*"
)
"""Addresses, paths and names such as box-02: no measured values."""
_ON_COPIES = re.compile(r"\bon (?:a copy|copies)\b")
FACT_LABELS = {
    "obstacle": ("obstacle", 2),
    "process": ("process", 4),
    "error": ("log", 4),
    "log": ("log", 2),
    "dependency": ("behind it", 5),
    "failing": ("fails as well", 4),
    "file": ("file", 3),
    "configuration": ("configuration", 2),
    "related": ("related", 3),
    "port": ("port", 3),
    "disk": ("disk", 5),
    "consumer": ("uses most", 4),
    "database": ("database", 4),
    "metric": ("measured", 4),
    "cluster": ("cluster", 4),
    "change": ("changed", 2),
    "test": ("test", 2),
    "earlier": ("last time", 1),
}
"""By what a line is about: its label, and how many lines the notification has of it."""
WHY_LABEL = "why escalated"
MOST_LINES = {FACT_LABELS["error"][0]: 3, WHY_LABEL: 4, "experiments": 4}
"""Of one text; others have two."""
COMMAND_LABELS = {"command": ("try", 3)}
GAP_LABELS = {"need": ("Hermes needs", 2), "unchecked": ("not checked", 2)}


def escalation_lines(incident: Incident) -> list[str]:
    closed, found = incident.closed, incident.diagnosis
    assert closed is not None  # only called for escalated incidents
    lasts = format_duration(incident.duration_s(closed.at))
    since = f"{incident.outage_began_at:%Y-%m-%d %H:%M:%S} UTC"
    known = found.escalation if found is not None else ()
    host = alert_location(incident.details.labels).host
    head = [
        (
            "outage" if incident.reopened_at else "failing for",
            f"{lasts}, since {since}" + (f", on {host}" if host else "") + reopened_text(incident),
        ),
        ("impact", incident.reason),
        title_time(incident, closed.at),
    ]
    symptoms = _symptoms(incident)
    label, cause = cause_line(incident)
    if label != UNKNOWN_CAUSE_LABEL and symptoms is None:
        head.append((label, cause))
    head += attempt_lines(incident)
    id = incident.details.incident
    where = [
        ("all facts", f"hermes incident show {id}" + _collected_text(found)),
        ("report", incident.report_path or f"hermes incident report {id}"),
    ]
    gaps = [
        ("also seen", "; ".join(symptoms or ())),
        *_gap_lines(incident),
        *_labelled(known, GAP_LABELS),
    ]
    first, last = _joined(_wrap(head)), _joined(_wrap(where))
    commands = _joined(_wrap(_labelled(known, COMMAND_LABELS)))
    facts = list(_wrap(_labelled(known, FACT_LABELS)))
    left = max(0, MAX_LINES - len(first) - len(commands) - len(last))
    # What is known comes first; what is not known keeps at most what facts leave, or half.
    rest = _fitting(_wrap(gaps), max(left - len(_joined(facts)), left // 2))
    return [*first, *_fitting(facts, left - len(rest)), *commands, *rest, *last]


def _joined(texts: Iterable[Sequence[str]]) -> list[str]:
    return [line for lines in texts for line in lines]


def _fitting(texts: Iterable[Sequence[str]], max_lines: int) -> list[str]:
    """As many whole texts as fit: one that lacks its end may mislead."""
    kept: list[str] = []
    for lines in texts:
        if len(kept) + len(lines) > max_lines:
            break
        kept += lines
    return kept


def reopened_text(incident: Incident) -> str:
    """Return what a duration leaves open: a reopened incident may have been fine in between."""
    at = incident.reopened_at
    return f"; reopened at {at:%H:%M:%S} UTC, it may have been fine before" if at else ""


def title_time(incident: Incident, now: datetime) -> tuple[str, str]:
    """When the values in the title were measured; nothing where it has none, or they are recent."""
    at = incident.details.titled_at or incident.details.opened_at
    old = (now - at).total_seconds() >= MAX_VALUE_AGE_S
    values = _NAME_WITH_DIGITS.sub("", incident.details.title)
    shown = old and any(map(str.isdigit, values))
    return "its title", f"as measured at {at:%H:%M:%S} UTC" if shown else ""


def _collected_text(found: IncidentDiagnosed | None) -> str:
    collected = found is not None and found.escalation
    return f" (collected at {found.at:%H:%M:%S} UTC)" if found is not None and collected else ""


def _symptoms(incident: Incident) -> list[str] | None:
    """Return what the assessment saw elsewhere; None where there is a diagnosis. Lines about the
    service itself and log lines are among the facts."""
    found, service = incident.diagnosis, incident.details.service
    if found is None or found.confidence > SYMPTOM_CONFIDENCE or not found.escalation:
        return None
    own = re.compile(rf"(?<![\w-]){re.escape(service)}(?![\w-])") if service else None
    return [
        each
        for each in found.mechanism.split("; ")
        if " says: " not in each
        and not (own is not None and own.search(each))
        and each.partition(" ")[0] not in incident.details.title
    ]


def _labelled(
    known: Sequence[EscalationLine], labels: dict[str, tuple[str, int]]
) -> Iterator[tuple[str, str]]:
    for about, (label, most) in labels.items():
        shown = [each.text for each in known if each.about == about][:most]
        for number, text in enumerate(shown, start=1):
            yield (f"{label} {number}" if about == "command" else label), text


def attempt_lines(incident: Incident) -> Iterator[tuple[str, str]]:
    how = {"yes": "undone", "failed": "COULD NOT BE UNDONE", "": "in force"}
    for change in incident.changes:
        command = change.command or "a change, whose command is not recorded"
        yield "tried", f"{command} ({how[change.undone]})"


def _gap_lines(incident: Incident) -> Iterator[tuple[str, str]]:
    """Return why it was escalated, what the checks say, and what the models excluded."""
    closed, found = incident.closed, incident.diagnosis
    failing, at = ", ".join(sorted(incident.failing or ())), incident.checked_at
    yield "failing", f"{failing} (at {at:%H:%M:%S} UTC)" if failing and at else failing
    for text in found.ruled_out if found is not None else ():
        yield "excluded by the model", text
    reason = closed.reason if closed is not None else ""
    known = {_why(reason)}
    for text in found.gaps if found is not None else ():
        if text not in (reason, cut_words(reason, 500)) and _why(text) not in known:
            known.add(_why(text))
            yield "not checked or not known", text
    reason = _REFUSED_CHECK.sub(r"a rule refused what the playbook \1 wanted to run", reason)
    if found is not None and found.not_put_back:
        yield WHY_LABEL, f"the cause is proved on copies, not put back: {found.not_put_back}"
        return
    why, _, tried = reason.partition("; ")
    if not _ON_COPIES.search(tried):
        why, tried = reason, ""
    yield WHY_LABEL, visible_line(why, MAX_REASON_CHARS)
    yield "experiments", tried


def _why(gap: str) -> str:
    """Return what follows the thing that was not checked: many gaps may have one reason."""
    return (gap.partition(": ")[2] or gap)[:MAX_REASON_CHARS]


def _wrap(pairs: Iterable[tuple[str, str]]) -> Iterator[list[str]]:
    """The lines of each text: two of a long one, of some a few more. A repeated text is left
    out."""
    written: set[str] = set()
    for label, text in pairs:
        line = visible_line(text, 4 * MAX_LINE_CHARS)
        if not line or line in written:
            continue
        written.add(line)
        most = MOST_LINES.get(label, 2)
        yield textwrap.wrap(
            f"{label}: {line}",
            MAX_LINE_CHARS,
            subsequent_indent="  ",
            break_on_hyphens=False,
            max_lines=most,
            placeholder=" …",
        )
