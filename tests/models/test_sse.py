"""Event streams cut and spelt in every way a server may choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import MalformedReply
from hermes.models.remote import MAX_EVENT_BYTES, AnswerParser, SseParser

STREAM = (
    ": welcome\n\n"
    'event: delta\ndata: {"t": "grüße 🙂"}\n\n'
    "data:no space\r\n\r\n"
    "data: both\r\ndata: ends\r\n\r\n"
    "data: two\rdata: lines\r\r"
    "event: ping\ndata: {}\n\n"
    "id: 7\nretry: 10\n\n"
    "data: last"
).encode()
EVENTS = ['{"t": "grüße 🙂"}'.encode(), b"no space", b"both\nends", b"two\nlines", b"last"]


@given(st.lists(st.integers(0, len(STREAM))))
def test_a_stream_reads_the_same_however_it_is_cut(cuts: list[int]) -> None:
    parser, events, before = AnswerParser(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        events += parser.feed(STREAM[before:cut])
        before = cut
    assert events + parser.flush() == EVENTS


def test_events_come_as_soon_as_they_are_whole() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n\ndata: b\n") == [b"a"]
    assert parser.feed(b"\n") == [b"b"]


def test_an_answer_that_is_no_stream_is_handed_on_whole() -> None:
    parser = AnswerParser()
    assert parser.feed(b'\n {"a":') == []
    assert parser.feed(b" 1}") == []
    assert parser.flush() == [b'\n {"a": 1}']


def test_an_event_that_never_ends_is_refused() -> None:
    parser = SseParser()
    with pytest.raises(MalformedReply):
        for _ in range(MAX_EVENT_BYTES // 1000 + 2):
            parser.feed(b"data: " + b"x" * 994)


def test_many_lines_without_an_end_are_refused_too() -> None:
    parser = SseParser()
    with pytest.raises(MalformedReply):
        for _ in range(MAX_EVENT_BYTES // 1000 + 2):
            parser.feed(b"data: " + b"x" * 1000 + b"\n")


def test_a_long_stream_of_small_events_is_not_a_long_event() -> None:
    parser = SseParser()
    piece = b"data: " + b"x" * 1000 + b"\n\n"
    assert (
        sum(len(parser.feed(piece)) for _ in range(MAX_EVENT_BYTES // 500))
        == MAX_EVENT_BYTES // 500
    )
