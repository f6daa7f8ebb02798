import pytest

from hermes.cli.render.terminal_text import clean, clip, display_width, escape_invisible, wrap


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[2J",
        "\x1b[31;1m",
        "\x9b5A",
        "\x1b]0;owned\x07",
        "\x1b]8;;http://evil\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b_payload\x9c",
        "\x1bc",
        "\x07",
        "\x08\x08\x08",
        "\r",
        "\x00",
        "\x7f",
        "\x85",
        "\u202e",
        "\u2066",
    ],
)
def test_nothing_that_steers_a_terminal_survives(hostile: str) -> None:
    assert clean(f"before{hostile}after") == "beforeafter"


def test_a_sequence_cut_in_two_by_streaming_cannot_come_together_again() -> None:
    printed = clean("safe\x1b") + clean("[2Jtext")
    assert "\x1b" not in printed


def test_an_unfinished_title_sequence_takes_nothing_with_it_but_itself() -> None:
    assert clean("a\x1b]0;no end") == "a"


def test_newlines_tabs_and_wide_letters_stay() -> None:
    text = "one\n\ttwo 日本語 naïve 👩‍🔧"
    assert clean(text) == text
    assert clean("a\r\nb") == "a\nb"


def test_half_a_surrogate_can_still_be_printed() -> None:
    clean("a\ud800b").encode()


def test_for_decisions_every_hidden_character_is_spelled_out() -> None:
    shown = escape_invisible("rm\x1b[2K -rf\r /\u202e\u200b\ttmp\U000e0041")
    assert shown == "rm\\x1b[2K -rf\\x0d /\\u202e\\u200b\\ttmp\\U000e0041"


def test_wide_characters_count_twice_and_combining_ones_not_at_all() -> None:
    assert display_width("日本") == 4
    assert display_width("e\u0301") == 1


@pytest.mark.parametrize("width", [1, 5, 10, 40])
def test_clipped_lines_fit_their_width(width: int) -> None:
    assert display_width(clip("日本語のとても長い行 with words", width)) <= width


@pytest.mark.parametrize("width", [2, 7, 20])
def test_wrapped_rows_fit_and_lose_nothing(width: int) -> None:
    text = "漢字 and words\nnext line"
    rows = wrap(text, width)
    assert all(display_width(row) <= width for row in rows)
    assert "".join(rows) == text.replace("\n", "")
