"""Draws charts as SVG: colours by class, positions in percent, so that text keeps its size.

Every chart has a title for screen readers. The classes are styled by the page; `standalone` adds
colours for a separate file.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from math import isfinite, log10
from typing import TypeGuard

CHART_HEIGHT_PX = 240
_TOP_PX, _BOTTOM_PX = 24, 28
_LEFT_PERCENT, _RIGHT_PERCENT = 15.0, 97.0
MAX_AXIS_LABELS = 5
MAX_SERIES = 4
MAX_LABEL_CHARS = 60
NODE_WIDTH_PX, NODE_HEIGHT_PX = 168, 36
NODE_GAP_X_PX, NODE_GAP_Y_PX = 76, 16
MAX_NODE_CHARS = 20
STANDALONE_STYLE = """
text { font: 12px sans-serif; fill: #333 } .grid { stroke: #ddd }
.series-0 { stroke: #2563a8; fill: #2563a8 } .series-1 { stroke: #d08a2e; fill: #d08a2e }
.line { stroke-width: 2 } .spread { stroke-opacity: 0.5 }
"""


@dataclass(frozen=True)
class ChartSeries:
    name: str
    values: Sequence[float | None]
    """One for each label; None where there is none."""
    tops: Sequence[float | None] = ()
    """A thin bar goes from the value up to here."""
    notes: Sequence[str] = ()
    """What is shown for each point besides its value."""


@dataclass(frozen=True)
class ChartNode:
    name: str
    kind: str = "fine"
    """A class of the style: node-fine, node-failing."""
    href: str = ""


def line_chart(
    title: str,
    labels: Sequence[str],
    series: Sequence[ChartSeries],
    *,
    format_value: Callable[[float], str] = "{:g}".format,
    ticks: Sequence[float] = (),
    logarithmic: bool = False,
) -> str:
    """Lines over equal steps. Empty without a value: the page says what is missing."""
    series = list(series)[:MAX_SERIES]
    known = [value for each in series for value in (*each.values, *each.tops) if _is_number(value)]
    if not labels or not known:
        return ""
    longest = max(max(known), 1e-9)
    least = max(min((value for value in known if value > 0), default=longest) / 2, longest / 1e9)
    scale = partial(_logarithmic, least) if logarithmic else _linear
    shown = [tick for tick in ticks if (least if logarithmic else 0) < tick <= longest]
    shown = shown or [longest]
    grid = "".join(_grid_line(tick, scale(tick, longest), format_value) for tick in shown)
    lines = "".join(
        _render_series(index, each, labels, scale, longest, format_value)
        for index, each in enumerate(series)
    )
    return _frame(title, CHART_HEIGHT_PX, grid + lines + _axis_labels(labels))


def bar_chart(
    title: str,
    bars: Sequence[tuple[str, float]],
    *,
    format_value: Callable[[float], str] = "{:g}".format,
) -> str:
    """Horizontal bars, the label above each."""
    known = [(label, value) for label, value in bars if _is_number(value)]
    longest = max((value for _, value in known), default=0.0)
    if longest <= 0:
        return ""
    row_px, parts = 46, []
    for index, (label, value) in enumerate(known):
        y, width = index * row_px, max(0.5, 84.0 * max(value, 0.0) / longest)
        parts.append(
            f'<text class="bar-label" x="0" y="{y + 16}">{_clip(label, MAX_LABEL_CHARS)}</text>'
            f'<rect class="bar-mark" x="0" y="{y + 22}" width="{width:.2f}%" height="12" rx="3"/>'
            f'<text class="bar-value" x="100%" y="{y + 33}" text-anchor="end">'
            f"{escape(format_value(value))}</text>"
        )
    return _frame(title, row_px * len(known), "".join(parts))


def sparkline(title: str, values: Sequence[float], *, longest: float = 0.0) -> str:
    """A small line without axes, the newest value marked."""
    known = [value for value in values if _is_number(value)]
    if not known:
        return ""
    most = max(longest, *known, 1e-9)
    step = 92.0 / max(len(known) - 1, 1)
    points = [
        (4 + step * index, 21 - 18 * max(0.0, min(1.0, value / most)))
        for index, value in enumerate(known)
    ]
    if len(points) == 1:
        points = [(50.0, points[0][1])]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    return (
        f'<svg class="sparkline" viewBox="0 0 100 24" role="img" aria-label="{escape(title)}">'
        f'<polyline points="{path}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/></svg>'
    )


def layer_chart(title: str, nodes: Sequence[ChartNode], links: Iterable[tuple[str, str]]) -> str:
    """Return who needs whom, from left to right: what needs others stands left of them."""
    known = {node.name: node for node in nodes}
    pairs = [(one, other) for one, other in links if one in known and other in known]
    layers = arrange_layers(known, pairs)
    if not layers:
        return ""
    routes = _route_links(layers, pairs)
    places: dict[str, tuple[int, int]] = {}
    tallest = max(len(layer) for layer in layers)
    pitch = NODE_HEIGHT_PX + NODE_GAP_Y_PX
    for column, layer in enumerate(layers):
        offset = (tallest - len(layer)) * pitch // 2
        for row, name in enumerate(layer):
            places[name] = (column * (NODE_WIDTH_PX + NODE_GAP_X_PX) + 2, offset + row * pitch + 2)
    width = len(layers) * (NODE_WIDTH_PX + NODE_GAP_X_PX) - NODE_GAP_X_PX + 4
    height = tallest * pitch - NODE_GAP_Y_PX + 4
    lines = "".join(_render_link([places[name] for name in route]) for route in routes)
    boxes = "".join(
        _render_node(known[name], *place) for name, place in places.items() if name in known
    )
    return (
        f'<svg class="layers" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="group" aria-label="{escape(title)}">{lines}{boxes}</svg>'
    )


def arrange_layers(names: Iterable[str], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Names that take part in a link, by their distance from what nothing needs.

    Circles end at the number of names.
    """
    depth = {name: 0 for pair in links for name in pair}
    for _ in range(len(depth)):
        changed = False
        for one, other in links:
            if depth[other] <= depth[one] < len(depth) - 1:
                depth[other] = depth[one] + 1
                changed = True
        if not changed:
            break
    order = [name for name in names if name in depth]
    steps = sorted({depth[name] for name in order})
    return [[name for name in order if depth[name] == step] for step in steps]


def standalone(chart: str, title: str, legend: Mapping[str, str], width_px: int) -> str:
    """A chart as a separate file, with a title and a legend by class."""
    entries = "".join(
        f'<rect class="{kind}" x="{16 + 180 * index}" y="42" width="12" height="12"/>'
        f'<text x="{34 + 180 * index}" y="53">{escape(text)}</text>'
        for index, (kind, text) in enumerate(legend.items())
    )
    height = 70 + CHART_HEIGHT_PX
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width_px}" height="{height}">'
        f"<style>{STANDALONE_STYLE}</style>"
        '<rect width="100%" height="100%" fill="white"/>'
        f'<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>{entries}'
        f'<svg y="66" width="{width_px}" height="{CHART_HEIGHT_PX}">{chart}</svg></svg>\n'
    )


