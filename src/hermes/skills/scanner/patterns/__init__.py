"""Loads the patterns of the scanner from TOML files, and the names of well-known packages."""

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, lru_cache
from itertools import product
from pathlib import Path
from re import _compiler, _parser  # type: ignore[attr-defined]
from typing import Any

from hermes.core.messages import Value

MAX_LITERALS = 400
"""Alternatives of a pattern that are followed up; more say nothing."""
LiteralGroups = tuple[frozenset[str], ...]
_Literals = tuple[frozenset[str] | None, LiteralGroups]
"""All texts that a part of a pattern matches, None when they are not few; and what it requires."""


class LazyPattern:
    """A pattern that is compiled at its first use: most skills need few of them."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        compiled: re.Pattern[str] = _compiler.compile(parse_pattern(self), self.flags)
        return compiled

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)

    def match(self, text: str, begin: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        return self._compiled.match(text, begin, end)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)

    def finditer(
        self, text: str, begin: int = 0, end: int = sys.maxsize
    ) -> Iterator[re.Match[str]]:
        return self._compiled.finditer(text, begin, end)


SearchPattern = re.Pattern[str] | LazyPattern


class ScanPattern(Value, frozen=True):
    pattern: LazyPattern
    cause: str


def may_match(pattern: SearchPattern, lowered: str) -> bool:
    """Return whether it can occur in a text that is in lower case; much faster than a search."""
    contains = find_word_test(lowered)
    return all(any(map(contains, group)) for group in find_required_literals(pattern))


TRIGRAM_MIN_CHARS = 1_000
"""For a shorter text, collecting its trigrams takes longer than searching it for words."""


def find_word_test(text: str) -> Callable[[str], bool]:
    """A test whether a word occurs in the text, for thousands of words."""
    if len(text) < TRIGRAM_MIN_CHARS:
        return text.__contains__
    trigrams = collect_trigrams(text)

    def contains(word: str) -> bool:
        ends = (word[:3], word[-3:]) if len(word) > 2 else ()
        for end in ends:
            if end not in trigrams and " " not in end:
                return False
        return word in text

    return contains


@lru_cache(maxsize=4)
def collect_trigrams(text: str) -> set[str]:
    """Those within words."""
    return {word[at : at + 3] for word in set(text.split()) for at in range(len(word) - 2)}


@cache
def parse_pattern(pattern: SearchPattern) -> Any:
    """Once for all that is asked of it: parsing takes longer than most searches."""
    return _parser.parse(pattern.pattern, pattern.flags)


def fold_letter(letter: str) -> str:
    """In lower case; always one letter, so that positions stay the same."""
    return letter.casefold()[0]


@cache
def find_required_literals(pattern: SearchPattern) -> LiteralGroups:
    """Groups of words without spaces, in lower case: every match contains one of each group."""
    literals, groups = _read_sequence(parse_pattern(pattern))
    return (*groups, *_literal_group(literals))


def _read_sequence(nodes: Iterable[tuple[Any, Any]]) -> _Literals:
    exact, groups, whole = frozenset({""}), list[frozenset[str]](), True
    for name, value in nodes:
        literals, inner = _read_node(str(name), value)
        if literals is not None and len(exact) * len(literals) <= MAX_LITERALS:
            exact = frozenset(a + b for a, b in product(exact, literals))
        else:
            groups += (*inner, *_literal_group(exact), *_literal_group(literals))
            exact, whole = frozenset({""}), False
    return (exact, ()) if whole else (None, (*groups, *_literal_group(exact)))


def _read_node(name: str, value: Any) -> _Literals:
    if name == "LITERAL":
        return frozenset({fold_letter(chr(value))}), ()
    if name in ("AT", "ASSERT", "ASSERT_NOT"):
        return frozenset({""}), ()
    if name == "IN" and len(value) <= 4 and all(str(kind) == "LITERAL" for kind, _ in value):
        return frozenset(fold_letter(chr(code)) for _, code in value), ()
    if name == "SUBPATTERN":
        return _read_sequence(value[3])
    if name == "BRANCH":
        return _read_branches([_read_sequence(each) for each in value[1]])
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        low, high, body = value
        literals, groups = _read_sequence(body)
        if low == 0:
            return (literals | {""} if literals is not None and high == 1 else None), ()
        return (literals, groups) if high == 1 else (None, (*groups, *_literal_group(literals)))
    return None, ()


def _read_branches(branches: list[_Literals]) -> _Literals:
    exact = [literals for literals, _ in branches if literals is not None]
    united = frozenset(each for literals in exact for each in literals)
    if len(exact) == len(branches) and len(united) <= MAX_LITERALS:
        return united, ()
    found: frozenset[str] = frozenset()
    for literals, groups in branches:
        best = max((*groups, *_literal_group(literals)), key=_shortest, default=None)
        if best is None:
            return None, ()
        found |= best
    return None, (found,)


def _literal_group(literals: frozenset[str] | None) -> LiteralGroups:
    """Nothing when one of them is too short to tell texts apart."""
    words = {max(each.split() or [""], key=len) for each in literals or {""}}
    return (frozenset(words),) if _shortest(words) >= 2 else ()


def _shortest(words: Iterable[str]) -> int:
    return min((len(word.encode()) for word in words), default=0)


def read_pattern_file(file: str) -> dict[str, Any]:
    text = (Path(__file__).parent / f"{file}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def load_patterns(file: str, table: str) -> tuple[ScanPattern, ...]:
    data = read_pattern_file(file)
    fragments = {name: _join_lines(text) for name, text in data.get("fragments", {}).items()}
    return tuple(
        ScanPattern(
            LazyPattern(_fill_fragments(row["pattern"], fragments), re.IGNORECASE),
            row.get("cause", ""),
        )
        for row in data[table]
    )


@cache
def load_pattern(file: str, table: str) -> LazyPattern:
    """The pattern of a table that has only one."""
    return load_patterns(file, table)[0].pattern


@cache
def read_popular_packages() -> dict[str, str]:
    """Well-known package names, by the name without separators."""
    text = (Path(__file__).parent / "popular_packages.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {replace_separators(name): name for line in lines for name in line.split()}


def replace_separators(name: str, separator: str = "") -> str:
    return re.sub(r"[-_.]+", separator, name.casefold())


def _join_lines(text: str) -> str:
    return text.replace("\n", "")


def _fill_fragments(pattern: str, fragments: dict[str, str]) -> str:
    named = re.compile(f"<<({'|'.join(fragments) or '-'})>>")
    pattern = _join_lines(pattern)
    while found := named.search(pattern):
        pattern = pattern[: found.start()] + fragments[found[1]] + pattern[found.end() :]
    return pattern
