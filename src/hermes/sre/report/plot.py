"""Time to repair, week by week, with and without skills: for a terminal and for a file."""

from collections.abc import Sequence
from html import escape
from math import log10

from hermes.sre.report.statistics import WITH_SKILLS, WITHOUT, Spread, Statistics, Week
from hermes.sre.report.times import lasting

SERIES = (WITH_SKILLS, WITHOUT)
_MARKS = {WITH_SKILLS: "█", WITHOUT: "░"}
_COLOURS = {WITH_SKILLS: "#2563a8", WITHOUT: "#d08a2e"}
_BAR, _WEEKS = 40, 26
_LEFT, _TOP, _HEIGHT, _STEP, _BOTTOM = 90, 80, 240, 56, 60


def terminal(told: Statistics) -> str:
    """A bar a week and kind, as long as the median on a scale of powers of ten."""
    weeks = told.weeks[-_WEEKS:]
    if not weeks:
        return "nothing was repaired yet: there is nothing to draw"
    longest = max(_medians(weeks))
    lines = [f"median time to repair by week ({_MARKS[WITH_SKILLS]} with skills, "
             f"{_MARKS[WITHOUT]} without; the scale is logarithmic)"]  # fmt: skip
    for week in weeks:
        for name in SERIES:
            if (spread := week.repaired.get(name)) and spread.median is not None:
                length = max(1, round(_BAR * _share(spread.median, longest)))
                bar = _MARKS[name] * length + " " * (_BAR - length)
                lines.append(f"{week.begins}  {bar}  {lasting(spread.median)} ({spread.count})")
    return "\n".join(lines)


def svg(told: Statistics, title: str = "Time to repair by week") -> str:
    """Medians as lines, with the span up to nine of ten above each."""
    weeks = told.weeks[-_WEEKS:]
    longest = max(_medians(weeks, "p90"), default=1.0)
    width, height = _LEFT + _STEP * max(len(weeks), 6) + 40, _TOP + _HEIGHT + _BOTTOM
    body = "\n".join(_series(weeks, name, longest) for name in SERIES)
    axis = "\n".join(_tick(seconds, longest, width) for seconds in _ticks(longest))
    dates = "\n".join(_date(place, week) for place, week in enumerate(weeks))
    legend = "".join(
        f'<rect x="{16 + 130 * place}" y="42" width="12" height="12" fill="{_COLOURS[name]}"/>'
        f'<text x="{34 + 130 * place}" y="53">{_named(name, told)}</text>'
        for place, name in enumerate(SERIES)
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


def _series(weeks: Sequence[Week], name: str, longest: float) -> str:
    points, marks = [], []
    for place, week in enumerate(weeks):
        spread = week.repaired.get(name, Spread())
        if spread.median is None or spread.p90 is None:
            continue
        x, y, top = _x(place), _y(spread.median, longest), _y(spread.p90, longest)
        points.append(f"{x:.1f},{y:.1f}")
        marks.append(
            f'<line x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{y:.1f}" '
            f'stroke="{_COLOURS[name]}" stroke-opacity="0.5"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_COLOURS[name]}">'
            f"<title>{name}: {lasting(spread.median)} ({spread.count})</title></circle>"
        )
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{_COLOURS[name]}"/>'
    return line + "".join(marks)


def _named(name: str, told: Statistics) -> str:
    median = told.repaired_by.get(name, Spread()).median
    return f"{name} {lasting(median)}" if median is not None else name


def _date(place: int, week: Week) -> str:
    y = _TOP + _HEIGHT + 20
    return f'<text x="{_x(place):.1f}" y="{y}" text-anchor="middle">{week.begins:%d %b}</text>'


def _tick(seconds: float, longest: float, width: int) -> str:
    y = _y(seconds, longest)
    return (
        f'<line x1="{_LEFT - 10}" y1="{y:.1f}" x2="{width - 20}" y2="{y:.1f}" stroke="#dddddd"/>'
        f'<text x="{_LEFT - 16}" y="{y + 4:.1f}" text-anchor="end">{lasting(seconds)}</text>'
    )


def _ticks(longest: float) -> list[float]:
    steps = (1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0, 864_000.0)
    return [step for step in steps if step <= longest] or [longest]


def _medians(weeks: Sequence[Week], which: str = "median") -> list[float]:
    return [
        seconds
        for week in weeks
        for name, spread in week.repaired.items()
        if name in SERIES and (seconds := getattr(spread, which)) is not None
    ]


def _share(seconds: float, longest: float) -> float:
    """From 0 to 1 on a scale of powers of ten: seconds and hours both want to be seen."""
    return min(1.0, log10(1.0 + seconds) / log10(1.0 + max(longest, 1.0)))


def _x(place: int) -> float:
    return _LEFT + _STEP * (place + 0.5)


def _y(seconds: float, longest: float) -> float:
    return _TOP + _HEIGHT * (1.0 - _share(seconds, longest))
