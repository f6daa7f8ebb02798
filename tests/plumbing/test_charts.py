"""Charts as SVG: valid whatever the data is, without styles of their own, with text for all."""

from math import inf, nan
from xml.etree import ElementTree

import pytest

from hermes.plumbing.charts import (
    ChartNode,
    ChartSeries,
    arrange_layers,
    bar_chart,
    layer_chart,
    line_chart,
    sparkline,
)

HOSTILE = '<script>alert("x")</script>&\u202eevil'


def parse(chart: str) -> ElementTree.Element:
    root = ElementTree.fromstring(chart)
    assert "style" not in {name for each in root.iter() for name in each.attrib}
    return root


def percents(root: ElementTree.Element) -> list[float]:
    return [float(each.get("cx", "").rstrip("%")) for each in root.iter("circle")]


def test_a_point_stands_where_its_value_and_its_label_are() -> None:
    series = [ChartSeries("a", [1.0, None, 100.0], [None, None, 1000.0], ["", "", "3 incidents"])]
    root = parse(line_chart("t", ["x", "y", "z"], series, logarithmic=True))
    points = list(root.iter("circle"))
    assert len(points) == 2 and percents(root) == [15.0, 97.0]
    assert float(points[0].get("cy", "")) > float(points[1].get("cy", ""))
    assert points[1].findtext("title") == "z, a: 100 (3 incidents)"
    assert len([each for each in root.iter("line") if each.get("class") == "line"]) == 0
    assert len([each for each in root.iter("line") if each.get("class") == "spread"]) == 1


@pytest.mark.parametrize("values", [[], [None], [nan, inf], [None, None]])
def test_without_a_number_there_is_no_chart(values: list[float | None]) -> None:
    assert line_chart("t", ["x"] * len(values), [ChartSeries("a", values)]) == ""
    assert sparkline("t", [value for value in values if value is not None]) == ""
    assert bar_chart("t", [("a", value) for value in values if value is not None]) == ""


@pytest.mark.parametrize(
    "values", [[0.0], [5.0], [0.0, 0.0], [1e-9, 1e30], [-3.0, 2.0], [nan, 1.0]]
)
@pytest.mark.parametrize("logarithmic", [True, False])
def test_extreme_values_stay_inside(values: list[float], logarithmic: bool) -> None:
    labels = [str(index) for index in range(len(values))]
    ticks = (1.0, 1e30)
    drawn = line_chart(
        "t", labels, [ChartSeries("a", values)], ticks=ticks, logarithmic=logarithmic
    )
    heights = [float(each.get("cy", "")) for each in parse(drawn).iter("circle")]
    assert heights and all(24 <= height <= 212 for height in heights)
    parse(sparkline("t", values))
    if max(values) > 0:
        parse(bar_chart("t", [("a", value) for value in values]))


def test_few_labels_are_shown_at_equal_distances_with_the_last() -> None:
    labels = [f"w{index}" for index in range(26)]
    root = parse(line_chart("t", labels, [ChartSeries("a", [1.0] * 26)]))
    shown = [each.text for each in root.iter("text") if (each.text or "").startswith("w")]
    assert shown == ["w4", "w11", "w18", "w25"]


def test_no_text_becomes_markup() -> None:
    nodes = [ChartNode(HOSTILE, "fine", f"/x?{HOSTILE}"), ChartNode("b", "fine")]
    drawn = [
        line_chart(HOSTILE, [HOSTILE], [ChartSeries(HOSTILE, [1.0], notes=[HOSTILE])]),
        bar_chart(HOSTILE, [(HOSTILE, 2.0)]),
        sparkline(HOSTILE, [1.0]),
        layer_chart(HOSTILE, nodes, [(HOSTILE, "b")]),
    ]
    for chart in drawn:
        assert "<script" not in chart
        assert parse(chart).get("aria-label") == HOSTILE


def test_what_needs_others_stands_left_of_them() -> None:
    links = [("web", "shop"), ("shop", "db"), ("web", "db")]
    assert arrange_layers(["db", "shop", "web", "alone"], links) == [["web"], ["shop"], ["db"]]
    root = parse(layer_chart("t", [ChartNode(n) for n in ("db", "shop", "web")], links))
    left = {each.findtext("title"): float(each.find("rect").get("x")) for each in root.iter("g")}  # type: ignore[union-attr, arg-type]
    assert left["web: fine"] < left["shop: fine"] < left["db: fine"]


def test_services_that_need_each_other_are_drawn_all_the_same() -> None:
    links = [("a", "b"), ("b", "a"), ("b", "c")]
    layers = arrange_layers(["a", "b", "c"], links)
    assert sorted(name for layer in layers for name in layer) == ["a", "b", "c"]
    parse(layer_chart("t", [ChartNode(name) for name in "abc"], links))
    assert layer_chart("t", [ChartNode("a")], []) == ""
