"""The page Trends: how long repairs take, with and without skills, and what comes back."""

from collections.abc import Mapping, Sequence
from datetime import date
from http import HTTPStatus
from typing import Any, Protocol

from markupsafe import Markup

from hermes.plumbing.charts import ChartSeries, bar_chart, line_chart
from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.plumbing.units import format_duration, ordinal
from hermes.web.pages import Page, PageContext, PageSet, Visitor
from hermes.web.pages.paging import query_text
from hermes.web.templating import embed_drawing

PERIODS = {4: "4 weeks", 13: "3 months", 26: "6 months", 52: "1 year"}
DEFAULT_WEEKS = 13
DURATION_TICKS_S = (10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
MAX_TICKS = 3
MAX_BARS = 8
MIN_COMPARED_REPAIRS = 3
"""Of each kind, so that one lucky repair is no trend."""


class TrendViews(Protocol):
    async def trends(self, *, weeks: int, service: str) -> Mapping[str, Any]:
        """May raise `HermesError`."""
        ...


def trend_pages(views: TrendViews) -> PageSet:
    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        text = request.query.get("weeks", str(DEFAULT_WEEKS))
        weeks = next((each for each in PERIODS if str(each) == text), 0)
        if not weeks:
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, "there is no such period")
        service = query_text(request, "service")
        found = await views.trends(weeks=weeks, service=service)
        return {
            "trends": found,
            "periods": PERIODS,
            "period": weeks,
            "service": service,
            "faster": _faster(found),
            "repair_chart": _repair_chart(found["weeks"]),
            "learning_chart": _learning_chart(found["learning"]),
            "count_chart": _count_chart(found["weeks"]),
            "recurring_chart": _recurring_chart(found["recurring"]),
        }

    page = Page("trends", "/trends", "trends.html", show, live=("incident.closed",))
    return PageSet(pages=[page])


def _faster(found: Mapping[str, Any]) -> float | None:
    """Return how many times faster repairs with skills are; None where there are too few to
    compare."""
    fast, slow = found["with_skills"], found["without_skills"]
    if min(fast["count"], slow["count"]) < MIN_COMPARED_REPAIRS:
        return None
    return slow["median"] / fast["median"] if fast["median"] and slow["median"] else None


def _repair_chart(weeks: Sequence[Mapping[str, Any]]) -> Markup:
    names = {"with skills": "with_skills", "without": "without_skills"}
    series = [
        ChartSeries(
            name,
            [week[key]["median"] for week in weeks],
            [week[key]["p90"] for week in weeks],
            [f"{week[key]['count']} incidents" for week in weeks],
        )
        for name, key in names.items()
    ]
    return _line_chart("Median time to repair by week", _dates(weeks), series, durations=True)


def _learning_chart(steps: Sequence[Mapping[str, Any]]) -> Markup:
    series = ChartSeries(
        "time to repair",
        [step["repair"]["median"] for step in steps],
        [step["repair"]["p90"] for step in steps],
        [f"{step['repair']['count']} faults" for step in steps],
    )
    labels = [f"{ordinal(step['nth'])} time" for step in steps]
    title = "Median time to repair at the nth time of a fault"
    return _line_chart(title, labels, [series], durations=True)


def _count_chart(weeks: Sequence[Mapping[str, Any]]) -> Markup:
    names = {"incidents": "incidents", "seen before": "repeated"}
    series = [ChartSeries(name, [week[key] for week in weeks]) for name, key in names.items()]
    return _line_chart("Incidents by week", _dates(weeks), series, durations=False)


def _recurring_chart(recurring: Sequence[Mapping[str, Any]]) -> Markup:
    bars = [(each["title"], float(each["times"])) for each in recurring[:MAX_BARS]]
    return embed_drawing(bar_chart("Faults that came back", bars, format_value="{:g} ×".format))


def _line_chart(
    title: str, labels: Sequence[str], series: Sequence[ChartSeries], *, durations: bool
) -> Markup:
    known = [value for each in series for value in each.values if value is not None]
    longest = max(known, default=0.0)
    steps = DURATION_TICKS_S if durations else (-(-longest // 2), longest)
    drawn = line_chart(
        title,
        labels,
        series,
        format_value=format_tick if durations else "{:g}".format,
        ticks=[tick for tick in steps if tick <= longest][-MAX_TICKS:],
        logarithmic=durations,
    )
    return embed_drawing(drawn)


def format_tick(seconds: float) -> str:
    """`10 min` instead of `10 min 0 s`."""
    return format_duration(seconds).removesuffix(" 0 s").removesuffix(" 0 min").removesuffix(" 0 h")


def _dates(weeks: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{date.fromisoformat(week['begins']):%d %b}" for week in weeks]
