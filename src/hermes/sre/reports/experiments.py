"""What experiments on copies showed, and what was learned from people, in words."""

from collections.abc import Sequence

from hermes.core.events.experiments import (
    ExperimentRan,
    ExperimentsEnded,
    ExperimentsStarted,
    FixTested,
    IncidentStateKept,
    LessonLearned,
)
from hermes.core.foreign_text import visible_line
from hermes.core.protocols import JournalRecord
from hermes.plumbing.units import format_duration
from hermes.sre.cause import describe_differences
from hermes.sre.reports.actions import events_of_type
from hermes.sre.reports.markdown import escape_text

MAX_DETAIL_CHARS, MAX_REASON_CHARS, MAX_NAMED, MAX_NAMED_SUSPECTS = 140, 200, 3, 6
MAX_WHY_CHARS = 400
"""Of what experiments concluded: it names changes."""
_PURPOSES = {
    "reproduce": "reproduce",
    "revert-all": "revert all",
    "keep-only": "search",
    "revert-only": "confirm",
    "rehearse": "rehearse",
}
_OUTCOMES = {
    "fails": "it fails as on the host",
    "differs": "it fails in another way than on the host",
    "passes": "the checks pass",
    "unclear": "something else fails, or it could not be tried",
}


def started_text(event: ExperimentsStarted) -> str:
    """Before the first experiment."""
    count = event.suspect_count or len(event.suspects)
    many = f"{count} change{'' if count == 1 else 's'} since the known good state"
    if not event.suspects:
        return f"{many}; the fault is tried on a copy of the host"
    names = _names(event.suspects, count, MAX_NAMED_SUSPECTS)
    return f"{many}, tried on copies of the host: {names}"


def experiment_phase(event: ExperimentRan) -> str:
    """Return what the experiment is for, in one or two words."""
    return _PURPOSES.get(event.purpose, event.purpose)


def experiment_subject(event: ExperimentRan) -> str:
    """Return what was done to the copy."""
    count = event.reverted_count or len(event.reverted)
    return {
        "reproduce": "an unchanged copy of the host",
        "revert-all": f"a copy with all {count} changes reverted",
        "keep-only": f"a copy with only {_changes(event.kept)}: {_names(event.kept)}",
        "revert-only": f"a copy with only this reverted: {_names(event.reverted)}",
        "rehearse": f"the revert while services run: {_names(event.reverted)}",
    }.get(event.purpose, "a copy of the host")


def experiment_outcome(event: ExperimentRan) -> str:
    return _OUTCOMES.get(event.outcome, event.outcome)


def experiment_text(event: ExperimentRan) -> str:
    """One experiment in one line."""
    detail = f" ({visible_line(event.detail, MAX_DETAIL_CHARS)})" if event.detail else ""
    took = f", {format_duration(event.seconds)}" if event.seconds else ""
    what = f"{experiment_subject(event)}: {experiment_outcome(event)}"
    return f"experiment {event.number}: {what}{detail}{took}"


def ended_text(event: ExperimentsEnded) -> str:
    """The result of all experiments."""
    why = f": {visible_line(event.why, MAX_WHY_CHARS)}" if event.why else ""
    if event.status == "proved":
        by = f", changed by {visible_line(event.author, 60)}" if event.author else ""
        took = f" in {event.experiments} experiments, {format_duration(event.seconds)}"
        left = f"; not put back: {visible_line(event.why, MAX_WHY_CHARS)}" if event.why else ""
        how = describe_differences(event.differences)
        return f"cause proved{took}{how}: {_names(event.causes)}{by}{left}"
    if event.status == "ruled-out":
        # Not "ruled out": a copy that never passes may not be able to run the service.
        many = f"{event.suspects} change{'' if event.suspects == 1 else 's'}"
        return f"no change was found as the cause ({many} since the known good state){why}"
    if event.status == "not-reproduced":
        return f"the fault could not be reproduced on a copy of the host{why}"
    if event.experiments:
        many = f"{event.experiments} experiment{'' if event.experiments == 1 else 's'} on copies"
        return f"{many} without a proof{why}"
    return f"no experiments on a copy{why}"


def proved_on_copies(records: Sequence[JournalRecord]) -> str:
    """The cause that experiments proved; empty without one."""
    proved = [e for e in events_of_type(records, ExperimentsEnded) if e.status == "proved"]
    return (
        f"On copies of the host: {ended_text(proved[-1])}; not verified on the host."
        if proved
        else ""
    )


def describe_test(event: FixTested) -> str:
    """Return how a fix did on a copy, for people who decide about it."""
    checks = _names(event.checks)
    detail = f": {visible_line(event.detail, MAX_DETAIL_CHARS)}" if event.detail else ""
    if event.outcome == "recovered":
        took = f" in {format_duration(event.recovery_s)}" if event.recovery_s else ""
        return f"tested on a copy: {checks} recovered{took}"
    if event.outcome == "helped":
        return f"tested on a copy: {checks} recovered, but not all that fails{detail}"
    if event.outcome == "failed":
        return f"tested on a copy: it did not help{detail}"
    if event.outcome == "not-reproduced":
        return f"not tested: the failure could not be reproduced on a copy{detail}"
    return f"tested on a copy without a clear result{detail}"


def tested_text(event: FixTested) -> str:
    """With the fix, in one line."""
    return f"{visible_line(event.fix, 100) or 'a fix'}: {describe_test(event)}"


def tested_lines(records: Sequence[JournalRecord]) -> list[str]:
    """For the report, as Markdown."""
    return [
        f"- {escape_text(tested_text(each), 400)}" for each in events_of_type(records, FixTested)
    ]


def kept_text(event: IncidentStateKept) -> str:
    return f"the {event.moment} state of the host was kept ({event.state})"


def lesson_text(event: LessonLearned) -> str:
    """In one line."""
    what = _names(event.changed) if event.changed else "nothing that a state shows"
    if event.status == "proved":
        proof = f"proved on copies in {event.experiments} experiments"
    else:
        proof = f"not proved: {visible_line(event.why, MAX_REASON_CHARS)}"
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


def _changes(labels: Sequence[str]) -> str:
    return "this change" if len(labels) == 1 else "these changes"


def _names(labels: Sequence[str], count: int = 0, max_named: int = MAX_NAMED) -> str:
    """`count`: where there are more than these."""
    shown = ", ".join(visible_line(label, 100) for label in labels[:max_named])
    more = max(count, len(labels)) - max_named
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"
