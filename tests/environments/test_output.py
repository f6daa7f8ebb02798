"""Head, tail and window keep the right bytes, whatever the pieces they come in."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.environments.processes.output import BoundedOutput, RollingOutput, whole_characters

pieces = st.lists(st.binary(max_size=40), max_size=30)


@given(pieces, st.integers(1, 50), st.integers(1, 50))
def test_a_capture_keeps_head_and_tail(data: list[bytes], head: int, tail: int) -> None:
    capture, stream = BoundedOutput(head, tail), b"".join(data)
    for piece in data:
        capture.feed(piece)
    assert capture.dropped == max(0, len(stream) - head - tail)
    if not capture.dropped:
        assert capture.text() == stream.decode("utf-8", "replace")


def test_a_capture_says_how_much_is_missing_and_cuts_no_character() -> None:
    capture = BoundedOutput(5, 5)
    capture.feed("aéééééééé".encode() + b"z")
    text = capture.text()
    assert text.startswith("aéé\n[… ")
    assert text.endswith("…]\nééz")
    assert "\ufffd" not in text


@given(pieces, st.integers(1, 60), st.integers(0, 400))
def test_a_window_keeps_the_last_bytes(data: list[bytes], size: int, position: int) -> None:
    window, stream = RollingOutput(size), b"".join(data)
    for piece in data:
        window.feed(piece)
    assert window.total == len(stream)
    assert window.since(0).data == stream[-size:]
    since = window.since(min(position, len(stream)))
    assert since.data == stream[since.start :]
    assert since.start >= min(position, len(stream))


@given(st.text(max_size=20), st.integers(0, 3))
def test_a_cut_character_waits_for_its_rest(text: str, cut: int) -> None:
    data = text.encode("utf-8", "ignore")
    short = data[: len(data) - cut]
    assert data.startswith(whole_characters(short))
    whole_characters(short).decode("utf-8")
