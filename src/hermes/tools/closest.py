"""Nothing matched: which lines come nearest to what was looked for? Pure."""

from difflib import SequenceMatcher
from heapq import nlargest

_MOST_LINES = 20_000
_NEAR = 0.6
_SHOWN = 12


def closest(text: str, old: str, *, count: int = 2) -> str:
    """The passages of the text most like `old`, with line numbers; empty when none is near."""
    wanted = old.strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda k: len(wanted[k].strip()))
    lines = text.split("\n")[:_MOST_LINES]
    near = _nearest(lines, wanted[anchor].strip(), count)
    passages = []
    for number in sorted(near):
        first = max(0, number - anchor)
        shown = lines[first : first + min(len(wanted), _SHOWN)]
        passages.append("\n".join(f"{first + k + 1}|{line[:200]}" for k, line in enumerate(shown)))
    return "\n…\n".join(passages)


def _nearest(lines: list[str], wanted: str, count: int) -> list[int]:
    if not wanted:
        return []
    matcher = SequenceMatcher(None, b=wanted, autojunk=False)
    scored = []
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:500])
        # The cheap upper bounds spare nearly every line the dear comparison.
        if matcher.real_quick_ratio() >= _NEAR and matcher.quick_ratio() >= _NEAR:
            ratio = matcher.ratio()
            if ratio >= _NEAR:
                scored.append((ratio, number))
    return [number for _, number in nlargest(count, scored)]