def _render_series(
    index: int,
    series: ChartSeries,
    labels: Sequence[str],
    scale: Callable[[float, float], float],
    longest: float,
    format_value: Callable[[float], str],
) -> str:
    parts, before = [], None
    for at, value in enumerate(series.values[: len(labels)]):
        if not _is_number(value):
            before = None
            continue
        x, y = _x(at, len(labels)), _y(scale(value, longest))
        if before is not None:
            parts.append(
                f'<line class="line" x1="{before[0]:.2f}%" y1="{before[1]:.1f}" '
                f'x2="{x:.2f}%" y2="{y:.1f}"/>'
            )
        top = series.tops[at] if at < len(series.tops) else None
        if _is_number(top):
            parts.append(
                f'<line class="spread" x1="{x:.2f}%" y1="{_y(scale(top, longest)):.1f}" '
                f'x2="{x:.2f}%" y2="{y:.1f}"/>'
            )
        note = f" ({series.notes[at]})" if at < len(series.notes) and series.notes[at] else ""
        text = f"{labels[at]}, {series.name}: {format_value(value)}{note}"
        parts.append(
            f'<circle class="point" cx="{x:.2f}%" cy="{y:.1f}" r="4">'
            f"<title>{escape(text)}</title></circle>"
        )
        before = (x, y)
    return f'<g class="series series-{index}">{"".join(parts)}</g>'


