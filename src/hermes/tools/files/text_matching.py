"""The same lines at another depth: how one indentation becomes the other."""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from heapq import nlargest

from hermes.core.messages import Value

IndentShift = Callable[[str], str]
"""Moves one line to the other depth."""


def find_shift(wanted: Sequence[str], here: Sequence[str]) -> IndentShift | None:
    """What moves each wanted line to the depth it has here; None when no single rule does."""
    pairs = [
        (_leading_whitespace(a), _leading_whitespace(b))
        for a, b in zip(wanted, here, strict=True)
        if a.strip()
    ]
    for rule in _shift_rules(*pairs[0]):
        if all(rule(a) == b for a, b in pairs):
            return lambda line: _shift_line(line, rule)
    return None


def keep_indentation(line: str) -> str:
    return line


def _shift_rules(wanted: str, here: str) -> Iterator[IndentShift]:
    yield keep_indentation
    if here.endswith(wanted):
        deeper = here[: len(here) - len(wanted)]
        yield lambda depth: deeper + depth
    if wanted.endswith(here):
        shallower = wanted[: len(wanted) - len(here)]
        yield lambda depth: depth.removeprefix(shallower)
    for width in (2, 4, 8):
        yield lambda depth, width=width: _tabs(depth, width)  # type: ignore[misc]
        yield lambda depth, width=width: depth.replace("\t", " " * width)  # type: ignore[misc]


def _tabs(depth: str, width: int) -> str:
    spaces = len(depth.replace("\t", ""))
    return "\t" * (depth.count("\t") + spaces // width) + " " * (spaces % width)


def _shift_line(line: str, rule: IndentShift) -> str:
    if not line.strip():
        return line
    depth = _leading_whitespace(line)
    return rule(depth) + line[len(depth) :]


def _leading_whitespace(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


_TYPOGRAPHIC_FOLDING = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
    }
)


class PassageMatch(Value, frozen=True):
    """A passage of the text, and what would stand there instead."""

    start: int
    end: int
    replacement: str
    how: str = ""
    """What had to be ignored to find it."""


def find_passages(text: str, old: str, new: str) -> list[PassageMatch]:
    """Every passage that `old` can mean, all found in the same, strictest possible way."""
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not old:
        return []
    for way in _MATCHERS:
        if places := list(way(text, old, new)):
            return places
    return []


def replace_passages(text: str, places: Sequence[PassageMatch]) -> str:
    """The text with each passage replaced, the leftmost of any that overlap; no more than that."""
    pieces, position = [], 0
    for place in sorted(places, key=lambda place: place.start):
        if place.start >= position:
            pieces += [text[position : place.start], place.replacement]
            position = place.end
    return "".join([*pieces, text[position:]])


def line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _match_exact(text: str, old: str, new: str) -> Iterator[PassageMatch]:
    for form in dict.fromkeys((old, old.replace("\n", "\r\n"))):
        for start in _occurrences(text, form):
            ending = (
                "\r\n" if "\r\n" in form else "\n" if "\n" in form else _line_ending(text, start)
            )
            yield PassageMatch(start, start + len(form), new.replace("\n", ending))


def _match_typographic(text: str, old: str, new: str) -> Iterator[PassageMatch]:
    """One character stands for one character, so places are the same in both."""
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    middle = new[head : len(new) - tail]
    for start in _occurrences(
        text.translate(_TYPOGRAPHIC_FOLDING), old.translate(_TYPOGRAPHIC_FOLDING)
    ):
        replacement = middle.replace("\n", _line_ending(text, start))
        yield PassageMatch(
            start + head, start + len(old) - tail, replacement, "typographic quotes or dashes"
        )


def _match_lines(
    text: str, old: str, new: str, *, form: Callable[[str], str], indent: bool, how: str
) -> Iterator[PassageMatch]:
    wanted = old.removesuffix("\n").split("\n")
    if not any(line.strip() for line in wanted):
        return  # blank lines are everywhere: only taken as written
    lines = _TextLines(text)
    keys, have = [form(line) for line in wanted], [form(line) for line in lines.bare]
    for at in range(len(have) - len(keys) + 1):
        if have[at] != keys[0] or have[at : at + len(keys)] != keys:
            continue
        here = lines.bare[at : at + len(keys)]
        shift = find_shift(wanted, here) if indent else keep_indentation
        if shift is not None:
            yield _build_match(lines, at, old, new, shift, how)


class _TextLines:
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


def _build_match(
    lines: _TextLines, at: int, old: str, new: str, shift: IndentShift, how: str
) -> PassageMatch:
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
    return PassageMatch(lines.starts[at], stop, "".join(joined), how)


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    start = text.find(wanted)
    while start >= 0:
        if not (_cuts_crlf(text, start) or _cuts_crlf(text, start + len(wanted))):
            yield start
        start = text.find(wanted, start + 1)


def _cuts_crlf(text: str, at: int) -> bool:
    return text[max(0, at - 1) : at + 1] == "\r\n"


def _line_ending(text: str, position: int) -> str:
    """How the line at this place ends; the last line does as the one before it."""
    at = text.find("\n", position)
    if at < 0:
        at = text.rfind("\n", 0, position)
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def _common_prefix(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(one), len(other)))


def _fold_typography(line: str) -> str:
    return line.translate(_TYPOGRAPHIC_FOLDING)


_MATCHERS: tuple[Callable[[str, str, str], Iterator[PassageMatch]], ...] = (
    _match_exact,
    partial(_match_lines, form=str.rstrip, indent=False, how="trailing blanks"),
    _match_typographic,
    partial(
        _match_lines,
        form=lambda line: _fold_typography(line).rstrip(),
        indent=False,
        how="trailing blanks, typographic quotes or dashes",
    ),
    partial(_match_lines, form=str.strip, indent=True, how="the depth of indentation"),
    partial(
        _match_lines,
        form=lambda line: _fold_typography(line).strip(),
        indent=True,
        how="the depth of indentation, typographic quotes or dashes",
    ),
)


_MAX_COMPARED_LINES = 20_000
_MIN_SIMILARITY = 0.6
_MAX_SHOWN_LINES = 12


def closest_passages(text: str, old: str, *, count: int = 2) -> str:
    """The passages of the text most like `old`, with line numbers; empty when none is near."""
    wanted = old.strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda k: len(wanted[k].strip()))
    lines = text.split("\n")[:_MAX_COMPARED_LINES]
    near = _nearest_lines(lines, wanted[anchor].strip(), count)
    passages = []
    for number in sorted(near):
        first = max(0, number - anchor)
        shown = lines[first : first + min(len(wanted), _MAX_SHOWN_LINES)]
        passages.append("\n".join(f"{first + k + 1}|{line[:200]}" for k, line in enumerate(shown)))
    return "\n…\n".join(passages)


def _nearest_lines(lines: list[str], wanted: str, count: int) -> list[int]:
    if not wanted:
        return []
    matcher = SequenceMatcher(None, b=wanted, autojunk=False)
    scored = []
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:500])
        # The cheap upper bounds spare nearly every line the dear comparison.
        if (
            matcher.real_quick_ratio() >= _MIN_SIMILARITY
            and matcher.quick_ratio() >= _MIN_SIMILARITY
        ):
            ratio = matcher.ratio()
            if ratio >= _MIN_SIMILARITY:
                scored.append((ratio, number))
    return [number for _, number in nlargest(count, scored)]
