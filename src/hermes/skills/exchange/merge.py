"""Two versions of a skill that grew apart, and the one they grew from: what can be joined."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from hermes.core.messages import Value
from hermes.skills.scanner.finding import Entry

_HEADING = re.compile(r"^#{1,6} .*$", re.MULTILINE)


class Merged(Value, kw_only=True, frozen=True):
    entries: tuple[Entry, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Sections or files that both sides changed, each in its own way."""


def merge(base: Sequence[Entry], ours: Sequence[Entry], theirs: Sequence[Entry]) -> Merged:
    """SKILL.md by its sections, other files whole; a change of one side alone is taken."""
    olds, mines, news = ({each.path: each for each in side} for side in (base, ours, theirs))
    entries: list[Entry] = []
    conflicts: list[str] = []
    for path in sorted({*olds, *mines, *news}):
        old, mine, new = olds.get(path), mines.get(path), news.get(path)
        if mine == new or new == old:
            chosen = mine
        elif mine == old:
            chosen = new
        elif path == "SKILL.md" and mine is not None and new is not None:
            text, troubled = merge_text(old.text if old else "", mine.text, new.text)
            conflicts += [f"SKILL.md, {title or 'its beginning'}" for title in troubled]
            chosen = Entry(path=path, data=text.encode(), executable=mine.executable)
        else:
            conflicts.append(path)
            chosen = mine
        if chosen is not None:
            entries.append(chosen)
    return Merged(entries=tuple(entries), conflicts=tuple(conflicts))


def merge_text(base: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """The joined text, and the headings of sections that both changed differently."""
    old, mine, new = sections(base), sections(ours), sections(theirs)
    merged: dict[str, str] = {}
    troubled: list[str] = []
    for title in _order(mine, new):
        before, left, right = old.get(title), mine.get(title), new.get(title)
        if left == right or right == before:
            chosen = left
        elif left == before:
            chosen = right
        else:
            troubled.append(title)
            chosen = left
        if chosen is not None:
            merged[title] = chosen
    return "".join(merged.values()), troubled


def sections(text: str) -> dict[str, str]:
    """By heading, in order; what stands before the first has an empty one."""
    found: dict[str, str] = {}
    starts = [0, *(match.start() for match in _HEADING.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        part = text[start:end]
        if not part:
            continue
        title = part.split("\n", 1)[0].strip() if start else ""
        while title in found:
            title += "'"
        found[title] = part if part.endswith("\n") else f"{part}\n"
    return found


def _order(mine: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Ours as they stand; what only they have comes after its neighbour there."""
    order = list(mine)
    last = -1
    for title in new:
        if title in mine:
            last = order.index(title)
        else:
            last += 1
            order.insert(last, title)
    return order
