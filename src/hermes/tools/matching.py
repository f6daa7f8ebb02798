"""Finds the passage somebody meant in a text, and replaces exactly that. Pure: text in, text out.

First as it is written; then ignoring, one after the other, what models get wrong: line ends and
trailing blanks, typographic quotes and dashes, the depth of indentation. The first way that finds
anything decides, so a looser way never competes with a stricter one. Where a passage was found
loosely, lines that the replacement leaves alone keep the form they have in the text.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial

from hermes.core.messages import Value
from hermes.tools.indentation import Shift, shift_between, unshifted

_FOLDED = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
    }
)


class Place(Value, frozen=True):
    """A passage of the text, and what would stand there instead."""

    start: int
    end: int
    replacement: str
    how: str = ""
    """What had to be ignored to find it."""


def find(text: str, old: str, new: str) -> list[Place]:
    """Every passage that `old` can mean, all found in the same, strictest possible way."""
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        return []
    for way in _WAYS:
        if places := list(way(text, old, new)):
            return places
    return []


def apply(text: str, places: Sequence[Place]) -> str:
    """The text with each passage replaced, the leftmost of any that overlap; no more than that."""
    pieces, position = [], 0
    for place in sorted(places, key=lambda place: place.start):
        if place.start >= position:
            pieces += [text[position : place.start], place.replacement]
            position = place.end
    return "".join([*pieces, text[position:]])


def line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _as_written(text: str, old: str, new: str) -> Iterator[Place]:
    for form in dict.fromkeys((old, old.replace("\n", "\r\n"))):
        for start in _occurrences(text, form):
            ending = "\r\n" if "\r\n" in form else "\n" if "\n" in form else _ending(text, start)
            yield Place(start, start + len(form), new.replace("\n", ending))


def _typographic(text: str, old: str, new: str) -> Iterator[Place]:
    """One character stands for one character, so places are the same in both."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = new[head : len(new) - tail]
    for start in _occurrences(text.translate(_FOLDED), old.translate(_FOLDED)):
        replacement = middle.replace("\n", _ending(text, start))
        yield Place(
            start + head, start + len(old) - tail, replacement, "typographic quotes or dashes"
        )


def _line_by_line(
    text: str, old: str, new: str, *, form: Callable[[str], str], indent: bool, how: str
) -> Iterator[Place]:
    wanted = old.removesuffix("\n").split("\n")
    if not any(line.strip() for line in wanted):
        return  # blank lines are everywhere: only taken as written
    lines = _Lines(text)
    keys, have = [form(line) for line in wanted], [form(line) for line in lines.bare]
    for at in range(len(have) - len(keys) + 1):
        if have[at] != keys[0] or have[at : at + len(keys)] != keys:
            continue
        here = lines.bare[at : at + len(keys)]
        shift = shift_between(wanted, here) if indent else unshifted
        if shift is not None:
            yield _replacing(lines, at, old, new, shift, how)


class _Lines:
    """A text as lines: bare, how each ends, where each begins."""

    def __init__(self, text: str) -> None:
        self.bare: list[str] = []
        self.ends: list[str] = []
        self.starts = [0]
        for line in text.split("\n"):
            crlf = line.endswith("\r")
            self.bare.append(line[:-1] if crlf else line)
            self.ends.append("\r\n" if crlf else "\n")
            self.starts.append(self.starts[-1] + len(line) + 1)
        last = text.rpartition("\n")[2]
        self.bare[-1], self.ends[-1] = last, ""
        if not last:
            self.bare.pop()
            self.ends.pop()


def _replacing(lines: _Lines, at: int, old: str, new: str, shift: Shift, how: str) -> Place:
    """Old, new and the text as parts between line ends; parts that old and new share stay."""
    before, after = old.split("\n"), new.split("\n")
    last = at + len(before) - 1 - old.endswith("\n")
    here = list(zip(lines.bare[at : last + 1], lines.ends[at : last + 1], strict=True))
    stop = lines.starts[last] + len(lines.bare[last])
    if old.endswith("\n") and lines.ends[last]:
        here.append(("", ""))
        stop += len(lines.ends[last])
    elif old.endswith("\n"):  # the text lacks its last line end, and goes on lacking it
        before = before[:-1]
        after = after[:-1] if new.endswith("\n") else after
    parts: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        parts += here[a:b] if kind == "equal" else [(shift(part), "") for part in after[c:d]]
    ending = next((end for end in (*lines.ends[at:], *lines.ends) if end), "\n")
    joined = [part + (end or ending) for part, end in parts]
    if joined:
        joined[-1] = parts[-1][0]
    return Place(lines.starts[at], stop, "".join(joined), how)


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted)
    while start >= 0:
        if not (_cuts_crlf(text, start) or _cuts_crlf(text, start + len(wanted))):
            yield start
        start = text.find(wanted, start + 1)


def _cuts_crlf(text: str, at: int) -> bool:
    return text[max(0, at - 1) : at + 1] == "\r\n"


def _ending(text: str, position: int) -> str:
    """How the line at this place ends; the last line does as the one before it."""
    at = text.find("\n", position)
    if at < 0:
        at = text.rfind("\n", 0, position)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))


def _folded(line: str) -> str:
    return line.translate(_FOLDED)


_WAYS: tuple[Callable[[str, str, str], Iterator[Place]], ...] = (
    _as_written,
    partial(_line_by_line, form=str.rstrip, indent=False, how="trailing blanks"),
    _typographic,
    partial(
        _line_by_line,
        form=lambda line: _folded(line).rstrip(),
        indent=False,
        how="trailing blanks, typographic quotes or dashes",
    ),
    partial(_line_by_line, form=str.strip, indent=True, how="the depth of indentation"),
    partial(
        _line_by_line,
        form=lambda line: _folded(line).strip(),
        indent=True,
        how="the depth of indentation, typographic quotes or dashes",
    ),
)
