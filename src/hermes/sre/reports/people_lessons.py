"""What was learned from people who ended an incident, in words for timelines and reports."""

from collections.abc import Sequence

from hermes.core.events.lessons import IncidentStateKept, LessonLearned
from hermes.core.foreign_text import visible_line
from hermes.core.protocols import JournalRecord
from hermes.sre.reports.actions import events_of_type
from hermes.sre.reports.markdown import escape_text

MAX_NAMED, MAX_DETAIL_CHARS = 3, 200


def kept_text(event: IncidentStateKept) -> str:
    return f"the {event.moment} state of the host was kept ({event.state})"


def lesson_text(event: LessonLearned) -> str:
    """In one line."""
    what = _names(event.changed) or "nothing that a state shows"
    if event.status == "proved":
        proof = f"proved on copies in {event.experiments} experiments"
    else:
        proof = f"not proved: {visible_line(event.why, MAX_DETAIL_CHARS)}"
    draft = f"; draft skill {event.skill}" if event.skill else ""
    return f"people changed {what} ({proof}){draft}"


def lesson_lines(records: Sequence[JournalRecord]) -> list[str]:
    """For the report, as Markdown; none where nothing was learned from people."""
    events = events_of_type(records, LessonLearned)
    if not events:
        return []
    event = events[-1]
    lines = [f"- {escape_text(lesson_text(event), 600)}"]
    if event.wrong:
        wrong = escape_text(_names(event.wrong), 400)
        lines.append(f"- Different from the known good state while it failed: {wrong}")
    if event.recovered:
        lines.append(f"- Checks that recovered: {escape_text(_names(event.recovered), 400)}")
    if event.status == "proved" and event.why:
        lines.append(f"- {escape_text(event.why, 400)}")
    return lines


def _names(labels: Sequence[str]) -> str:
    shown = ", ".join(visible_line(label, 100) for label in labels[:MAX_NAMED])
    more = len(labels) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
