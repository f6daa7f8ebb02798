"""The pages of drills: all scenarios with their scores, and one with its drills."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from markupsafe import Markup

from hermes.plumbing.charts import ChartSeries, line_chart, sparkline
from hermes.plumbing.http_service import HttpRequest
from hermes.web.api_routes import UnknownIdError
from hermes.web.pages import MAX_ROWS, Page, PageContext, PageSet, Visitor
from hermes.web.pages.paging import cut_page, query_text
from hermes.web.templating import embed_drawing

SCORE_TICKS = (0.25, 0.5, 0.75, 1.0)


class DrillViews(Protocol):
    """Methods may raise `HermesError`."""

    async def scenarios(self, *, words: str = "") -> Sequence[Mapping[str, Any]]: ...

    async def scenario(self, name: str) -> Mapping[str, Any] | None:
        """Return None where there is none."""
        ...


def drill_pages(views: DrillViews) -> PageSet:
    async def show_all(request: HttpRequest, visitor: Visitor) -> PageContext:
        words = query_text(request, "q")
        every = await views.scenarios(words=words)
        part = cut_page(every, request, MAX_ROWS)
        return {
            "scenarios": [{**each, "line": _trend_line(each)} for each in part.rows],
            "older": part.older,
            "words": words,
            "every": len(every),
            "played": sum(bool(each["played"]) for each in every),
        }

    async def show(request: HttpRequest, visitor: Visitor) -> PageContext:
        name = request.params["name"]
        found = await views.scenario(name)
        if found is None:
            raise UnknownIdError(f"there is no scenario {name!r}; see: hermes drill list")
        return {"scenario": found, "chart": _score_chart(found["drills"])}

    live = ("drill.ended",)
    return PageSet(
        pages=[
            Page("drills", "/drills", "drills.html", show_all, live=live),
            Page("drills", "/drills/{name}", "drill.html", show, live=live),
        ]
    )


def _trend_line(scenario: Mapping[str, Any]) -> Markup:
    scores = scenario["trend"]
    text = ", ".join(f"{each:.2f}" for each in scores)
    return embed_drawing(sparkline(f"Scores: {text}", scores, longest=1.0))


def _score_chart(drills: Sequence[Mapping[str, Any]]) -> Markup:
    scored = [each for each in reversed(drills) if not each["void"]]
    series = ChartSeries("score", [each["reward"] for each in scored])
    drawn = line_chart(
        "Scores of the drills",
        [each["at"][5:10] for each in scored],
        [series],
        format_value="{:.2f}".format,
        ticks=SCORE_TICKS,
    )
    return embed_drawing(drawn)
