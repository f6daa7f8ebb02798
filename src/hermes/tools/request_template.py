"""Templates of HTTP requests: `{{name}}` becomes exactly one path segment, value or JSON scalar.

A value is encoded after the template was taken apart, so that no value becomes another segment,
parameter or key. `{{name/}}` keeps the slashes of a value, of which each piece is one segment.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote, urlencode

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.plumbing.units import parse_duration

_SLOT = re.compile(r"\{\{\s*([A-Za-z_]\w*)(/)?\s*(?:\|\s*([a-z_]+)\s*)?\}\}")
_SEPARATOR = re.compile(r"/(?!\s*(?:\|[^}]*)?\}\})")
"""A slash of a path, but not that of `{{name/}}`."""
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_RELATIVE_TIME = re.compile(r"now(?:\s*-\s*(.+))?")
_MATCHER = re.compile(r"\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_SELECTOR = re.compile(
    r'\{\s*[A-Za-z_]\w*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|`[^`]*`)[^{}"`]*'
    r'(?:(?:"(?:[^"\\]|\\.)*"|`[^`]*`)[^{}"`]*)*\}'
)
_MAX_POINTS = 11_000
"""The points of one series that Prometheus returns at most."""


class EstimateForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A cheap request that is sent first; the tool refuses what would be too expensive."""

    path: str
    query: dict[str, Any] = {}
    pick: str
    """Where the number is in the answer."""
    at_most: int
    what: str = "bytes"


class UndoForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The call that undoes the change; `{{answer.NAME}}` is a value of the answer."""

    tool: str
    arguments: dict[str, str] = {}


class RequestForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    system: str
    """The name below `systems` in the settings."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: str
    without: dict[str, str] = {}
    """The path to use instead when a parameter is not given."""
    query: dict[str, Any] = {}
    form: dict[str, Any] = {}
    json: Any = None
    reads: bool = False
    """Whether a POST of exactly this path only reads."""
    effect: Literal["", "write", "delete", "service-change"] = ""
    accept: str = "application/json"
    namespace: str = ""
    service: str = ""
    before: tuple[str, str] | None = None
    """Two times of which the first must be earlier."""
    estimate: EstimateForm | None = None
    undo: UndoForm | None = None

    def slots(self) -> Iterator[tuple[str, bool, str]]:
        """The name, whether its slashes are kept, and the filter, of each slot."""
        estimate = (self.estimate.path, self.estimate.query) if self.estimate else ()
        parts = (self.path, self.query, self.form, self.json, self.namespace, self.service)
        for text in _texts((*parts, *estimate)):
            for name, slashes, convert in _SLOT.findall(text):
                yield name, bool(slashes), convert

    def used_names(self) -> frozenset[str]:
        names = {name for name, _, convert in self.slots() if convert != "now"}
        for _, _, convert in self.slots():
            names.update(_ARGUMENTS_OF_FILTER.get(convert, ()))
        return frozenset(names | set(self.before or ()) | self.without.keys())


class RenderedRequest(Value, frozen=True):
    method: str
    path: str
    """With the query."""
    body: bytes = b""
    content_type: str = ""


def check_template(form: RequestForm) -> str:
    """Return what is wrong with the request, for the person who wrote it; empty when nothing is."""
    if not all(_is_plain_path(each) for each in (form.path, *form.without.values())):
        return "path begins with / and has no query: write that below query"
    if form.reads and form.effect:
        return "reads and effect exclude each other"
    if form.json is not None and form.form:
        return "a request has either form or json"
    if form.method in ("GET", "HEAD") and (form.form or form.json is not None):
        return f"{form.method} has no body: write its values below query"
    for name, slashes, convert in form.slots():
        if convert and convert not in _FILTERS:
            return f"{{{{{name}|{convert}}}}}: there are the filters {', '.join(sorted(_FILTERS))}"
        if slashes and f"{{{{{name}/}}}}" not in form.path:
            return f"{{{{{name}/}}}} is only for the path"
    return ""


def _is_plain_path(path: str) -> bool:
    return path.startswith("/") and not re.search(r"[?#]", path)


def render_request_template(
    form: RequestForm, arguments: Mapping[str, Any], now: datetime
) -> RenderedRequest:
    """Raises `ToolError` for a value that does not fit its place."""
    if form.before:
        first, second = (arguments.get(name) for name in form.before)
        if first is not None and second is not None:
            begin = read_time(form.before[0], first, now)
            if begin >= read_time(form.before[1], second, now):
                raise ToolError(f"{form.before[0]} must be before {form.before[1]}")
    missing = (each for name, each in form.without.items() if arguments.get(name) is None)
    path = render_path(next(missing, form.path), form.query, arguments, now)
    if form.form:
        body = _encode_pairs(render_value(form.form, arguments, now)).encode()
        return RenderedRequest(form.method, path, body, "application/x-www-form-urlencoded")
    if form.json is not None:
        body = msgspec.json.encode(render_value(form.json, arguments, now))
        return RenderedRequest(form.method, path, body, "application/json")
    return RenderedRequest(form.method, path)


def render_path(
    path: str, query: Mapping[str, Any], arguments: Mapping[str, Any], now: datetime
) -> str:
    segments = [_render_segment(each, arguments, now) for each in _SEPARATOR.split(path)]
    pairs = _encode_pairs(render_value(query, arguments, now))
    return "/".join(segments) + (f"?{pairs}" if pairs else "")


