"""Computes statistics of many incidents, and draws the time to repair by week."""

import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from math import log10
from typing import NamedTuple

from hermes.core.incident import Incident
from hermes.core.messages import Value
from hermes.plumbing.charts import ChartSeries, line_chart, standalone
from hermes.plumbing.units import format_duration
from hermes.sre.reports.statements import IncidentTimes, incident_times, resolver_of

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
    duration: DurationStatistics
    """Of the incidents that were repaired, as the other times."""
    detect: DurationStatistics
    acknowledge: DurationStatistics
    repair: DurationStatistics
    repaired_by: dict[str, DurationStatistics]
    weeks: tuple[WeekStatistics, ...]
    recurring: tuple[RecurringIncident, ...]


class IncidentFigures(NamedTuple):
    """What statistics need of an incident, computed once."""

    incident: Incident
    times: IncidentTimes
    resolver: str
    week: date
    """The Monday of the week in which it was opened."""


def measure_incidents(incidents: Iterable[Incident]) -> list[IncidentFigures]:
    return [
        IncidentFigures(
            each, incident_times(each), resolver_of(each).by, monday_of(each.details.opened_at)
        )
        for each in incidents
    ]


def compute_statistics(incidents: Iterable[Incident]) -> IncidentStatistics:
    return summarize_figures(measure_incidents(incidents))


def summarize_figures(measured: Sequence[IncidentFigures]) -> IncidentStatistics:
    incidents = [each.incident for each in measured]
    return IncidentStatistics(
        incidents=len(incidents),
        open=sum(each.unresolved for each in incidents),
        severity=_counts(each.severity for each in incidents),
        outcome=_counts(each.status for each in incidents),
        answered_by=_counts(each.resolver for each in measured if each.incident.closed is not None),
        duration=duration_statistics(_durations(measured)),
        detect=duration_statistics(each.times.detect for each in measured),
        acknowledge=duration_statistics(each.times.acknowledge for each in measured),
        repair=duration_statistics(each.times.repair for each in measured),
        repaired_by=_by_resolver(measured),
        weeks=_weeks(measured),
        recurring=_recurring(measured),
    )


def _durations(measured: Sequence[IncidentFigures]) -> Iterator[float]:
    for each in measured:
        if each.times.repair is not None and (ended := each.incident.ended_at) is not None:
            yield each.incident.duration_s(ended)


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


def _by_resolver(measured: Sequence[IncidentFigures]) -> dict[str, DurationStatistics]:
    groups: dict[str, list[float | None]] = defaultdict(list)
    for each in measured:
        if (seconds := each.times.repair) is not None:
            groups[each.resolver].append(seconds)
            skilled = each.resolver == "playbook"
            groups[WITH_SKILLS if skilled else WITHOUT_SKILLS].append(seconds)
    return {
        name: duration_statistics(groups[name])
        for name in (*_RESOLVER_KINDS, WITH_SKILLS, WITHOUT_SKILLS)
        if name in groups
    }


def _by_week(measured: Sequence[IncidentFigures]) -> dict[date, list[IncidentFigures]]:
    by_week: dict[date, list[IncidentFigures]] = defaultdict(list)
    for each in measured:
        by_week[each.week].append(each)
    return by_week


def _weeks(measured: Sequence[IncidentFigures]) -> tuple[WeekStatistics, ...]:
    by_week = _by_week(measured)
    found = [
        WeekStatistics(begins=begins, repaired=_by_resolver(by_week[begins]))
        for begins in sorted(by_week)
    ]
    return tuple(week for week in found if week.repaired)


def weekly_trends(measured: Sequence[IncidentFigures], weeks: int) -> list[WeekTrend]:
    """The last weeks up to the last incident, also those without any."""
    repeated: set[str] = set()
    seen: set[str] = set()
    for each in measured:
        details = each.incident.details
        if details.fingerprint in seen:
            repeated.add(details.incident)
        if details.fingerprint:
            seen.add(details.fingerprint)
    if not (by_week := _by_week(measured)):
        return []
    last, first = max(by_week), min(by_week)
    begins = [last - timedelta(weeks=back) for back in range(weeks - 1, -1, -1)]
    return [_week_trend(day, by_week.get(day, []), repeated) for day in begins if day >= first]


def _week_trend(begins: date, group: Sequence[IncidentFigures], repeated: set[str]) -> WeekTrend:
    return WeekTrend(
        begins=begins,
        incidents=len(group),
        repeated=sum(each.incident.details.incident in repeated for each in group),
        false_alarms=sum(each.incident.status == "no-incident" for each in group),
        by_skill=_count_skilled(group),
        detect=duration_statistics(each.times.detect for each in group),
        acknowledge=duration_statistics(each.times.acknowledge for each in group),
        repair=duration_statistics(each.times.repair for each in group),
        repaired=_by_resolver(group),
    )


def _count_skilled(group: Iterable[IncidentFigures]) -> int:
    return sum(each.resolver == "playbook" for each in group)


def learning_curve(measured: Sequence[IncidentFigures], most: int = 10) -> list[LearningStep]:
    """The time to repair at the first, second … time of the same fault, over all faults."""
    met: Counter[str] = Counter()
    steps: dict[int, list[IncidentFigures]] = defaultdict(list)
    for each in measured:
        if fingerprint := each.incident.details.fingerprint:
            met[fingerprint] += 1
            steps[met[fingerprint]].append(each)
    repeated = {name for name, times in met.items() if times > 1}
    found = []
    for nth in range(1, most + 1):
        group = [each for each in steps[nth] if each.incident.details.fingerprint in repeated]
        repair = duration_statistics(each.times.repair for each in group)
        if repair.count:
            found.append(LearningStep(nth=nth, repair=repair, by_skill=_count_skilled(group)))
    return found


def monday_of(at: datetime) -> date:
    """The first day of its week (UTC)."""
    day = at.astimezone(UTC).date()
    return day - timedelta(days=day.weekday())


def _recurring(measured: Sequence[IncidentFigures]) -> tuple[RecurringIncident, ...]:
    same: dict[str, list[IncidentFigures]] = defaultdict(list)
    for each in measured:
        if fingerprint := each.incident.details.fingerprint:
            same[fingerprint].append(each)
    found = [_recurring_incident(name, group) for name, group in same.items() if len(group) > 1]
    found.sort(key=lambda each: (each.times, each.last_at), reverse=True)
    return tuple(found[:MAX_RECURRING])


def _recurring_incident(fingerprint: str, group: Sequence[IncidentFigures]) -> RecurringIncident:
    repaired = [seconds for each in group if (seconds := each.times.repair) is not None]
    last = group[-1].incident.details
    return RecurringIncident(
        fingerprint=fingerprint,
        title=last.title,
        times=len(group),
        last_at=last.opened_at,
        by_skill=_count_skilled(group),
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
