"""Computes statistics of many incidents, and draws the time to repair by week."""

import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import log10

from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.plumbing.charts import ChartSeries, line_chart, standalone
from hermes.plumbing.units import format_duration
from hermes.sre.reports.statements import incident_times, repair_seconds, resolver_of

WITH_SKILLS, WITHOUT_SKILLS = "with skills", "without"
MAX_RECURRING = 10
_RESOLVER_KINDS = ("playbook", "model", "person", "nobody")
CHART_SERIES = (WITH_SKILLS, WITHOUT_SKILLS)
_BAR_CHARACTERS = {WITH_SKILLS: "█", WITHOUT_SKILLS: "░"}
_BAR_WIDTH, _MAX_WEEKS, _WEEK_PX = 40, 26, 56
DURATION_TICKS_S = (1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)


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


class WeekTrend(Value, kw_only=True, frozen=True):
    """All incidents that were opened in the week from this Monday."""

    begins: date
    incidents: int
    repeated: int = 0
    """Their fault had been seen before."""
    false_alarms: int = 0
    by_skill: int = 0
    """Resolved by a playbook, without a model or a person."""
    detect: DurationStatistics = DurationStatistics()
    acknowledge: DurationStatistics = DurationStatistics()
    repair: DurationStatistics = DurationStatistics()
    repaired: dict[str, DurationStatistics] = {}
    """With skills, without skills, and by resolver."""


class LearningStep(Value, kw_only=True, frozen=True):
    """How long the repair took when a fault was met for the nth time."""

    nth: int
    repair: DurationStatistics
    by_skill: int = 0


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
        if (seconds := repair_seconds(each)) is not None:
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
        by_week[monday_of(each.details.opened_at)].append(each)
    found = [
        WeekStatistics(begins=begins, repaired=_by_resolver(by_week[begins]))
        for begins in sorted(by_week)
    ]
    return tuple(week for week in found if week.repaired)


def weekly_trends(incidents: Sequence[Incident], weeks: int) -> list[WeekTrend]:
    """The last weeks up to the last incident, also those without any."""
    by_week: dict[date, list[Incident]] = defaultdict(list)
    repeated: set[str] = set()
    seen: set[str] = set()
    for each in incidents:
        by_week[monday_of(each.details.opened_at)].append(each)
        if each.details.fingerprint in seen:
            repeated.add(each.details.incident)
        if each.details.fingerprint:
            seen.add(each.details.fingerprint)
    if not by_week:
        return []
    last, first = max(by_week), min(by_week)
    begins = [last - timedelta(weeks=back) for back in range(weeks - 1, -1, -1)]
    return [_week_trend(day, by_week.get(day, []), repeated) for day in begins if day >= first]


def _week_trend(begins: date, group: Sequence[Incident], repeated: set[str]) -> WeekTrend:
    times = [incident_times(each) for each in group]
    return WeekTrend(
        begins=begins,
        incidents=len(group),
        repeated=sum(each.details.incident in repeated for each in group),
        false_alarms=sum(each.status == "no-incident" for each in group),
        by_skill=sum(resolver_of(each).by == "playbook" for each in group),
        detect=duration_statistics(each.detect for each in times),
        acknowledge=duration_statistics(each.acknowledge for each in times),
        repair=duration_statistics(each.repair for each in times),
        repaired=_by_resolver(group),
    )


def learning_curve(incidents: Sequence[Incident], most: int = 10) -> list[LearningStep]:
    """The time to repair at the first, second … time of the same fault, over all faults."""
    met: Counter[str] = Counter()
    steps: dict[int, list[Incident]] = defaultdict(list)
    for each in incidents:
        if fingerprint := each.details.fingerprint:
            met[fingerprint] += 1
            steps[met[fingerprint]].append(each)
    repeated = {name for name, times in met.items() if times > 1}
    found = []
    for nth in range(1, most + 1):
        group = [each for each in steps[nth] if each.details.fingerprint in repeated]
        repair = duration_statistics(map(repair_seconds, group))
        if repair.count:
            by_skill = sum(resolver_of(each).by == "playbook" for each in group)
            found.append(LearningStep(nth=nth, repair=repair, by_skill=by_skill))
    return found


def monday_of(at: datetime) -> date:
    """The first day of its week (UTC)."""
    day = at.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def _recurring(incidents: Sequence[Incident]) -> tuple[RecurringIncident, ...]:
    same: dict[str, list[Incident]] = defaultdict(list)
    for each in incidents:
        if each.details.fingerprint:
            same[each.details.fingerprint].append(each)
    found = [_recurring_incident(name, group) for name, group in same.items() if len(group) > 1]
    found.sort(key=lambda each: (each.times, each.last_at), reverse=True)
    return tuple(found[:MAX_RECURRING])


def _recurring_incident(fingerprint: str, group: Sequence[Incident]) -> RecurringIncident:
    repaired = [seconds for each in group if (seconds := repair_seconds(each)) is not None]
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
    chart = line_chart(
        title,
        [f"{week.begins:%d %b}" for week in weeks],
        [_chart_series(weeks, name) for name in CHART_SERIES],
        format_value=format_duration,
        ticks=DURATION_TICKS_S,
        logarithmic=True,
    )
    legend = {
        f"series-{index}": _legend_text(name, statistics) for index, name in enumerate(CHART_SERIES)
    }
    return standalone(chart, title, legend, _WEEK_PX * max(len(weeks), 6) + 130)


def _chart_series(weeks: Sequence[WeekStatistics], name: str) -> ChartSeries:
    found = [week.repaired.get(name, DurationStatistics()) for week in weeks]
    return ChartSeries(
        name,
        [each.median for each in found],
        [each.p90 for each in found],
        [str(each.count) if each.count else "" for each in found],
    )


def _legend_text(name: str, statistics: IncidentStatistics) -> str:
    median = statistics.repaired_by.get(name, DurationStatistics()).median
    return f"{name} {format_duration(median)}" if median is not None else name


def _medians(weeks: Sequence[WeekStatistics]) -> list[float]:
    return [
        spread.median
        for week in weeks
        for name, spread in week.repaired.items()
        if name in CHART_SERIES and spread.median is not None
    ]


def _log_share(seconds: float, longest: float) -> float:
    """From 0 to 1 on a logarithmic scale."""
    return min(1.0, log10(1.0 + seconds) / log10(1.0 + max(longest, 1.0)))