def _render_node(node: ChartNode, x: int, y: int) -> str:
    box = (
        f"<title>{escape(node.name)}: {escape(node.kind)}</title>"
        f'<rect x="{x}" y="{y}" width="{NODE_WIDTH_PX}" height="{NODE_HEIGHT_PX}" rx="8"/>'
        f'<circle cx="{x + 18}" cy="{y + NODE_HEIGHT_PX // 2}" r="5"/>'
        f'<text x="{x + 32}" y="{y + NODE_HEIGHT_PX // 2 + 5}">'
        f"{_clip(node.name, MAX_NODE_CHARS)}</text>"
    )
    kind = f'class="node node-{escape(node.kind)}"'
    if node.href:
        return f'<a {kind} href="{escape(node.href)}">{box}</a>'
    return f"<g {kind}>{box}</g>"


def _route_links(layers: list[list[str]], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The names along each link; one over several layers gets an empty place in each between."""
    column = {name: at for at, layer in enumerate(layers) for name in layer}
    routes = []
    for one, other in dict.fromkeys(links):
        between = [f"{one}\0{other}\0{at}" for at in range(column[one] + 1, column[other])]
        for at, name in enumerate(between, column[one] + 1):
            layers[at].append(name)
        routes.append([one, *between, other])
    return routes


def _render_link(places: Sequence[tuple[int, int]]) -> str:
    """A curve through the middle of each place; the places between hold nothing else."""
    half = NODE_HEIGHT_PX // 2
    x, y = places[0][0] + NODE_WIDTH_PX, places[0][1] + half
    path = [f"M{x} {y}"]
    for at, (left, top) in enumerate(places[1:], 1):
        last = at == len(places) - 1
        to_x, to_y = left - 6 if last else left, top + half
        bend = max(24, abs(to_x - x) // 2)
        path.append(f"C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}")
        x, y = to_x, to_y
        if not last:
            x += NODE_WIDTH_PX
            path.append(f"L{x} {y}")
    return (
        f'<path class="link" d="{" ".join(path)}"/>'
        f'<path class="arrow" d="M{x - 2} {y - 4} L{x + 5} {y} L{x - 2} {y + 4} z"/>'
    )


def _frame(title: str, height: int, body: str) -> str:
    return (
        f'<svg class="chart" width="100%" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def _grid_line(value: float, share: float, format_value: Callable[[float], str]) -> str:
    y = _y(share)
    return (
        f'<line class="grid" x1="0" y1="{y:.1f}" x2="100%" y2="{y:.1f}"/>'
        f'<text class="tick" x="0" y="{y - 4:.1f}">{escape(format_value(value))}</text>'
    )


def _axis_labels(labels: Sequence[str]) -> str:
    """At most `MAX_AXIS_LABELS` at equal distances, with the last."""
    count = len(labels)
    stride = max(1, -(-(count - 1) // (MAX_AXIS_LABELS - 1)))
    parts = []
    for index in range((count - 1) % stride, count, stride):
        last = index == count - 1 and count > 1
        x, anchor = (100.0, "end") if last else (_x(index, count), "middle")
        parts.append(
            f'<text class="tick" x="{x:.2f}%" y="{CHART_HEIGHT_PX - 6}" '
            f'text-anchor="{anchor}">{_clip(labels[index], 16)}</text>'
        )
    return "".join(parts)


def _clip(text: str, max_chars: int) -> str:
    return escape(text if len(text) <= max_chars else f"{text[: max_chars - 1]}…")


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and isfinite(value)


def _logarithmic(least: float, value: float, longest: float) -> float:
    """`least` is at the bottom, and is smaller than `longest`."""
    share = log10(max(value, least) / least) / log10(longest / least)
    return max(0.0, min(1.0, share))


def _linear(value: float, longest: float) -> float:
    return max(0.0, min(1.0, value / longest))


def _x(index: int, count: int) -> float:
    if count == 1:
        return 50.0
    return _LEFT_PERCENT + (_RIGHT_PERCENT - _LEFT_PERCENT) * index / (count - 1)


def _y(share: float) -> float:
    return _TOP_PX + (CHART_HEIGHT_PX - _TOP_PX - _BOTTOM_PX) * (1.0 - share)
