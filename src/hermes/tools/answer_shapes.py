"""Shapes answers of systems for a reader of about 2,000 tokens: series, log lines, tables.

What is left out is counted, so that the reader knows that there is more.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from hermes.core.errors import ToolError
from hermes.core.foreign_text import shorten_middle, visible_line, visible_text
from hermes.core.messages import Value

MAX_SHOWN_CHARS = 6_000
"""About 2,000 tokens of numbers and labels."""
MAX_VALUES = 300
MAX_SERIES, MAX_ROWS, MAX_TEMPLATES, MAX_LAST_LINES = 40, 60, 20, 20
MAX_LINE_CHARS = 300
MAX_COMPARED_LINES = 2_000
"""Lines that are compared with each other: a longer log would take seconds."""
_TREND_SHARE = 0.1
_INDEX = re.compile(r"-?\d{1,6}")
_VARIABLE_PARTS = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*"), "<time>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b(?:0x)?[0-9a-fA-F]{12,}\b"), "<hex>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)


class ShapeForm(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    pick: str = ""
    """The path of the part that counts, such as data.result; empty: all of it."""
    as_: Literal["series", "lines", "table", "values", "document", "text"] = msgspec.field(
        default="document", name="as"
    )
    columns: dict[str, str] = {}
    """For a table: heading and path of each column."""
    where: dict[str, str] = {}
    """For a table: only rows whose value at a path is that of a parameter, where it is given."""
    keep: dict[str, str] = {}
    """For a document: which parts of it are shown, by name and path; `[]` goes through a list."""


class ShapedAnswer(Value, frozen=True):
    text: str
    complete: bool
    """Whether all of the answer is in the text."""


def shape_answer(
    data: Any, form: ShapeForm, arguments: Mapping[str, Any] | None = None
) -> ShapedAnswer:
    """Raises `ToolError` that names the field when the answer is not as expected."""
    picked = _pick(data, form, arguments or {})
    match form.as_:
        case "series":
            shaped = _shape_series(_expect_list(picked, form.pick))
        case "lines":
            shaped = _shape_lines(_expect_list(picked, form.pick))
        case "table":
            shaped = _shape_table(_expect_list(picked, form.pick), form.columns)
        case "values":
            shaped = _shape_values(_expect_list(picked, form.pick))
        case "text":
            shaped = _shape_text(picked)
        case _:
            shaped = _shape_document(picked, form.keep)
    text = shaped.text
    if len(text) > MAX_SHOWN_CHARS:
        text = shorten_middle(text, MAX_SHOWN_CHARS, "characters left out")
        return ShapedAnswer(text, complete=False)
    return shaped


def _pick(data: Any, form: ShapeForm, arguments: Mapping[str, Any]) -> Any:
    if "[]" in form.pick:
        first = form.pick.partition("[]")[0]
        _expect_list(pick_value(data, first), first)
        picked: Any = collect_values(data, form.pick)
    else:
        picked = pick_value(data, form.pick)
    for path, name in form.where.items():
        wanted = arguments.get(name)
        if wanted is not None and isinstance(picked, list):
            picked = [row for row in picked if wanted in collect_values(row, path)]
    return picked


def pick_value(data: Any, path: str) -> Any:
    """Raises `ToolError` naming the first key that is not there."""
    value = data
    for key in filter(None, path.split(".")):
        if isinstance(value, list) and _has_index(value, key):
            value = value[int(key)]
        elif isinstance(value, Mapping) and key in value:
            value = value[key]
        else:
            there = ", ".join(list(value)[:12]) if isinstance(value, Mapping) else type(value)
            raise ToolError(
                f"the answer has no {path}: {key} is missing where there is {there or 'nothing'}; "
                "the system may have changed its format"
            )
    return value


def _has_index(values: list[Any], key: str) -> bool:
    return bool(_INDEX.fullmatch(key)) and -len(values) <= int(key) < len(values)


def collect_values(data: Any, path: str) -> list[Any]:
    """All values at a path whose `[]` goes through lists; parts that are missing give none."""
    values = [data]
    for key in filter(None, path.split(".")):
        name, through = key.removesuffix("[]"), key.endswith("[]")
        found = [each.get(name) for each in values if isinstance(each, Mapping)] if name else values
        values = [
            item
            for each in found
            for item in (each if through and isinstance(each, list) else [each])
            if item is not None
        ]
    return values


def _expect_list(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ToolError(f"{path or 'the answer'} is {type(value).__name__}, not a list")
    return value


def _shape_series(result: list[Any]) -> ShapedAnswer:
    if not result:
        return ShapedAnswer("no series match", complete=True)
    if not isinstance(result[0], Mapping):  # a scalar: [time, value]
        return ShapedAnswer(f"value {result[-1]}", complete=True)
    labels = [_labels_of(each) for each in result if isinstance(each, Mapping)]
    common = _common_labels(labels)
    lines = [f"{len(result):,} series"]
    if common:
        lines.append(f"all: {_labels_text(common)}")
    ranged = any("values" in each for each in result)
    for each, named in list(zip(result, labels, strict=False))[:MAX_SERIES]:
        own = {name: value for name, value in named.items() if name not in common}
        point = _point_text(each)
        lines.append(f"{_labels_text(own) or '(no labels of its own)'}{point and f': {point}'}")
    left = len(result) - MAX_SERIES
    if left > 0:
        lines.append(f"[{left:,} more series are not shown: narrow the query or aggregate]")
    return ShapedAnswer("\n".join(lines), complete=left <= 0 and not ranged)


def _labels_of(series: Mapping[str, Any]) -> dict[str, str]:
    """A list of series has only labels, without values."""
    labels = series.get("metric", {} if {"value", "values"} & series.keys() else series)
    return {str(name): str(value) for name, value in (labels or {}).items()}


def _common_labels(labels: Sequence[dict[str, str]]) -> dict[str, str]:
    if len(labels) < 2:
        return {}
    first = labels[0]
    return {k: v for k, v in first.items() if all(each.get(k) == v for each in labels)}


def _labels_text(labels: Mapping[str, str]) -> str:
    pairs = sorted(labels.items())
    return ", ".join(visible_line(f"{name}={value}", 120) for name, value in pairs)


def _point_text(series: Mapping[str, Any]) -> str:
    points = series.get("values")
    if not isinstance(points, list):
        value = series.get("value")
        return str(value[-1]) if isinstance(value, list) and value else ""
    numbers = [number for _, text in points if (number := _number(text)) is not None]
    if not numbers:
        return f"{len(points)} points, none of them a number"
    mean = sum(numbers) / len(numbers)
    return (
        f"last {numbers[-1]:g}, min {min(numbers):g}, max {max(numbers):g}, mean {mean:g}, "
        f"{_trend(numbers)} ({len(points)} points, {_clock(points[0][0])} to "
        f"{_clock(points[-1][0])})"
    )


def _number(text: Any) -> float | None:
    try:
        found = float(text)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _trend(numbers: Sequence[float]) -> str:
    third = max(1, len(numbers) // 3)
    begin, end = sum(numbers[:third]) / third, sum(numbers[-third:]) / third
    spread = max(abs(begin), abs(end), 1e-12)
    if len(numbers) < 3 or abs(end - begin) < _TREND_SHARE * spread:
        return "steady"
    return "rising" if end > begin else "falling"


def _clock(seconds: Any) -> str:
    try:
        return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (TypeError, ValueError, OverflowError, OSError):
        return "?"


def _shape_lines(result: list[Any]) -> ShapedAnswer:
    """Lines of a log, or streams of Loki: templates with counts, then the last lines."""
    if any(isinstance(each, Mapping) and "metric" in each for each in result):
        return _shape_series(result)  # a query that counts lines
    lines = sorted(_log_lines(result), key=lambda line: line[0])
    if not lines:
        return ShapedAnswer("no lines match", complete=True)
    groups: dict[str, list[str]] = {}
    for when, text in lines[-MAX_COMPARED_LINES:]:
        groups.setdefault(_line_template(text), []).append(when)
    compared = f" in the last {MAX_COMPARED_LINES:,}" if len(lines) > MAX_COMPARED_LINES else ""
    shown = [f"{len(lines):,} lines, {len(groups):,} kinds of lines{compared}"]
    ranked = sorted(groups.items(), key=lambda group: -len(group[1]))
    for template, times in ranked[:MAX_TEMPLATES]:
        spread = f" {times[0]} to {times[-1]}" if times[0] else ""
        shown.append(f"{len(times):,} x{spread}: {template}")
    if len(ranked) > MAX_TEMPLATES:
        shown.append(f"[{len(ranked) - MAX_TEMPLATES:,} more kinds are not shown]")
    last = lines[-MAX_LAST_LINES:]
    shown += ["", f"the last {len(last)} lines:"]
    shown += [
        f"{when} {visible_line(text[: 2 * MAX_LINE_CHARS], MAX_LINE_CHARS)}".strip()
        for when, text in last
    ]
    longest = max(len(text) for _, text in lines)
    return ShapedAnswer(
        "\n".join(shown), complete=len(lines) <= MAX_LAST_LINES and longest <= MAX_LINE_CHARS
    )


def _log_lines(result: list[Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in result:
        if isinstance(each, Mapping) and isinstance(each.get("values"), list):
            for value in each["values"]:
                nanoseconds = _number(value[0]) or 0
                found.append((_clock(nanoseconds / 1e9), str(value[1])))
        else:
            found.append(("", str(each)))
    return found


def _line_template(text: str) -> str:
    template = visible_line(text[: 2 * MAX_LINE_CHARS], MAX_LINE_CHARS)
    for pattern, instead in _VARIABLE_PARTS:
        template = pattern.sub(instead, template)
    return template


def _shape_values(values: list[Any]) -> ShapedAnswer:
    shown = [visible_line(_cell_text(each), 160) for each in values[:MAX_VALUES]]
    left = len(values) - len(shown)
    more = f"\n[{left:,} more are not shown]" if left else ""
    return ShapedAnswer((", ".join(shown) or "none") + more, complete=not left)


def _shape_table(rows: list[Any], columns: Mapping[str, str]) -> ShapedAnswer:
    if not rows:
        return ShapedAnswer("nothing found", complete=True)
    shown = [" | ".join(columns)]
    for row in rows[:MAX_ROWS]:
        cells = [", ".join(map(_cell_text, collect_values(row, path))) for path in columns.values()]
        shown.append(" | ".join(visible_line(cell, 160) for cell in cells))
    left = len(rows) - MAX_ROWS
    if left > 0:
        shown.append(f"[{left:,} more rows are not shown]")
    return ShapedAnswer("\n".join(shown), complete=False)


def _cell_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_cell_text(each)}" for key, each in value.items())
    return msgspec.json.encode(value).decode()


def _shape_document(value: Any, keep: Mapping[str, str]) -> ShapedAnswer:
    if keep:
        shown = []
        for name, path in keep.items():
            found = [_cell_text(each) for each in collect_values(value, path)]
            lines = [visible_line(each, MAX_LINE_CHARS) for each in found[:MAX_ROWS]]
            shown.append(f"{name}: {'; '.join(lines) or '-'}")
        return ShapedAnswer("\n".join(shown), complete=False)
    if isinstance(value, str):
        return ShapedAnswer(visible_text(value), complete=True)
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    return ShapedAnswer(visible_text(text), complete=True)


def _shape_text(value: Any) -> ShapedAnswer:
    """A log as plain text: its last lines count."""
    lines = str(value).splitlines()
    if len(lines) <= MAX_LAST_LINES:
        return ShapedAnswer(visible_text(str(value)), complete=True)
    return _shape_lines([line for line in lines if line.strip()])
