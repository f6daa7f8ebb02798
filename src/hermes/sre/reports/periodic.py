"""The daily briefing and the weekly review: what a person should know, and nothing when nothing."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalAnswered, ApprovalRequested, ApprovalSettled
from hermes.core.events.base import UnknownEvent
from hermes.core.events.jobs import JobEnded, JobMissed
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import SkillChanged
from hermes.core.foreign_text import visible_line
from hermes.core.incident import Incident
from hermes.core.messages import Usage
from hermes.plumbing.units import format_duration, ordinal
from hermes.sre.reports.statements import incident_times, resolver_of
from hermes.sre.reports.statistics import duration_statistics

BRIEFING_KINDS = (
    "approval.requested",
    "approval.answered",
    "approval.settled",
    "job.ended",
    "job.missed",
)
REVIEW_KINDS = ("skill.changed", "model.answered", *BRIEFING_KINDS)
MAX_NAMES = 8
DAY, WEEK = timedelta(days=1), timedelta(days=7)
GAINED_STATES, RETIRED_STATE = ("validated", "trusted"), "retired"
Lines = list[tuple[str, str]]


def is_recent(incident: Incident, since: datetime) -> bool:
    if incident.unresolved or incident.details.opened_at >= since:
        return True
    last = incident.recovered or incident.closed
    return last is not None and last.at >= since


def briefing_lines(
    incidents: Sequence[Incident],
    risks: Sequence[tuple[str, str]],
    events: Sequence[Event | UnknownEvent],
    now: datetime,
) -> Lines:
    """`incidents` and `events` are those of the last day. Empty: nothing happened or is coming."""
    lines: Lines = []
    ended = Counter(each.status for each in incidents if each.status != "open")
    if incidents:
        counts = ", ".join(f"{count} {status}" for status, count in ended.items())
        lines.append(("incidents", f"{len(incidents)}: {counts or 'none ended'}"))
        repairs = duration_statistics(incident_times(each).repair for each in incidents)
        if repairs.count:
            lines.append(("median MTTR", f"{format_duration(repairs.median)} (of {repairs.count})"))
    for each in incidents:
        if each.status in ("open", "escalated"):
            id = each.details.incident
            lines.append((each.status, f"{each.severity} {each.details.title} ({id})"))
    lines += _recurrences(incidents)
    lines += risks
    lines += _waiting(events, now)
    failed = [each for each in events if isinstance(each, JobEnded) and _failed(each)]
    times, last = Counter(each.job for each in failed), {each.job: each for each in failed}
    for name, job in [*last.items()][:MAX_NAMES]:
        count = f" ({times[name]} times)" if times[name] > 1 else ""
        lines.append(("job failed", f"{name}{count}: {job.reason}"))
    missed = sum(each.count for each in events if isinstance(each, JobMissed))
    lines += [("missed", f"{missed} due times of jobs")] if missed else []
    return lines


def _failed(event: JobEnded) -> bool:
    return event.outcome in ("failed", "timed-out", "unknown")


def _recurrences(incidents: Sequence[Incident]) -> Lines:
    again = [each.details for each in incidents if each.details.seen_before]
    return [
        ("again", f"{each.title}: the {ordinal(each.seen_before + 1)} time")
        for each in again[:MAX_NAMES]
    ]


def _waiting(events: Sequence[Event | UnknownEvent], now: datetime) -> Lines:
    settled = ApprovalAnswered | ApprovalSettled
    answered = {each.approval for each in events if isinstance(each, settled)}
    waiting = [
        each
        for each in events
        if isinstance(each, ApprovalRequested)
        and each.approval not in answered
        and (each.until is None or each.until > now)
    ]
    if not waiting:
        return []
    return [("owed an answer", f"{len(waiting)}: {waiting[-1].shown} (hermes approvals)")]


def review_lines(
    incidents: Sequence[Incident],
    before: Sequence[Incident],
    events: Sequence[Event | UnknownEvent],
) -> Lines:
    """Of a week and of the week before it. Empty: nothing happened."""
    lines: Lines = []
    if incidents or before:
        lines.append(("incidents", f"{len(incidents)}, the week before {len(before)}"))
    lines += _repair_lines(incidents, before)
    lines += _recurrences(incidents)
    changed = [each for each in events if isinstance(each, SkillChanged)]
    for name, states in (("skills gained", GAINED_STATES), ("skills retired", (RETIRED_STATE,))):
        found = dict.fromkeys(
            each.skill for each in changed if each.state in states and each.before not in states
        )
        lines += [(name, ", ".join([*found][:MAX_NAMES]))] if found else []
    lines += _approval_lines(events)
    usage = sum((each.usage for each in events if isinstance(each, ModelAnswered)), start=Usage())
    if usage.tokens:
        lines.append(("cost", f"${usage.cost_usd:.2f}, {usage.tokens:,} tokens"))
    failed = Counter(each.job for each in events if isinstance(each, JobEnded) and _failed(each))
    lines += [("jobs failed", ", ".join(f"{n} {c}×" for n, c in failed.items()))] if failed else []
    return lines


def _repair_lines(incidents: Sequence[Incident], before: Sequence[Incident]) -> Lines:
    lines: Lines = []
    for name, with_skill in (("MTTR with skills", True), ("MTTR without", False)):
        now, earlier = (
            duration_statistics(
                incident_times(each).repair
                for each in group
                if (resolver_of(each).by == "playbook") == with_skill
            )
            for group in (incidents, before)
        )
        if now.count:
            was = f", the week before {format_duration(earlier.median)}" if earlier.count else ""
            lines.append((name, f"median {format_duration(now.median)} of {now.count}{was}"))
    return lines


def _approval_lines(events: Sequence[Event | UnknownEvent]) -> Lines:
    rules = {e.approval: e.rule or "no rule" for e in events if isinstance(e, ApprovalRequested)}
    answers = [each for each in events if isinstance(each, ApprovalAnswered)]
    asked = Counter(rules.values())
    approved = Counter(
        rules[each.approval] for each in answers if each.approved and each.approval in rules
    )
    return [
        ("approvals", f"{rule}: asked {count}×, approved {approved[rule]}×")
        for rule, count in asked.most_common(MAX_NAMES)
    ]


def render_lines(title: str, lines: Lines) -> str:
    return "\n".join([title, *(f"{name}: {visible_line(text, 300)}" for name, text in lines)])
