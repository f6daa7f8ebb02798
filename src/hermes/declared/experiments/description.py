"""Describes a proved cause for people: the file, the line, what was changed, by whom and when."""

from collections.abc import Callable, Sequence

from hermes.core.messages import Value
from hermes.declared.experiments.put_back import text_parts_of
from hermes.declared.experiments.text_parts import render_diff, revert_parts
from hermes.declared.experiments.trial import Revert
from hermes.declared.state import LENGTH, StateChange

MAX_COMPONENT_CHARS, MAX_MECHANISM_CHARS, MAX_VALUE_CHARS = 100, 400, 120
MAX_LINE_CHARS = 100
SHOWN_LINES = 2
"""Of the old and of the new text in one sentence."""


class CauseDescription(Value, frozen=True, kw_only=True):
    """Of all changes of a cause, the first in most detail. Not redacted."""

    component: str
    """The failing unit, and the files with their lines, as many as there is room for."""
    mechanism: str
    value: str
    diff: str
    """Of all changes of the cause."""


def describe_causes(
    causes: Sequence[Revert], author: str, unit: str, read: Callable[[str], bytes | None]
) -> CauseDescription:
    diffs = [_diff_of(each, read) for each in causes]
    places = list(dict.fromkeys(_place(each, read) for each in causes))
    values = list(dict.fromkeys(filter(None, map(_value, diffs))))
    return CauseDescription(
        component=_component(places, unit),
        mechanism=_mechanism(causes, author, read)[:MAX_MECHANISM_CHARS],
        value="; ".join(values)[:MAX_VALUE_CHARS],
        diff="\n".join(diffs),
    )


def _component(places: Sequence[str], unit: str) -> str:
    """The longest of several wordings that has room: a path that is cut off is of no use."""
    first, others = places[0], len(places) - 1
    more = f" and {others} more" if others else ""
    service = f"{unit}.service: " if unit else ""
    wordings = (service + " and ".join(places), f"{service}{first}{more}", f"{first}{more}", first)
    fitting = (each for each in wordings if len(each) <= MAX_COMPONENT_CHARS)
    return next(fitting, first[:MAX_COMPONENT_CHARS])


def _place(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    line, key = _first_line(cause, read), cause.suspect.change.item.key
    return f"{key}, line {line}" if line else key


def _first_line(cause: Revert, read: Callable[[str], bytes | None]) -> int:
    """The line at which the change begins; 0 where it is not in the lines of a text."""
    if cause.lines:
        return cause.lines[0]
    parts = text_parts_of(cause.suspect.change, read)
    return parts[0].first_after + 1 if parts else 0


def _mechanism(causes: Sequence[Revert], author: str, read: Callable[[str], bytes | None]) -> str:
    first = causes[0].suspect.change
    paths = {each.suspect.change.item.key for each in causes}
    what = "; ".join(
        f"in {each.suspect.change.item.key} {_words(each, read)}"
        if len(paths) > 1 and each.suspect.change.item.kind == "file"
        else _words(each, read)
        for each in causes[:3]
    )
    if len(causes) > 3:
        what += f"; and {len(causes) - 3} more"
    when = f" at {first.at:%Y-%m-%d %H:%M:%S} UTC" if first.at is not None else ""
    return f"{what}; changed by {author}{when}"


def _words(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    """In one line: what it was, and what it is."""
    change = cause.suspect.change
    lines = _diff_of(cause, read).splitlines()
    old = [line[1:].strip()[:MAX_LINE_CHARS] for line in lines if line.startswith("-")]
    new = [line[1:].strip()[:MAX_LINE_CHARS] for line in lines if line.startswith("+")]
    if old and new:
        return f"{_shown(old)} was replaced by {_shown(new)}"
    if new:
        return f"{_shown(new)} was added"
    if old:
        return f"{_shown(old)} was removed"
    return " ".join(lines) if lines else f"{change.item.kind} {change.item.key} was {change.verb}"


def _shown(lines: Sequence[str]) -> str:
    more = len(lines) - SHOWN_LINES
    rest = f" (and {more} more line{'s' if more > 1 else ''})" if more > 0 else ""
    return " | ".join(lines[:SHOWN_LINES]) + rest


def _diff_of(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    change = cause.suspect.change
    path, before, after = change.item.key, change.before, change.after
    if change.item.kind != "file" or before is None or after is None:
        return f"{change.item.kind} {path} was {change.verb}"
    if before.digest == after.digest:
        return _attribute_diff(change)
    old_content, new_content = read(before.digest), read(after.digest)
    if old_content is None or new_content is None:
        return f"{path}: its content was changed"
    if cause.parts is not None:
        old_content = revert_parts(
            old_content, new_content, text_parts_of(change, read), cause.parts
        )
    return f"{path}:\n{render_diff(old_content, new_content, path)}"


def _attribute_diff(change: StateChange) -> str:
    assert change.before is not None
    assert change.after is not None
    names = [name for name in change.differing if name != "content"]
    if LENGTH in names:
        sizes = [int(side.attributes[LENGTH]) for side in (change.before, change.after)]
        return f"{change.item.key} grew from {sizes[0]:,} to {sizes[1]:,} bytes"
    old, new = (
        ", ".join(f"{name} {side.attributes.get(name, '')}" for name in names)
        for side in (change.before, change.after)
    )
    return f"{change.item.key}:\n-{old}\n+{new}"


def _value(diff: str) -> str:
    """The first line that was added, else the first that was removed."""
    changed = [line for mark in "+-" for line in diff.splitlines() if line.startswith(mark)]
    return changed[0][1:].strip()[:MAX_VALUE_CHARS] if changed else ""
