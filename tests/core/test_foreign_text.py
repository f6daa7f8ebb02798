from hermes.core.foreign_text import one_line, shorten_middle, visible_line, visible_text


def test_one_line_collapses_spaces_and_marks_a_cut() -> None:
    assert one_line("a\n  b\tc", 5) == "a b c"
    assert one_line("abcdef", 5) == "abcd…"
    assert one_line("", 5) == ""


def test_one_line_reads_only_the_beginning_of_a_huge_text() -> None:
    assert one_line("ab " * 10_000_000, 6) == "ab ab…"


def test_visible_text_has_no_control_sequences_and_no_invisible_characters() -> None:
    assert visible_text("\x1b[31mred\x1b[0m\u200b\n\tx\x07\u2028") == "red\n\tx"
    assert visible_line("\x1b]0;title\x07one\ntwo\u202e", 20) == "one two"


def test_shorten_middle_keeps_head_and_tail() -> None:
    assert shorten_middle("abc", 3) == "abc"
    assert shorten_middle("a" * 10 + "b" * 10, 5) == "aa\n[… 15 characters left out …]\nbbb"
    assert shorten_middle("abcdef", 0) == "a\n[… 4 characters left out …]\nf"
    assert shorten_middle("abcdef", 2, "GONE") == "a\n[… 4 GONE …]\nf"
