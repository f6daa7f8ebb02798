"""Searches for a pattern only near the words that each of its matches contains.

A window around such a word holds the whole match, and what the pattern looks at after it, so that
the matches are the same as those of a search through the whole text.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, lru_cache
from re import _constants  # type: ignore[attr-defined]
from typing import Any

from hermes.core.messages import Value
from hermes.skills.scanner.match_starts import find_match_starts
from hermes.skills.scanner.patterns import (
    SearchPattern,
    find_required_literals,
    find_word_test,
    fold_letter,
    parse_pattern,
)
from hermes.skills.scanner.word_search import find_all

MIN_INDEXED_CHARS = 100
"""A shorter text is searched as a whole."""
MAX_WINDOW_CHARS = 4_000
_SPACES = re.compile(r"\s{2,}")
_WORD_CLASSES = ("CATEGORY_WORD", "CATEGORY_NOT_SPACE", "CATEGORY_DIGIT")
_NEWLINE = 10


class MatchExtent(Value, frozen=True):
    """How far a match reaches at most: characters, and runs that only the text limits."""

    chars: int = 0
    words: int = 0
    spaces: int = 0
    lines: int = 0

    def joined(self, other: "MatchExtent") -> "MatchExtent":
        return MatchExtent(
            self.chars + other.chars,
            self.words + other.words,
            self.spaces + other.spaces,
            self.lines + other.lines,
        )

    def repeated(self, times: int) -> "MatchExtent":
        return MatchExtent(
            self.chars * times, self.words * times, self.spaces * times, self.lines * times
        )


class IndexedText:
    """A text, and where words occur in it, without regard to case."""

    def __init__(self, text: str) -> None:
        self.text = text
        lowered = text.casefold()
        if len(lowered) != len(text):
            # Some letters become two: positions must stay those of the text.
            lowered = "".join(map(fold_letter, text))
        # `re` also takes the Turkish letter for an i.
        self.lowered = lowered = lowered.replace("ı", "i")
        self._contains = find_word_test(lowered)
        self._positions: dict[str, list[int]] = {}

    def may_match(self, pattern: SearchPattern) -> bool:
        return all(any(map(self._contains, group)) for group in find_required_literals(pattern))

    def find_matches(self, pattern: SearchPattern) -> Iterator[re.Match[str]]:
        """The same as `pattern.finditer`."""
        if not self.may_match(pattern):
            return
        windows = self._find_windows(pattern)
        starts = find_match_starts(pattern)
        if starts is not None:
            yield from self._match_at(pattern, self._select_positions(starts, windows))
            return
        if windows is None:
            yield from pattern.finditer(self.text)
            return
        last_end = 0
        for begin, end in windows:
            for found in pattern.finditer(self.text, max(begin, last_end), end):
                last_end = found.end()
                yield found

    def _match_at(
        self, pattern: SearchPattern, positions: Iterable[int]
    ) -> Iterator[re.Match[str]]:
        last_end = 0
        for at in positions:
            if at >= last_end and (found := pattern.match(self.text, at)):
                last_end = found.end()
                yield found

    def _select_positions(
        self, starts: Iterable[str], windows: list[tuple[int, int]] | None
    ) -> Iterator[int]:
        positions = self.find_words(starts)
        if windows is None:
            yield from positions
            return
        for begin, end in windows:
            yield from positions[bisect_left(positions, begin) : bisect_left(positions, end)]

    def find_first(self, pattern: SearchPattern) -> re.Match[str] | None:
        """The same as `pattern.search`."""
        return next(self.find_matches(pattern), None)

    def _find_windows(self, pattern: SearchPattern) -> list[tuple[int, int]] | None:
        """None when it is to be searched in the whole text."""
        reach, after = measure_extent(pattern)
        groups = find_required_literals(pattern)
        if reach is None or after is None or not groups:
            return None
        width, margin = self._count_chars(reach), self._count_chars(after) + 2
        if width > MAX_WINDOW_CHARS:
            return None
        at = min((self.find_words(group) for group in groups), key=len)
        windows: list[tuple[int, int]] = []
        for position in at:
            begin, end = max(0, position - width), position + width + margin
            if windows and begin <= windows[-1][1]:
                windows[-1] = windows[-1][0], end
            else:
                windows.append((begin, end))
        return windows

    def find_words(self, words: Iterable[str]) -> list[int]:
        return sorted(at for word in words for at in self._find_word(word))

    def _find_word(self, word: str) -> list[int]:
        if word not in self._positions:
            known = self._contains(word)
            self._positions[word] = list(find_all(word, self.lowered)) if known else []
        return self._positions[word]

    def _count_chars(self, extent: MatchExtent) -> int:
        longest_word, longest_space, longest_line = self._longest_runs
        return (
            extent.chars
            + extent.words * longest_word
            + extent.spaces * longest_space
            + extent.lines * longest_line
        )

    @cached_property
    def _longest_runs(self) -> tuple[int, int, int]:
        return (
            max(map(len, self.text.split()), default=0),
            max((len(found[0]) for found in _SPACES.finditer(self.text)), default=1),
            max(map(len, self.text.split("\n"))),
        )


@lru_cache(maxsize=16)
def index_text(text: str) -> IndexedText:
    return IndexedText(text)


def find_matches(pattern: SearchPattern, text: str) -> Iterator[re.Match[str]]:
    """The same as `pattern.finditer`, and much faster in a long text."""
    if len(text) < MIN_INDEXED_CHARS:
        return pattern.finditer(text)
    return index_text(text).find_matches(pattern)


def find_first(pattern: SearchPattern, text: str) -> re.Match[str] | None:
    """The same as `pattern.search`."""
    return next(find_matches(pattern, text), None)


class IndexedLines:
    """Lines of which each pattern is only tried on those that contain the words it needs."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._starts = [0]
        for each in lines:
            self._starts.append(self._starts[-1] + len(each) + 1)
        self._index = IndexedText("\n".join(lines))

    def find_candidates(self, pattern: SearchPattern) -> Sequence[int]:
        """The numbers of the lines in which it can occur, in order."""
        candidates: set[int] | None = None
        for group in find_required_literals(pattern):
            found = {bisect_right(self._starts, at) - 1 for at in self._index.find_words(group)}
            candidates = found if candidates is None else candidates & found
        return range(len(self._lines)) if candidates is None else sorted(candidates)


