"""Parts of a changed text file can be reverted in any combination."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.declared.experiments.text_parts import render_diff, revert_parts, split_change

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d\r", "e\x0bf"]), max_size=12).map(
    lambda lines: "\n".join(lines).encode()
)


@given(TEXTS, TEXTS)
def test_all_parts_reverted_is_the_old_file_and_none_the_new_one(
    before: bytes, after: bytes
) -> None:
    parts = split_change(before, after)
    assert revert_parts(before, after, parts, range(len(parts))) == before
    assert revert_parts(before, after, parts, ()) == after


@given(TEXTS, TEXTS, st.data())
def test_the_parts_of_a_partly_reverted_file_are_the_others(
    before: bytes, after: bytes, data: st.DataObject
) -> None:
    parts = split_change(before, after)
    numbers = st.frozensets(st.integers(0, len(parts) - 1)) if parts else st.just(frozenset())
    reverted = data.draw(numbers)
    mixed = revert_parts(before, after, parts, reverted)
    if not reverted:
        assert mixed == after
    if len(reverted) == len(parts):
        assert mixed == before


def test_neighbouring_lines_are_parts_of_their_own() -> None:
    before, after = (
        b"port = 1\nworkers = 4\nlevel = info\n",
        b"port = 2\nworkers = 4;\nlevel = info\n",
    )
    parts = split_change(before, after)
    assert len(parts) == 2
    assert revert_parts(before, after, parts, {1}) == b"port = 2\nworkers = 4\nlevel = info\n"


def test_a_removed_line_is_apart_from_an_edit_of_its_neighbour() -> None:
    before = b"[Service]\nEnvironment=PAGE_SIZE=20\nEnvironment=REGION=eu\nNice=0\n"
    after = b"[Service]\nEnvironment=PAGE_SIZE=50\nNice=0\n"
    parts = split_change(before, after)
    assert len(parts) == 2
    region_back = b"[Service]\nEnvironment=PAGE_SIZE=50\nEnvironment=REGION=eu\nNice=0\n"
    assert region_back in [revert_parts(before, after, parts, {n}) for n in range(2)]


def test_an_added_line_is_apart_from_an_edit_of_its_neighbour() -> None:
    before, after = b"workers = 4\nport = 80\n", b"mode = strict\nworkers = 8\nport = 80\n"
    parts = split_change(before, after)
    assert [revert_parts(before, after, parts, {n}) for n in range(len(parts))] == [
        b"workers = 8\nport = 80\n",
        b"mode = strict\nworkers = 4\nport = 80\n",
    ]


def test_a_line_that_moved_up_is_not_taken_for_another_one() -> None:
    before, after = b"level = info\nworkers = 4\n", b"workers = 8\nqueue = 9\n"
    parts = split_change(before, after)
    one_reverted = [revert_parts(before, after, parts, {n}) for n in range(len(parts))]
    assert b"workers = 4\nqueue = 9\n" in one_reverted


def test_lines_without_an_end_stay_one_part() -> None:
    parts = split_change(b"a = 1\nb = 2\nc = 3", b"a = 2\nc = 4")
    assert len(parts) == 1


def test_a_binary_file_has_no_parts() -> None:
    assert split_change(b"\0\1", b"\0\2") == ()
    assert split_change(b"\xff\xfe", b"text") == ()
    assert render_diff(b"\0", b"\0\0", "/a") == "/a: 1 bytes became 2 bytes"


def test_the_diff_shows_only_lines_that_differ() -> None:
    shown = render_diff(b"a\nb\nc\n", b"a\nB\nc\n", "/etc/x")
    assert shown == "-b\n+B"


def test_settings_that_were_added_or_removed_in_a_row_are_parts_of_their_own() -> None:
    before, more = b"a = 1\n", b"b = 2\n\tc: 3\nd = 4\n"
    for old, new in ((before, before + more), (before + more, before)):
        parts = split_change(old, new)
        assert len(parts) == 3
        assert revert_parts(old, new, parts, {0, 1, 2}) == old
        assert revert_parts(old, new, parts, set()) == new
    parts = split_change(before, before + more)
    assert revert_parts(before, before + more, parts, {1}) == b"a = 1\nb = 2\nd = 4\n"
    parts = split_change(before + more, before)
    assert revert_parts(before + more, before, parts, {1}) == b"a = 1\n\tc: 3\n"


def test_a_block_that_was_added_stays_whole() -> None:
    for block in (b"server {\n  listen = 80\n}\n", b"routes:\n  a: 1\n", b"if x == 1:\n  y = 2\n"):
        assert len(split_change(b"a = 1\n", b"a = 1\n" + block)) == 1
