"""Splits the change of a text file into parts that can be reverted one by one."""

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher, unified_diff

from hermes.core.messages import Value

MAX_LINES = 20_000
"""Longer files are reverted as a whole: comparing them takes too long."""
MAX_PARTS = 200
MIN_LIKENESS = 0.6
"""From which on a line counts as an edit of another one and not as a new line."""
MAX_COMPARED_PAIRS = 900
"""Of lines in one replaced range; larger ranges are not divided by likeness."""
_SETTING = re.compile(r"\s*(?:$|[#;]|(?:export )?[\w.-]+\s*[=:]\s*[^\s({\[])")
"""A line with a value of its own: it means something without the lines around it."""


class TextPart(Value, frozen=True, kw_only=True):
    """Lines that one part of a change replaced. Numbers count from 0; the end is not included."""

    first_before: int
    end_before: int
    first_after: int
    end_after: int


def split_change(before: bytes, after: bytes) -> tuple[TextPart, ...]:
    """The parts of a change, in the order of the file; none where it is not plain text or would
    have too many."""
    old, new = _text_lines(before), _text_lines(after)
    if old is None or new is None:
        return ()
    parts = []
    for _, a, b, c, d in _differing_ranges(old, new):
        parts += _split_range(old, new, (a, b, c, d))
    return tuple(parts) if len(parts) <= MAX_PARTS else ()


def _differing_ranges(
    old: Sequence[str], new: Sequence[str]
) -> list[tuple[str, int, int, int, int]]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [each for each in matcher.get_opcodes() if each[0] != "equal"]


def _split_range(
    old: Sequence[str], new: Sequence[str], bounds: tuple[int, int, int, int]
) -> list[TextPart]:
    """An edited line is a separate part, beside lines that were removed or added."""
    a, b, c, d = bounds
    if not all(line.endswith("\n") for line in (*old[a:b], *new[c:d])):
        return _split_equally_long(a, b, c, d)  # two lines would become one
    parts = list[TextPart]()
    for x, y in [*_edited_lines(old[a:b], new[c:d]), (b - a, d - c)]:
        if (a, c) != (end := (bounds[0] + x, bounds[2] + y)):
            one_sided = old[a : end[0]] or new[c : end[1]]
            parts += (
                _split_lines(a, end[0], c, end[1])
                if (a == end[0] or c == end[1]) and all(map(_SETTING.match, one_sided))
                else _split_equally_long(a, end[0], c, end[1])
            )
        if end != (b, d):
            parts += _split_equally_long(end[0], end[0] + 1, end[1], end[1] + 1)
        a, c = end[0] + 1, end[1] + 1
    return parts


def _edited_lines(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The numbers of lines that are likely the same line before and after an edit, in order."""
    if not old or not new or len(old) * len(new) > MAX_COMPARED_PAIRS:
        return []
    best: dict[tuple[int, int], tuple[float, tuple[tuple[int, int], ...]]] = {}
    for x in range(len(old), -1, -1):
        for y in range(len(new), -1, -1):
            if x == len(old) or y == len(new):
                best[x, y] = 0.0, ()
                continue
            best[x, y] = max(best[x + 1, y], best[x, y + 1], key=lambda found: found[0])
            likeness = _likeness(old[x], new[y])
            total, pairs = best[x + 1, y + 1]
            if likeness >= MIN_LIKENESS and total + likeness > best[x, y][0]:
                best[x, y] = total + likeness, ((x, y), *pairs)
    return list(best[0, 0][1])


def _likeness(old: str, new: str) -> float:
    return SequenceMatcher(None, old.strip(), new.strip(), autojunk=False).ratio()


def _split_lines(a: int, b: int, c: int, d: int) -> list[TextPart]:
    """Each line that was only removed or only added."""
    removed = [
        TextPart(first_before=each, end_before=each + 1, first_after=c, end_after=c)
        for each in range(a, b)
    ]
    added = [
        TextPart(first_before=a, end_before=a, first_after=each, end_after=each + 1)
        for each in range(c, d)
    ]
    return removed or added


def _split_equally_long(a: int, b: int, c: int, d: int) -> list[TextPart]:
    """Where as many lines were replaced as there were before, each line is a part."""
    if b - a != d - c:
        return [TextPart(first_before=a, end_before=b, first_after=c, end_after=d)]
    return [
        TextPart(
            first_before=a + number,
            end_before=a + number + 1,
            first_after=c + number,
            end_after=c + number + 1,
        )
        for number in range(b - a)
    ]


def revert_parts(
    before: bytes, after: bytes, parts: Sequence[TextPart], reverted: Collection[int]
) -> bytes:
    """The content of `after` with the parts of these numbers as they were in `before`."""
    old, new = _text_lines(before) or [], _text_lines(after) or []
    lines, position = list[str](), 0
    for number, part in enumerate(parts):
        lines += new[position : part.first_after]
        if number in reverted:
            lines += old[part.first_before : part.end_before]
        else:
            lines += new[part.first_after : part.end_after]
        position = part.end_after
    lines += new[position:]
    return "".join(lines).encode()


def render_diff(before: bytes, after: bytes, path: str, max_lines: int = 40) -> str:
    """From `before` to `after`, without unchanged lines around; not redacted."""
    old, new = _text_lines(before), _text_lines(after)
    if old is None or new is None:
        return f"{path}: {len(before)} bytes became {len(after)} bytes"
    diff = unified_diff(old, new, path, path, n=0)
    lines = [line.rstrip("\n") for line in diff][2:]
    shown = [line for line in lines if not line.startswith("@@")]
    left_out = len(shown) - max_lines
    more = [f"… {left_out} more lines"] if left_out > 0 else []
    return "\n".join([*shown[:max_lines], *more])


def _text_lines(content: bytes) -> list[str] | None:
    """Return None for what is not text."""
    if b"\0" in content:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    # Only \n ends a line: other separators must survive unchanged.
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    lines = lines if lines[-1] else lines[:-1]
    return lines if len(lines) <= MAX_LINES else None