_Extents = tuple[MatchExtent | None, MatchExtent | None]
"""Of a match, and of what it looks at behind its end; None when nothing limits it."""


@cache
def measure_extent(pattern: SearchPattern) -> _Extents:
    if pattern.flags & re.DOTALL:
        return None, None
    return _measure_sequence(parse_pattern(pattern))


def _measure_sequence(nodes: Iterable[tuple[Any, Any]]) -> _Extents:
    whole, after = MatchExtent(), MatchExtent()
    for name, value in nodes:
        reach, ahead = _measure_node(str(name), value)
        if reach is None or ahead is None:
            return None, None
        whole, after = whole.joined(reach), after.joined(ahead)
    return whole, after


def _measure_node(name: str, value: Any) -> _Extents:
    if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY", "RANGE"):
        return MatchExtent(chars=1), MatchExtent()
    if name == "AT":
        return MatchExtent(), MatchExtent()
    if name in ("ASSERT", "ASSERT_NOT"):
        reach, ahead = _measure_sequence(value[1])
        if reach is None or ahead is None:
            return None, None
        return MatchExtent(), reach.joined(ahead)
    if name == "SUBPATTERN" and not value[1] & re.DOTALL:
        return _measure_sequence(value[3])
    if name == "ATOMIC_GROUP":
        return _measure_sequence(value)
    if name == "BRANCH":
        return _measure_branches([_measure_sequence(each) for each in value[1]])
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _measure_repeat(*value)
    return None, None


def _measure_branches(branches: list[_Extents]) -> _Extents:
    """The largest of each, so that no branch reaches further."""
    whole, after = MatchExtent(), MatchExtent()
    for reach, ahead in branches:
        if reach is None or ahead is None:
            return None, None
        whole, after = _largest(whole, reach), _largest(after, ahead)
    return whole, after


def _largest(one: MatchExtent, other: MatchExtent) -> MatchExtent:
    return MatchExtent(
        max(one.chars, other.chars),
        max(one.words, other.words),
        max(one.spaces, other.spaces),
        max(one.lines, other.lines),
    )


def _measure_repeat(_low: int, high: int, body: Sequence[tuple[Any, Any]]) -> _Extents:
    if high is not _constants.MAXREPEAT:
        reach, ahead = _measure_sequence(body)
        limited = None if reach is None else reach.repeated(int(high))
        return limited, None if ahead is None else ahead.repeated(int(high))
    if len(body) != 1:
        return None, None
    name, value = str(body[0][0]), body[0][1]
    members = value if name == "IN" else [body[0]]
    return _limit_run([(str(kind), each) for kind, each in members]), MatchExtent()


def _limit_run(members: Sequence[tuple[str, Any]]) -> MatchExtent | None:
    """A run of one class ends with the word, the spaces or the line that it is in."""
    if all(_is_of_words(kind, value) for kind, value in members):
        return MatchExtent(words=1)
    if all(kind == "CATEGORY" and str(value) == "CATEGORY_SPACE" for kind, value in members):
        return MatchExtent(spaces=1)
    if all(kind == "LITERAL" and chr(value) in " \t" for kind, value in members):
        return MatchExtent(spaces=1)
    if members[0][0] == "NEGATE":
        excluded = [(kind, str(value)) for kind, value in members]
        if ("CATEGORY", "CATEGORY_SPACE") in excluded:
            return MatchExtent(words=1)
        return MatchExtent(lines=1) if ("LITERAL", str(_NEWLINE)) in excluded else None
    in_line = all(
        _is_of_words(kind, value)
        or kind == "ANY"
        or (kind == "NOT_LITERAL" and value == _NEWLINE)
        or (kind == "LITERAL" and value != _NEWLINE)
        for kind, value in members
    )
    return MatchExtent(lines=1) if in_line else None


def _is_of_words(kind: str, value: Any) -> bool:
    if kind == "CATEGORY":
        return str(value) in _WORD_CLASSES
    if kind == "LITERAL":
        return not chr(value).isspace()
    return kind == "RANGE" and value[0] > 32 and value[1] < 127
