"""Computes statistics of many incidents, and draws the time to repair by week."""

import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from math import log10

from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.plumbing.units import format_duration
from hermes.sre.reports.statements import incident_times, resolver_of

WITH_SKILLS, WITHOUT_SKILLS = "with skills", "without"
MAX_RECURRING = 10
_RESOLVER_KINDS = ("playbook", "model", "person", "nobody")
CHART_SERIES = (WITH_SKILLS, WITHOUT_SKILLS)
_BAR_CHARACTERS = {WITH_SKILLS: "█", WITHOUT_SKILLS: "░"}
_SERIES_COLOURS = {WITH_SKILLS: "#2563a8", WITHOUT_SKILLS: "#d08a2e"}
_BAR_WIDTH, _MAX_WEEKS = 40, 26
_LEFT_PX, _TOP_PX, _HEIGHT_PX, _STEP_PX, _BOTTOM_PX = 90, 80, 240, 56, 60


class DurationStatistics(Value, kw_only=True, frozen=True):
    """Seconds, of the incidents where they are known."""

    count: int = 0
    median: float | None = None
    p90: float | None = None


class WeekStatistics(Value, kw_only=True, frozen=True):
    """Times to repair of the incidents that were opened in the week from this Monday."""

    begins: date
    repaired: dict[str, DurationStatistics]
    """With skills, without skills, and by resolver."""


class RecurringIncident(Value, kw_only=True, frozen=True):
    fingerprint: str
    title: str
    times: int
    last_at: datetime
    by_skill: int = 0
    """How many of them a playbook resolved."""
    first: float | None = None
    """Seconds to repair the first and the last of them that were repaired."""
    last: float | None = None


class IncidentStatistics(Value, kw_only=True, frozen=True):
    incidents: int
    open: int
    """Unresolved: open or escalated."""
    severity: dict[str, int]
    outcome: dict[str, int]
    answered_by: dict[str, int]
    detect: DurationStatistics
    acknowledge: DurationStatistics
    repair: DurationStatistics
    repaired_by: dict[str, DurationStatistics]
    weeks: tuple[WeekStatistics, ...]
    recurring: tuple[RecurringIncident, ...]


def compute_statistics(incidents: Sequence[Incident]) -> IncidentStatistics:
    times = [incident_times(each) for each in incidents]
    return IncidentStatistics(
        incidents=len(incidents),
        open=sum(each.unresolved for each in incidents),
        severity=_counts(each.severity for each in incidents),
        outcome=_counts(each.status for each in incidents),
        answered_by=_counts(resolver_of(each).by for each in incidents if each.closed is not None),
        detect=duration_statistics(each.detect for each in times),
        acknowledge=duration_statistics(each.acknowledge for each in times),
        repair=duration_statistics(each.repair for each in times),
        repaired_by=_by_resolver(incidents),
        weeks=_weeks(incidents),
        recurring=_recurring(incidents),
    )


def duration_statistics(seconds: Iterable[float | None]) -> DurationStatistics:
    known = sorted(each for each in seconds if each is not None)
    if not known:
        return DurationStatistics()
    return DurationStatistics(
        count=len(known), median=numbers.median(known), p90=_percentile(known, 0.9)
    )


def _percentile(known: Sequence[float], share: float) -> float:
    """Interpolated between the two nearest values."""
    index = share * (len(known) - 1)
    low = int(index)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (index - low)


def _by_resolver(incidents: Sequence[Incident]) -> dict[str, DurationStatistics]:
    groups: dict[str, list[float | None]] = defaultdict(list)
    for each in incidents:
        if (seconds := incident_times(each).repair) is not None:
            who = resolver_of(each).by
            groups[who].append(seconds)
            groups[WITH_SKILLS if who == "playbook" else WITHOUT_SKILLS].append(seconds)
    return {
        name: duration_statistics(groups[name])
        for name in (*_RESOLVER_KINDS, WITH_SKILLS, WITHOUT_SKILLS)
        if name in groups
    }


def _weeks(incidents: Sequence[Incident]) -> tuple[WeekStatistics, ...]:
    by_week: dict[date, list[Incident]] = defaultdict(list)
    for each in incidents:
        day = each.details.opened_at.astimezone(UTC).date()
        by_week[day - timedelta(days=day.weekday())].append(each)
    found = [
        WeekStatistics(begins=begins, repaired=_by_resolver(by_week[begins]))
        for begins in sorted(by_week)
    ]
    return tuple(week for week in found if week.repaired)


def _recurring(incidents: Sequence[Incident]) -> tuple[RecurringIncident, ...]:
    same: dict[str, list[Incident]] = defaultdict(list)
    for each in incidents:
        if each.details.fingerprint:
            same[each.details.fingerprint].append(each)
    found = [_recurring_incident(name, group) for name, group in same.items() if len(group) > 1]
    found.sort(key=lambda each: (each.times, each.last_at), reverse=True)
    return tuple(found[:MAX_RECURRING])


