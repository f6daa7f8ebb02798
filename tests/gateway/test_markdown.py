"""Markdown is parsed once, split without loss, and rendered so that no text becomes a mark."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.gateway.markdown import (
    StyledText,
    parse_markdown,
    plain_text,
    render_text,
    split_text,
    text_length,
)

DOCUMENTS = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(
            ["**", "*", "_", "`", "```", "```py\n", "\n", "\n\n", "- ", "1. ", "> ", "# ", "~~"]
        ),
        st.sampled_from(["[a](https://b.c)", "![i](http://x)", "<b>", "  ", "👩‍👩‍👧‍👦", "word"]),
    ),
    max_size=40,
).map("".join)
FORMATS = st.sampled_from(["plain", "markdown", "mrkdwn", "html"])
UNITS = st.sampled_from(["utf16", "code points", "bytes"])


@given(DOCUMENTS)
def test_spans_are_ordered_and_within_the_text(text: str) -> None:
    styled = parse_markdown(text)
    assert list(styled.spans) == sorted(styled.spans, key=lambda s: (s.start, -s.end))
    assert all(0 <= s.start < s.end <= len(styled.text) for s in styled.spans)


@given(DOCUMENTS, st.integers(30, 200), FORMATS, UNITS)
def test_pieces_fit_and_no_word_is_lost(text: str, max_size: int, format: str, unit: str) -> None:
    styled = parse_markdown(text)

    def size(piece: StyledText) -> int:
        return text_length(render_text(piece, format), unit)

    pieces = split_text(styled, max_size, size)
    assert all(size(piece) <= max_size or len(piece.text) == 1 for piece in pieces)
    joined = "".join("".join(piece.text.split()) for piece in pieces)
    assert joined == "".join(styled.text.split())
    assert all(piece.text for piece in pieces)


@given(DOCUMENTS)
def test_every_character_keeps_its_style_in_the_pieces(text: str) -> None:
    styled = parse_markdown(text)
    wanted = [each for each in _styles(styled) if not each[0].isspace()]
    pieces = split_text(styled, 10, lambda piece: len(piece.text))
    found = [each for piece in pieces for each in _styles(piece) if not each[0].isspace()]
    assert found == wanted


def _styles(styled: StyledText) -> list[tuple[str, frozenset[str]]]:
    return [
        (character, frozenset(s.style for s in styled.spans if s.start <= at < s.end))
        for at, character in enumerate(styled.text)
    ]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"])))
def test_plain_text_rendered_as_markdown_is_read_as_the_same_words(text: str) -> None:
    rendered = render_text(plain_text(text), "markdown")
    again = parse_markdown(rendered)
    assert again.text.split() == text.split()
    assert not [s for s in again.spans if s.style != "pre"]


@given(st.text(max_size=50))
def test_no_text_becomes_html_or_a_link_of_slack(text: str) -> None:
    assert "<" not in render_text(plain_text(text), "html")
    assert "<" not in render_text(plain_text(text), "mrkdwn")


def test_a_document_becomes_text_and_spans() -> None:
    styled = parse_markdown(
        "# Head\n\nSome **bold *both*** and `code` [link](https://x.y).\n\n- one\n- two\n\n"
        "```python\nx = 1\n```\n"
    )
    assert styled.text == "Head\n\nSome bold both and code link.\n\n• one\n• two\n\nx = 1"
    shown = [(styled.text[s.start : s.end], s.style, s.value) for s in styled.spans]
    assert shown == [
        ("Head", "bold", ""),
        ("bold both", "bold", ""),
        ("both", "italic", ""),
        ("code", "code", ""),
        ("link", "link", "https://x.y"),
        ("x = 1", "pre", "python"),
    ]


def test_a_code_block_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number}" for number in range(20))
    styled = parse_markdown(f"```sh\n{code}\n```")
    pieces = split_text(styled, 80, lambda piece: len(render_text(piece, "markdown")))
    assert len(pieces) > 2
    for piece in pieces:
        rendered = render_text(piece, "markdown")
        assert rendered.startswith("```sh\n")
        assert rendered.endswith("\n```")


def test_a_text_is_cut_at_a_paragraph_then_at_a_line_then_at_a_word() -> None:
    def pieces(text: str) -> list[str]:
        return [p.text for p in split_text(plain_text(text), 12, lambda p: len(p.text))]

    assert pieces("one two\n\nthree four") == ["one two", "three four"]
    assert pieces("one two\nthree four") == ["one two", "three four"]
    assert pieces("one two three four") == ["one two ", "three four"]
    assert pieces("x" * 20) == ["x" * 12, "x" * 8]


def test_an_emoji_counts_twice_in_utf_16_and_is_not_cut() -> None:
    pieces = split_text(plain_text("🚨" * 10), 5, lambda p: text_length(p.text, "utf16"))
    assert [len(piece.text) for piece in pieces] == [2] * 5


@pytest.mark.parametrize("link", ["javascript:alert(1)", "file:///etc/passwd", "data:x"])
def test_a_link_to_something_else_than_a_page_is_text(link: str) -> None:
    assert not parse_markdown(f"[words]({link})").spans
