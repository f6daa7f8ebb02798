"""Tolerant in finding, exact in the result."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hermes.tools.files.text_matching import (
    closest_passages,
    find_passages,
    line_number,
    replace_passages,
)

LINE = st.text(alphabet="ab \t(){}:'\"-é", max_size=8)
TEXT = st.lists(LINE, max_size=12).map("\n".join)


def changed(text: str, old: str, new: str) -> str:
    places = find_passages(text, old, new)
    assert len(places) == 1, places
    return replace_passages(text, places)


@given(TEXT, st.data())
def test_what_is_written_exactly_is_replaced_exactly(text: str, data: st.DataObject) -> None:
    assume(text)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    old, new = text[start:end], data.draw(TEXT)
    places = find_passages(text, old, new)
    assert start in [place.start for place in places]
    assert all(place.how == "" and text[place.start : place.end] == old for place in places)
    assert replace_passages(text, places) == text.replace(old, new)


@given(TEXT, TEXT, TEXT)
def test_every_place_lies_in_the_text_and_the_rest_is_untouched(
    text: str, old: str, new: str
) -> None:
    for place in find_passages(text, old, new):
        assert 0 <= place.start <= place.end <= len(text)
        result = replace_passages(text, [place])
        assert result.startswith(text[: place.start])
        assert result.endswith(text[place.end :])


@given(st.lists(LINE, min_size=1, max_size=10), st.data())
@settings(max_examples=200)
def test_a_crlf_file_keeps_its_line_ends(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\r\n" for line in lines)
    start = data.draw(st.integers(0, len(lines) - 1))
    stop = data.draw(st.integers(start + 1, len(lines)))
    old = "".join(f"{line}\n" for line in lines[start:stop])
    new = "".join(f"{line}\n" for line in data.draw(st.lists(LINE, max_size=4)))
    places = find_passages(text, old, new)
    assert places
    result = replace_passages(text, places[:1])
    assert result.count("\n") == result.count("\r\n")
    assert result.replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, new, 1)


@given(st.lists(LINE.filter(str.strip), min_size=2, max_size=8, unique_by=str.strip), st.data())
def test_lines_found_loosely_but_not_changed_keep_their_form(
    lines: list[str], data: st.DataObject
) -> None:
    blanks = [data.draw(st.sampled_from(["", " ", "  \t"])) for _ in lines]
    text = "".join(f"{line.rstrip()}{b}\n" for line, b in zip(lines, blanks, strict=True))
    old = "".join(f"{line.rstrip()}\n" for line in lines)
    at = data.draw(st.integers(0, len(lines) - 1))
    instead = [line.rstrip() for line in lines]
    instead[at] = "NEW"
    result = changed(text, old, "".join(f"{line}\n" for line in instead))
    expected = text.split("\n")
    expected[at] = "NEW"
    assert result.split("\n") == expected


@given(st.integers(1, 4), st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_another_depth_of_indentation_carries_over_to_the_new_lines(
    shift: int, depths: list[int]
) -> None:
    depths[0] = 0
    written = [f"{'    ' * depth}line{k}" for k, depth in enumerate(depths)]
    text = "\n".join(["start", *(f"{'    ' * shift}{line}" for line in written), "end"])
    new = "\n".join([*written, "    added"])
    result = changed(text, "\n".join(written), new)
    lines = result.split("\n")
    assert lines[-2] == f"{'    ' * shift}    added"
    assert lines[:-2] + lines[-1:] == text.split("\n")


def test_an_over_indented_passage_is_found_and_moved_back() -> None:
    text = "def f():\n    return 1\n"
    assert changed(
        text, "        def f():\n            return 1", "        def f():\n            return 2"
    ) == ("def f():\n    return 2\n")


@pytest.mark.parametrize("width", [2, 4, 8])
def test_spaces_find_tabs_and_tabs_stay_tabs(width: int) -> None:
    text = "if x:\n\tif y:\n\t\treturn 1\n"
    step = " " * width
    old = f"if x:\n{step}if y:\n{step}{step}return 1\n"
    new = f"if x:\n{step}if y:\n{step}{step}return 2\n{step}{step}done()\n"
    assert changed(text, old, new) == "if x:\n\tif y:\n\t\treturn 2\n\t\tdone()\n"


def test_lines_at_uneven_depths_are_not_the_same_passage() -> None:
    assert find_passages("  a\n      b\n", "a\nb\n", "x") == []


def test_typographic_quotes_dashes_and_spaces_are_found_by_plain_ones() -> None:
    text = "He said “it’s fine” – twice.\nEnd “of” it.\n"
    assert changed(text, "it's fine\" - twice", "it's fine\" - once") == (
        "He said “it’s fine” – once.\nEnd “of” it.\n"
    )
    assert changed("a\u00a0b\n", "a b", "a c") == "a\u00a0c\n"


def test_plain_quotes_are_found_by_typographic_ones() -> None:
    assert changed("x = 'a'\n", "x = ‘a’", "x = 'b'") == "x = 'b'\n"


def test_a_stricter_way_wins_over_a_looser_one() -> None:
    text = "  a = 1\n\ta = 1\na = 1\n"
    places = find_passages(text, "\ta = 1", "\ta = 2")
    assert [line_number(text, place.start) for place in places] == [2]


def test_every_occurrence_is_told_also_those_that_overlap() -> None:
    places = find_passages("aaa", "aa", "b")
    assert [place.start for place in places] == [0, 1]
    assert replace_passages("aaa", places) == "ba"


def test_a_missing_last_line_end_stays_missing() -> None:
    assert changed("a\nb", "b\n", "c\n") == "a\nc"
    assert changed("a\n  b ", "b\n", "c\nd\n") == "a\n  c\n  d"
    assert changed("a\nb\n", "b", "c") == "a\nc\n"


def test_whole_lines_can_be_taken_away() -> None:
    assert changed("a\nb \nc\n", "b\n", "") == "a\nc\n"
    assert changed("a\r\nb\r\nc\r\n", "b\n", "") == "a\r\nc\r\n"


def test_a_new_line_in_the_middle_of_a_crlf_line_ends_like_its_line() -> None:
    assert changed("one two\r\nthree\r\n", "one two", "one\ntwo") == "one\r\ntwo\r\nthree\r\n"
    assert changed("one\r\ntwo", "two", "a\nb") == "one\r\na\r\nb"


def test_nothing_and_blank_lines_are_never_found_loosely() -> None:
    assert find_passages("a\n \nb\n", "", "x") == []
    assert find_passages("a\n \t\nb\n", "   \n", "x\n") == []


def test_the_nearest_lines_are_shown_with_their_numbers() -> None:
    text = (
        "import os\n\n\ndef total(values):\n    return sum(values)\n\ndef mean(values):\n    pass\n"
    )
    shown = closest_passages(text, "def totals(value):\n    return sum(value)\n")
    assert shown.splitlines()[:2] == ["4|def total(values):", "5|    return sum(values)"]
    assert closest_passages(text, "nothing like this anywhere 12345") == ""
    assert closest_passages(text, "\n\n") == ""