_OMITTED = object()
"""In place of a value that was not given: its key is left out."""


def render_value(template: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
    """The template with its slots filled; keys whose value was not given are left out."""
    if isinstance(template, Mapping):
        found = {key: render_value(each, arguments, now) for key, each in template.items()}
        return {key: each for key, each in found.items() if each is not _OMITTED}
    if isinstance(template, list):
        items = [render_value(each, arguments, now) for each in template]
        return [each for each in items if each is not _OMITTED]
    if not isinstance(template, str):
        return template
    whole = _SLOT.fullmatch(template)
    if whole:
        value = _slot_value(whole, arguments, now)
        return _OMITTED if value is None else value
    slots = list(_SLOT.finditer(template))
    values = [_slot_value(slot, arguments, now) for slot in slots]
    if any(value is None for value in values):
        return _OMITTED
    filled = iter(values)
    return _SLOT.sub(lambda slot: _plain_text(next(filled)), template)


def _render_segment(template: str, arguments: Mapping[str, Any], now: datetime) -> str:
    if not _SLOT.search(template):
        return template

    def fill(slot: re.Match[str]) -> str:
        value = _slot_value(slot, arguments, now)
        text = "" if value is None else _plain_text(value)
        pieces = text.split("/") if slot[2] else [text]
        for piece in pieces:
            if piece in ("", ".", "..") or _CONTROL_CHARACTER.search(piece):
                raise ToolError(f"{slot[1]}: {text!r} cannot be part of an address")
        return "/".join(quote(piece, safe="") for piece in pieces)

    return _SLOT.sub(fill, template)


def _slot_value(slot: re.Match[str], arguments: Mapping[str, Any], now: datetime) -> Any:
    name, convert = slot[1], slot[3]
    value = arguments.get(name)
    if isinstance(value, str) and "\0" in value:
        raise ToolError(f"{name} contains a zero byte")
    return _FILTERS[convert](name, value, arguments, now) if convert else value


def _encode_pairs(values: Mapping[str, Any]) -> str:
    pairs = []
    for key, value in values.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            pairs.append((key, _plain_text(each)))
    return urlencode(pairs)


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def read_time(name: str, value: Any, now: datetime) -> float:
    """Seconds since 1970 of `now`, `now-15m`, a time in ISO format or such a number."""
    text = str(value).strip()
    if relative := _RELATIVE_TIME.fullmatch(text):
        try:
            return now.timestamp() - (parse_duration(relative[1]) if relative[1] else 0)
        except ValueError as error:
            raise ToolError(f"{name}: {error}") from error
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(
            f"{name}: {text[:60]!r} is no time; write now, now-15m or 2026-03-01T10:00:00Z"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


Filter = Callable[[str, Any, Mapping[str, Any], datetime], Any]


def _time_filter(convert: Callable[[float], Any]) -> Filter:
    def apply(name: str, value: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
        return None if value is None else convert(read_time(name, value, now))

    return apply


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _step(name: str, value: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
    """Seconds between two points: as given, else so that `max_points` are returned."""
    begin, end = (read_time(each, arguments[each], now) for each in ("start", "end"))
    most = int(arguments.get("max_points") or 300)
    if value is None:
        return max(1, -int(-(end - begin) // most))
    try:
        step = parse_duration(str(value)) if not _is_number(value) else float(value)
    except ValueError as error:
        raise ToolError(f"{name}: {error}") from error
    if step <= 0 or (end - begin) / step > min(most, _MAX_POINTS):
        shortest = -int(-(end - begin) // most)
        raise ToolError(f"{name}: more than {most} points; the step must be at least {shortest}s")
    return step


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _matchers(name: str, value: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
    """Matchers of Alertmanager: `alertname=DiskFull`, `instance=~"db.*"`."""
    found = []
    for text in value or ():
        matched = _MATCHER.fullmatch(text)
        if matched is None or not matched[3].strip('"'):
            raise ToolError(f"{name}: {text!r} is no matcher; write alertname=DiskFull")
        compare = matched[2]
        found.append(
            {
                "name": matched[1],
                "value": matched[3].removeprefix('"').removesuffix('"'),
                "isRegex": compare.endswith("~"),
                "isEqual": not compare.startswith("!"),
            }
        )
    if not found or all(each["isRegex"] and each["value"] in (".*", ".+") for each in found):
        raise ToolError(f"{name}: they would match every alert; name at least one value")
    return found


def _selector(name: str, value: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
    """The selector of a LogQL query, without what follows it."""
    found = _SELECTOR.search(str(value))
    if found is None:
        raise ToolError(f'{name}: it needs a selector with a matcher, such as {{app="shop"}}')
    return found[0]


def _in_minutes(name: str, value: Any, arguments: Mapping[str, Any], now: datetime) -> Any:
    return _iso(now.timestamp() + 60 * float(value))


_FILTERS: Mapping[str, Filter] = {
    "time": _time_filter(lambda seconds: f"{seconds:.3f}"),
    "time_ms": _time_filter(lambda seconds: int(seconds * 1000)),
    "time_ns": _time_filter(lambda seconds: int(seconds * 1000) * 1_000_000),
    "time_iso": _time_filter(_iso),
    "in_minutes": _in_minutes,
    "matchers": _matchers,
    "now": lambda name, value, arguments, now: _iso(now.timestamp()),
    "selector": _selector,
    "step": _step,
}
_ARGUMENTS_OF_FILTER = {"step": ("start", "end", "max_points")}
