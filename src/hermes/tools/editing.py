"""Edits of one text as a value: what it becomes, and a short account of what changed. Pure."""

from collections.abc import Sequence

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.tools.closest import closest
from hermes.tools.matching import Place, apply, find, line_number
from hermes.tools.unified import Hunk

_SHOWN_LINES = 30


class Edited(Value, frozen=True):
    text: str
    account: str
    """A short diff."""


def replace(path: str, text: str, old: str, new: str, *, every: bool) -> Edited:
    """Raises `ToolError`, and says what is there, unless it is clear what to change."""
    if not old:
        raise ToolError("old is empty: say which text to replace (write_file writes a whole file)")
    if old == new:
        raise ToolError("old and new are the same: nothing to change")
    places = find(text, old, new)
    if not places:
        raise _not_found(path, text, old)
    if len(places) > 1 and not every:
        raise ToolError(
            f"old is found {len(places)} times in {path}, at lines {_numbers(text, places)}. "
            "Give more lines around it, or replace_all=true."
        )
    return Edited(apply(text, places), account(text, places))


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> Edited:
    """One after the other; a hunk that fits in several places goes where its number says."""
    accounts, drift = [], 0
    for hunk in hunks:
        place = _choose(path, text, hunk, drift)
        accounts.append(account(text, [place]))
        text = apply(text, [place])
        drift += hunk.new.count("\n") - hunk.old.count("\n")
    return Edited(text, "\n".join(accounts))


def account(text: str, places: Sequence[Place]) -> str:
    told: list[str] = []
    for place in places:
        loosely = f" (found ignoring {place.how})" if place.how else ""
        line, lines = _changed_lines(text, place)
        told += [f"@@ line {line}{loosely} @@", *lines]
        if len(told) > _SHOWN_LINES:
            break
    more = len(told) - _SHOWN_LINES
    rest = [f"[… and more, {len(places)} changes in all]"] if more > 0 else []
    return "\n".join([line[:200] for line in told[:_SHOWN_LINES]] + rest)


def _choose(path: str, text: str, hunk: Hunk, drift: int) -> Place:
    if not hunk.old:
        return _insertion(path, text, hunk, drift)
    places = find(text, hunk.old, hunk.new)
    if not places:
        raise _not_found(path, text, hunk.old)
    if len(places) > 1:
        told = [p for p in places if line_number(text, p.start) == hunk.line + drift]
        if len(told) != 1:
            raise ToolError(
                f"a hunk fits {path} in {len(places)} places, at lines {_numbers(text, places)}. "
                "Give more context lines."
            )
        places = told
    return places[0]


def _insertion(path: str, text: str, hunk: Hunk, drift: int) -> Place:
    lines = text.split("\n")
    if text and (not hunk.line or hunk.line + drift > len(lines)):
        raise ToolError(f"a hunk for {path} only adds lines: give the lines around them as context")
    start = sum(len(line) + 1 for line in lines[: hunk.line + drift]) if text else 0
    crlf = "\r\n" in text
    new = hunk.new.replace("\n", "\r\n") if crlf else hunk.new
    if start > len(text):  # after a last line that has no line end
        return Place(len(text), len(text), ("\r\n" if crlf else "\n") + new.rstrip("\r\n"))
    return Place(start, start, new)


def _changed_lines(text: str, place: Place) -> tuple[int, list[str]]:
    start = text.rfind("\n", 0, place.start) + 1
    stop = place.end
    if stop == start or text[stop - 1] != "\n" or not place.replacement.endswith("\n"):
        end = text.find("\n", stop)
        stop = len(text) if end < 0 else end
    old = text[start:stop].split("\n")
    new = (text[start : place.start] + place.replacement + text[place.end : stop]).split("\n")
    same = _common(old, new)
    line = line_number(text, start) + same
    old, new = old[same:], new[same:]
    same = _common(old[::-1], new[::-1])
    old, new = old[: len(old) - same], new[: len(new) - same]
    return line, [f"-{gone.rstrip()}" for gone in old] + [f"+{come.rstrip()}" for come in new]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))


def _not_found(path: str, text: str, old: str) -> ToolError:
    near = closest(text, old)
    hint = f"The nearest lines are:\n{near}" if near else "Nothing there is like it."
    return ToolError(f"{path} does not hold this text; nothing was changed. {hint}")


def _numbers(text: str, places: Sequence[Place]) -> str:
    told = ", ".join(str(line_number(text, place.start)) for place in places[:20])
    return f"{told}{' …' if len(places) > 20 else ''}"
