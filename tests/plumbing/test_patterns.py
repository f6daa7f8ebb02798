"""Regular expressions are compiled at their first use, and then work as usual."""

import re

import pytest

from hermes.plumbing.patterns import lazy_pattern


def test_it_works_as_a_compiled_pattern() -> None:
    for _ in range(2):
        words = lazy_pattern(r"(\w)\w+", re.IGNORECASE)
        assert words.findall("ab cd") == ["a", "c"]
        assert words.sub(r"\1", "ab cd") == "a c"
        assert (words.pattern, words.groups) == (r"(\w)\w+", 1)
    assert lazy_pattern(rb"\d+").search(b"a12").group() == b"12"  # type: ignore[union-attr]


def test_a_mistake_shows_at_the_first_use_and_not_before() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("x")
