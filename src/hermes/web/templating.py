"""Templates and static files of the dashboard. Only this module knows Jinja2."""

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

FOLDER = Path(__file__).parent
STATIC_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
SECONDS_SHOWN_BELOW_S = 600


class TemplateSet:
    """All templates: HTML is escaped, and a name that is not given is an error."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=reveal_controls,
        )
        self._environment.filters |= {
            "moment": as_moment,
            "clock": format_clock,
            "ago": format_ago,
            "ago_time": partial(_mark_time, kind="ago", write=format_ago),
            "clock_time": partial(_mark_time, kind="clock", write=format_clock),
            "left": format_left,
            "since": format_since,
            "duration": format_duration,
            "commands": mark_commands,
        }
        self._environment.globals["static"] = static_address

    def render(self, template: str, context: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(context)


def reveal_controls(value: object) -> object:
    """Characters that could reorder or hide what a person reads are written as their codes."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    return value


def embed_drawing(svg: str) -> Markup:
    """A drawing that has escaped every text in it, for a template."""
    return Markup(reveal_controls(svg))


def mark_commands(text: str) -> Markup:
    """A sentence of ours as HTML: it begins with a capital, and `what is quoted` is code."""
    shown = str(reveal_controls(text))
    pieces = (shown[:1].upper() + shown[1:]).split("`")
    if len(pieces) % 2 == 0:  # a quote without its end
        return escape("`".join(pieces))
    quoted = (
        f"<code>{escape(each)}</code>" if n % 2 else escape(each) for n, each in enumerate(pieces)
    )
    return Markup("").join(map(Markup, quoted))


def read_static(name: str) -> tuple[bytes, str] | None:
    """Content and type of a static file; None when there is no such file."""
    path = FOLDER / "static" / name
    if "/" in name or path.suffix not in STATIC_TYPES or not path.is_file():
        return None
    return path.read_bytes(), STATIC_TYPES[path.suffix]


@cache
def static_address(name: str) -> str:
    """With a digest of its content, so that a browser may keep the file for ever."""
    found = read_static(name)
    assert found is not None, name
    return f"/static/{name}?v={hashlib.sha256(found[0]).hexdigest()[:12]}"


def as_moment(value: datetime | str) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC)


def format_clock(value: datetime | str) -> str:
    """The time of day, with the date unless it is today's."""
    moment = as_moment(value)
    today = moment.date() == datetime.now(UTC).date()
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")


def format_ago(value: datetime | str) -> str:
    seconds = (datetime.now(UTC) - as_moment(value)).total_seconds()
    return f"in {_format_age(-seconds)}" if seconds < 0 else f"{_format_age(seconds)} ago"


def _mark_time(value: datetime | str, *, kind: str, write: Callable[[datetime], str]) -> Markup:
    """The time as a person reads it, the exact one behind it. Not a macro: pages have hundreds."""
    at = as_moment(value)
    exact = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup(f'<time datetime="{at}" data-{kind} title="{exact}">{write(at)}</time>')


def format_since(value: datetime | str) -> str:
    return _format_age(max(0.0, (datetime.now(UTC) - as_moment(value)).total_seconds()))


def format_left(value: datetime | str) -> str:
    """Minutes and seconds until then, as a countdown shows them."""
    seconds = max(0, int((as_moment(value) - datetime.now(UTC)).total_seconds()))
    if seconds >= HOUR_S:
        return format_duration(seconds)
    return f"{seconds // MINUTE_S}:{seconds % MINUTE_S:02}"


def format_duration(seconds: float | None) -> str:
    """A measured time: like an age, but with the seconds of some minutes: 1 min 10 s."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), MINUTE_S)
    if rest and MINUTE_S <= round(seconds) < SECONDS_SHOWN_BELOW_S:
        return f"{minutes} min {rest} s"
    return _format_age(seconds)


def _format_age(seconds: float) -> str:
    """Rounded to two units at most: 42 s, 7 min, 3 h 20 min, 5 d 4 h."""
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min"
    if whole < DAY_S:
        hours, minutes = divmod(whole // MINUTE_S, 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(whole // HOUR_S, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
