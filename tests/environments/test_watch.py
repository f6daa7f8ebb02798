"""Watched words: found across pieces, quiet when they come too often."""

from hermes.environments.processes.tracked_process import OutputMatch, OutputWatch


def test_a_word_cut_in_two_is_found_when_its_line_ends() -> None:
    watch = OutputWatch(["listening"], 0)
    assert watch.feed(b"now liste") == []
    assert watch.feed(b"ning on 80\nrest") == [OutputMatch("listening", "now listening on 80")]
    assert watch.finish() == []


def test_a_star_stands_for_anything_between() -> None:
    watch = OutputWatch(["GET * 500"], 0)
    assert watch.feed(b"500 GET /\nGET /a 500\n") == [OutputMatch("GET * 500", "GET /a 500")]


def test_a_chatty_pattern_is_counted() -> None:
    now = [0.0]
    watch = OutputWatch(["x"], 10, clock=lambda: now[0])
    assert len(watch.feed(b"x1\nx2\nx3\n")) == 1
    now[0] = 11
    assert watch.feed(b"x4\n") == [OutputMatch("x", "x4 (and 2 more before)")]
    now[0] = 30
    assert watch.feed(b"x5\n") == [OutputMatch("x", "x5")]


def test_a_line_without_end_costs_little() -> None:
    watch = OutputWatch(["end"], 0)
    for _ in range(1000):
        assert watch.feed(b"y" * 10_000) == []
    (match,) = watch.feed(b" the end\n")
    assert len(match.line) <= 600
