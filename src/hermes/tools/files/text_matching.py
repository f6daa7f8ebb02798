"""Finds a passage in a text in spite of other indentation, typography or line ends."""

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from heapq import nlargest

from hermes.core.messages import Value

IndentShift = Callable[[str], str]
"""Moves one line to the other indentation."""


def find_shift(wanted: Sequence[str], found: Sequence[str]) -> IndentShift | None:
    """A function that moves each wanted line to the indentation found; None when no single rule
    does."""
    pairs = [
        (_leading_whitespace(a), _leading_whitespace(b))
        for a, b in zip(wanted, found, strict=True)
        if a.strip()
    ]
    for rule in _shift_rules(*pairs[0]):
        if all(rule(a) == b for a, b in pairs):
            return lambda line: _shift_line(line, rule)
    return None


def keep_indentation(line: str) -> str:
    return line


def _shift_rules(wanted: str, found: str) -> Iterator[IndentShift]:
    yield keep_indentation
    if found.endswith(wanted):
        deeper = found[: len(found) - len(wanted)]
        yield lambda depth: deeper + depth
    if wanted.endswith(found):
        shallower = wanted[: len(wanted) - len(found)]
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
    """A passage of the text, and its replacement."""

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
    for match in _MATCHERS:
        if matches := list(match(text, old, new)):
            return matches
    return []


def replace_passages(text: str, matches: Sequence[PassageMatch]) -> str:
    """The text with each passage replaced; of overlapping ones the leftmost."""
    parts, position = [], 0
    for match in sorted(matches, key=lambda match: match.start):
        if match.start >= position:
            parts += [text[position : match.start], match.replacement]
            position = match.end
    return "".join([*parts, text[position:]])


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
    """One character replaces one character, so positions are the same in both."""
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
        return  # blank lines are everywhere: only matched exactly
    lines = _TextLines(text)
    keys, have = [form(line) for line in wanted], [form(line) for line in lines.bare]
    for at in range(len(have) - len(keys) + 1):
        if have[at] != keys[0] or have[at : at + len(keys)] != keys:
            continue
        found = lines.bare[at : at + len(keys)]
        shift = find_shift(wanted, found) if indent else keep_indentation
        if shift is not None:
            yield _build_match(lines, at, old, new, shift, how)


class _TextLines:
    """A text as lines: content, line end, and start of each."""

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
    found = list(zip(lines.bare[at : last + 1], lines.ends[at : last + 1], strict=True))
    stop = lines.starts[last] + len(lines.bare[last])
    if old.endswith("\n") and lines.ends[last]:
        found.append(("", ""))
        stop += len(lines.ends[last])
    elif old.endswith("\n"):  # the text has no last line end, and gets none
        before = before[:-1]
        after = after[:-1] if new.endswith("\n") else after
    parts: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        parts += found[a:b] if kind == "equal" else [(shift(part), "") for part in after[c:d]]
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
    """The line end at this position; the last line uses that of the line before."""
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
    """The passages of the text most like `old`, with line numbers; empty when none is similar."""
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
        # The cheap upper bounds save the expensive comparison for nearly every line.
        if (
            matcher.real_quick_ratio() >= _MIN_SIMILARITY
            and matcher.quick_ratio() >= _MIN_SIMILARITY
        ):
            ratio = matcher.ratio()
            if ratio >= _MIN_SIMILARITY:
                scored.append((ratio, number))
    return [number for _, number in nlargest(count, scored)]
