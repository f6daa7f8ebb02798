"""The bench as a picture: bars with their intervals, for a file and for a terminal."""

from collections.abc import Sequence
from html import escape

from hermes.gym.bench import Standing

_LEFT, _WIDTH, _ROW, _TOP = 230, 520, 44, 70
_COLOURS = ("#2563a8", "#8fb8de")
_BAR = 40


def svg(standings: Sequence[Standing], title: str) -> str:
    """Resolved drills and mean reward of each agent, with the interval of 95 of 100."""
    height = _TOP + _ROW * len(standings) + 50
    body = "\n".join(_row(place, each) for place, each in enumerate(standings))
    axis = "\n".join(_tick(share / 4, height) for share in range(5))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 60}" \
height="{height}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="white"/>
<text x="16" y="26" font-size="16" font-weight="bold">{escape(title)}</text>
<rect x="16" y="38" width="12" height="12" fill="{_COLOURS[0]}"/><text x="34" y="49">resolved</text>
<rect x="110" y="38" width="12" height="12" fill="{_COLOURS[1]}"/>\
<text x="128" y="49">mean reward</text>
{axis}
{body}
</svg>
"""


def _tick(share: float, height: int) -> str:
    x, bottom = _LEFT + share * _WIDTH, height - 36
    return (
        f'<line x1="{x:.0f}" y1="{_TOP - 8}" x2="{x:.0f}" y2="{bottom}" stroke="#dddddd"/>'
        f'<text x="{x:.0f}" y="{bottom + 18}" text-anchor="middle">{share:.0%}</text>'
    )


def _row(place: int, each: Standing) -> str:
    y = _TOP + place * _ROW
    bars = (
        (each.resolved, each.resolved_interval, y, _COLOURS[0]),
        (each.reward, each.reward_interval, y + 16, _COLOURS[1]),
    )
    return f'<text x="16" y="{y + 19}">{escape(each.agent[:34])}</text>' + "".join(
        _bar(share, interval, top, colour) for share, interval, top, colour in bars
    )


def _bar(share: float, interval: tuple[float, float], top: int, colour: str) -> str:
    low, high = (_LEFT + bound * _WIDTH for bound in interval)
    return (
        f'<rect x="{_LEFT}" y="{top}" width="{share * _WIDTH:.1f}" height="13" fill="{colour}"/>'
        f'<line x1="{low:.1f}" y1="{top + 6.5}" x2="{high:.1f}" y2="{top + 6.5}" '
        'stroke="black" stroke-width="1.5"/>'
    )


def terminal(standings: Sequence[Standing]) -> str:
    """The same in characters: what is sure is full, what may be is light."""
    width = max((len(each.agent) for each in standings), default=0)
    lines = []
    for each in standings:
        low, high = (round(bound * _BAR) for bound in each.resolved_interval)
        bar = "█" * low + "▒" * (high - low) + "·" * (_BAR - high)
        lines.append(f"{each.agent:<{width}}  {bar}  {each.resolved:4.0%} of {each.drills}")
    return "\n".join(lines)
