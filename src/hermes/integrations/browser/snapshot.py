"""Turns what was read of a page into lines: roles, names, values and references."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from hermes.core.foreign_text import strip_hidden_characters

MAX_SNAPSHOT_CHARS = 8_000
MAX_NAME_CHARS = 120
MAX_FULL_NAME_CHARS = 500
MAX_COMPARED_LINES = 2_000
MAX_INDENT = 12
_LAST_PLAIN_CHARACTER = "\U000e0000"
"""Printable characters after it may be hidden ones."""
HIDDEN_VALUE = "[hidden]"

MakeReference = Callable[[int, str, str], str]
"""Gives the reference of an element: its number in the frame, role and name."""


def render_rows(
    rows: Sequence[Sequence[Any]],
    refer: MakeReference,
    secrets: Iterable[str] = (),
    *,
    full: bool = False,
) -> list[str]:
    """The lines of one frame, from its rows: depth, role, name, value, number and states.

    `secrets` are values of password fields, which are never shown.
    """
    hidden = tuple(filter(None, secrets))
    limit = MAX_FULL_NAME_CHARS if full else MAX_NAME_CHARS
    lines = (_line(row, refer, limit) for row in rows)
    return [_hide(line, hidden) for line in _without_repeats(lines)]


def _line(row: Sequence[Any], refer: MakeReference, limit: int) -> str:
    depth, role, whole, value, number, states = row
    role, whole, value = _clean(role), _clean(whole), _clean(value)
    name = whole if len(whole) <= limit else f"{whole[: limit - 1]}…"
    parts = [role[:1].lower() + role[1:], *([f'"{name}"'] if name else [])]
    if isinstance(number, int):
        parts.append(f"[{refer(number, role, name)}]")
    if value and value != name:
        parts.append(f'= "{value[:limit]}"')
    indent = "  " * min(int(depth), MAX_INDENT)
    return indent + " ".join([*parts, *map(_clean, states)])


def _clean(value: object) -> str:
    text = "" if value is None else str(value)
    plain = text.isprintable() and max(text, default="") < _LAST_PLAIN_CHARACTER
    return " ".join((text if plain else strip_hidden_characters(text)).split())


def _hide(line: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        line = line.replace(f'= "{secret}"', f"= {HIDDEN_VALUE}")
        if len(secret) > 3:
            line = line.replace(secret, HIDDEN_VALUE)
    return f"{line.partition(' = ')[0]} = {HIDDEN_VALUE}" if ' = "•' in line else line


def _without_repeats(lines: Iterable[str]) -> Iterator[str]:
    last = ""
    for line in lines:
        if line.strip() != last.strip() or "[" in line:
            yield line
        last = line


def cut_lines(lines: Sequence[str], start: float = 0.0, limit: int = MAX_SNAPSHOT_CHARS) -> str:
    """As many lines as fit; of a long page those from the part that is scrolled to (0 to 1)."""
    size = sum(len(line) + 1 for line in lines)
    if size <= limit:
        return "\n".join(lines)
    space = limit - 160
    first, before = 0, 0
    while first < len(lines) and before < start * size and size - before > space:
        before += len(lines[first]) + 1
        first += 1
    last, used = first, 0
    while last < len(lines) and used + len(lines[last]) + 1 <= space:
        used += len(lines[last]) + 1
        last += 1
    shown = "\n".join(lines[first:last]) or lines[first][:space]
    more = "browser_scroll moves on, browser_snapshot with full=true keeps all of it"
    return f"{shown}\n[lines {first + 1} to {last} of {len(lines)}; {more}]"


def describe_difference(before: Sequence[str], after: Sequence[str]) -> str:
    """Removed and added lines; empty when there is no useful difference to show."""
    if not before or max(len(before), len(after)) > MAX_COMPARED_LINES:
        return ""
    changed: list[str] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.real_quick_ratio() < 0.3:
        return ""
    for kind, left, left_end, right, right_end in matcher.get_opcodes():
        if kind != "equal":
            changed += [f"- {line}" for line in before[left:left_end]]
            changed += [f"+ {line}" for line in after[right:right_end]]
    text = "\n".join(changed)
    whole = sum(len(line) + 1 for line in after)
    return text if len(text) < min(MAX_SNAPSHOT_CHARS, max(whole, 1)) else ""