def _recurring_incident(fingerprint: str, group: Sequence[Incident]) -> RecurringIncident:
    repaired = [seconds for each in group if (seconds := incident_times(each).repair) is not None]
    return RecurringIncident(
        fingerprint=fingerprint,
        title=group[-1].details.title,
        times=len(group),
        last_at=group[-1].details.opened_at,
        by_skill=sum(resolver_of(each).by == "playbook" for each in group),
        first=repaired[0] if repaired else None,
        last=repaired[-1] if len(repaired) > 1 else None,
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def render_terminal_chart(statistics: IncidentStatistics) -> str:
    """A bar for each week and series, with the median on a logarithmic scale."""
    weeks = statistics.weeks[-_MAX_WEEKS:]
    if not weeks:
        return "no incident was repaired yet: there is nothing to draw"
    longest = max(_medians(weeks))
    lines = [f"median time to repair by week ({_BAR_CHARACTERS[WITH_SKILLS]} with skills, "
             f"{_BAR_CHARACTERS[WITHOUT_SKILLS]} without; the scale is logarithmic)"]  # fmt: skip
    for week in weeks:
        for name in CHART_SERIES:
            if (spread := week.repaired.get(name)) and spread.median is not None:
                length = max(1, round(_BAR_WIDTH * _log_share(spread.median, longest)))
                bar = _BAR_CHARACTERS[name] * length + " " * (_BAR_WIDTH - length)
                lines.append(
                    f"{week.begins}  {bar}  {format_duration(spread.median)} ({spread.count})"
                )
    return "\n".join(lines)


def render_svg_chart(statistics: IncidentStatistics, title: str = "Time to repair by week") -> str:
    """Medians as lines, with a bar up to the 90th percentile."""
    weeks = statistics.weeks[-_MAX_WEEKS:]
    longest = max(_medians(weeks, "p90"), default=1.0)
    width, height = _LEFT_PX + _STEP_PX * max(len(weeks), 6) + 40, _TOP_PX + _HEIGHT_PX + _BOTTOM_PX
    body = "\n".join(_render_series(weeks, name, longest) for name in CHART_SERIES)
    axis = "\n".join(_render_tick(seconds, longest, width) for seconds in _tick_seconds(longest))
    dates = "\n".join(_render_date(index, week) for index, week in enumerate(weeks))
    legend = "".join(
        f'<rect x="{16 + 130 * index}" y="42" width="12" height="12" '
        f'fill="{_SERIES_COLOURS[name]}"/>'
        f'<text x="{34 + 130 * index}" y="53">{_legend_text(name, statistics)}</text>'
        for index, name in enumerate(CHART_SERIES)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>
{legend}
{axis}
{body}
{dates}
</svg>
"""


def _render_series(weeks: Sequence[WeekStatistics], name: str, longest: float) -> str:
    points, marks = [], []
    for index, week in enumerate(weeks):
        spread = week.repaired.get(name, DurationStatistics())
        if spread.median is None or spread.p90 is None:
            continue
        x, y, top = _x(index), _y(spread.median, longest), _y(spread.p90, longest)
        points.append(f"{x:.1f},{y:.1f}")
        marks.append(
            f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{y:.1f}" '
            f'stroke="{_SERIES_COLOURS[name]}" stroke-opacity="0.5"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_SERIES_COLOURS[name]}">'
            f"<title>{name}: {format_duration(spread.median)} ({spread.count})</title></circle>"
        )
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{_SERIES_COLOURS[name]}"/>'
    return line + "".join(marks)


def _legend_text(name: str, statistics: IncidentStatistics) -> str:
    median = statistics.repaired_by.get(name, DurationStatistics()).median
    return f"{name} {format_duration(median)}" if median is not None else name


def _render_date(index: int, week: WeekStatistics) -> str:
    y = _TOP_PX + _HEIGHT_PX + 20
    return f'<text x="{_x(index):.1f}" y="{y}" text-anchor="middle">{week.begins:%d %b}</text>'


def _render_tick(seconds: float, longest: float, width: int) -> str:
    y = _y(seconds, longest)
    return (
        f'<line x1="{_LEFT_PX - 10}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" stroke="#dddddd"/>'
        f'<text x="{_LEFT_PX - 16}" y="{y + 4:.1f}" text-anchor="end">'
        f"{format_duration(seconds)}</text>"
    )


def _tick_seconds(longest: float) -> list[float]:
    steps = (1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
    return [step for step in steps if step <= longest] or [longest]


def _medians(weeks: Sequence[WeekStatistics], which: str = "median") -> list[float]:
    return [
        seconds
        for week in weeks
        for name, spread in week.repaired.items()
        if name in CHART_SERIES and (seconds := getattr(spread, which)) is not None
    ]


def _log_share(seconds: float, longest: float) -> float:
    """From 0 to 1 on a logarithmic scale."""
    return min(1.0, log10(1.0 + seconds) / log10(1.0 + max(longest, 1.0)))


def _x(index: int) -> float:
    return _LEFT_PX + _STEP_PX * (index + 0.5)


def _y(seconds: float, longest: float) -> float:
    return _TOP_PX + _HEIGHT_PX * (1.0 - _log_share(seconds, longest))
