"""Describes a proved cause for people: the file, the line, what was changed, by whom and when."""

from collections.abc import Callable, Sequence

from hermes.core.foreign_text import cut_words, escape_invisible
from hermes.core.messages import Value
from hermes.declared.experiments.put_back import text_parts_of
from hermes.declared.experiments.text_parts import render_diff, revert_parts
from hermes.declared.experiments.trial import Revert
from hermes.declared.packet_filter import change_words
from hermes.declared.state import LENGTH, StateChange

MAX_COMPONENT_CHARS, MAX_MECHANISM_CHARS, MAX_VALUE_CHARS = 100, 480, 120
MAX_LINE_CHARS, MAX_LEFT_LINE_CHARS = 100, 50
KEPT_BEFORE_DIFFERENCE = 20
"""Characters of two long lines that are shown before the place where they differ."""
SHOWN_LEFT_PARTS = 3
SHOWN_LINES = 2
"""Of the old and of the new text in one sentence."""


class CauseDescription(Value, frozen=True, kw_only=True):
    """Of all changes of a cause, the first in most detail. Not redacted."""

    component: str
    """The service that reads it, and the files with their lines, as many as there is room for."""
    mechanism: str
    value: str
    diff: str
    """Of all changes of the cause."""


def describe_causes(
    causes: Sequence[Revert], author: str, unit: str, read: Callable[[str], bytes | None]
) -> CauseDescription:
    mechanism = _mechanism(causes, author, read)
    left = _left_in_place(causes, read)
    diffs = [_diff_of(each, read) for each in causes]
    places = list(dict.fromkeys(_place(each, read) for each in causes))
    values = list(dict.fromkeys(filter(None, map(_value, diffs))))
    return CauseDescription(
        component=_component(places, unit),
        mechanism=cut_words(mechanism, MAX_MECHANISM_CHARS - len(left)) + left,
        value=cut_words("; ".join(values), MAX_VALUE_CHARS),
        diff="\n".join(diffs),
    )


def _component(places: Sequence[str], unit: str) -> str:
    """The longest of several wordings that has room: a path that is cut off is of no use."""
    first, others = places[0], len(places) - 1
    more = f" and {others} more" if others else ""
    service = f"{unit}: " if unit else ""
    wordings = (service + " and ".join(places), f"{service}{first}{more}", f"{first}{more}", first)
    fitting = (each for each in wordings if len(each) <= MAX_COMPONENT_CHARS)
    return next(fitting, first[:MAX_COMPONENT_CHARS])


def _place(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    line, key = _first_line(cause, read), cause.suspect.change.item.key
    if cause.suspect.change.item.kind == "packet-filter":
        return cause.suspect.label
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
    lines = _diff_of(cause, read).split("\n")
    old = [line[1:] for line in lines if line.startswith("-")]
    new = [line[1:] for line in lines if line.startswith("+")]
    if old and new:
        return _replacement(old, new)
    if new:
        return f"{_shown(new)} was added"
    if old:
        return f"{_shown(old)} was removed"
    return " ".join(lines) if lines else f"{change.item.kind} {change.item.key} was {change.verb}"


def _replacement(old: Sequence[str], new: Sequence[str]) -> str:
    """What differs must be visible, also where it is white space."""
    if len(old) == len(new) == 1:
        before, after = old[0], new[0]
        if before.strip() == after.strip() and before.rstrip() != after.rstrip():
            return (
                f"the indentation of {_quoted(after.strip())} was changed:"
                f" {_indentation(before)} before, {_indentation(after)} now"
            )
        if before.split() == after.split():
            before, after = escape_invisible(before), escape_invisible(after)
            return f"‘{before}’ was replaced by ‘{after}’: only white space differs"
        start = _first_shown(before.strip(), after.strip())
        return f"{_quoted(before.strip(), start)} was replaced by {_quoted(after.strip(), start)}"
    same = "".join(old).split() == "".join(new).split()
    return f"{_shown(old)} was replaced by {_shown(new)}" + (
        ": only white space differs" if same else ""
    )


def _first_shown(before: str, after: str) -> int:
    """The first character that is shown of two lines, where they are too long to show all."""
    if max(len(before), len(after)) <= MAX_LINE_CHARS:
        return 0
    pairs = enumerate(zip(before, after, strict=False))
    differs = next((at for at, (x, y) in pairs if x != y), min(len(before), len(after)))
    return max(0, differs - KEPT_BEFORE_DIFFERENCE)


def _quoted(line: str, start: int = 0, most: int = MAX_LINE_CHARS) -> str:
    shown = escape_invisible(line[start:])
    return f"‘{'…' if start else ''}{cut_words(shown, most)}’"


def _indentation(line: str) -> str:
    space = line[: len(line) - len(line.lstrip())]
    names = {" ": "space", "\t": "tab"}
    counted = [(space.count(each), name) for each, name in names.items() if each in space]
    return " and ".join(f"{n} {name}{'s' if n > 1 else ''}" for n, name in counted) or "none"


def _shown(lines: Sequence[str]) -> str:
    more = len(lines) - SHOWN_LINES
    rest = f" (and {more} more line{'s' if more > 1 else ''})" if more > 0 else ""
    return " | ".join(_quoted(each.strip()) for each in lines[:SHOWN_LINES]) + rest


def _left_in_place(causes: Sequence[Revert], read: Callable[[str], bytes | None]) -> str:
    """The other changed lines of the same files: they are no cause of this fault, and remain."""
    found = [each for cause in causes if cause.parts is not None for each in _others(cause, read)]
    if not found:
        return ""
    more = len(found) - SHOWN_LEFT_PARTS
    rest = f" and {more} more" if more > 0 else ""
    return f"; other changed lines remain: {', '.join(found[:SHOWN_LEFT_PARTS])}{rest}"


def _others(cause: Revert, read: Callable[[str], bytes | None]) -> list[str]:
    change = cause.suspect.change
    content = read(change.after.digest) if change.after is not None else None
    lines = (content or b"").decode("utf-8", "replace").split("\n")
    return [
        f"line {each.first_after + 1} "
        + (
            _quoted(lines[each.first_after].strip(), most=MAX_LEFT_LINE_CHARS)
            if each.end_after > each.first_after
            else "(lines were removed there)"
        )
        for number, each in enumerate(text_parts_of(change, read))
        if number not in (cause.parts or ())
    ]


def _diff_of(cause: Revert, read: Callable[[str], bytes | None]) -> str:
    change = cause.suspect.change
    path, before, after = change.item.key, change.before, change.after
    if change.item.kind != "file" or before is None or after is None:
        return change_words(change) or f"{change.item.kind} {path} was {change.verb}"
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
