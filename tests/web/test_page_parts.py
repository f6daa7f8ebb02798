"""What a browser with one version of a page is sent to have the next one."""

import msgspec

from hermes.web.page_parts import RenderedPage, split_page
from hermes.web.templating import mark_commands


def page(*rows: str, head: str = "Incidents", title: str = "Hermes") -> RenderedPage:
    table = f"<tbody>{' '.join(rows)}</tbody>" if rows else "<p>None</p>"
    return split_page(
        f'<title>{title}</title><body data-version="">'
        '<!--part--><nav id="side"></nav><!--/part-->\n'
        f'<!--part--><main class="a" id="main">{head}{table}</main><!--/part--></body>'
    )


def row(id: str, text: str = "x") -> str:
    return f'<!--part--><tr id="{id}"><td>{text}</td></tr><!--/part-->'


def test_marks_are_not_sent_and_the_page_names_its_version() -> None:
    shown = page(row("a"))
    assert "part-->" not in shown.html
    assert f'data-version="{shown.outline.version}"' in shown.html
    assert shown.part_html("a") == '<tr id="a"><td>x</td></tr>'


def test_the_same_page_differs_in_nothing() -> None:
    patch = page(row("a")).patch_from(page(row("a")).outline)
    assert msgspec.to_builtins(patch) == {"from": patch.base, "to": patch.base}


def test_only_the_changed_row_is_sent() -> None:
    patch = page(row("a"), row("b", "new")).patch_from(page(row("a"), row("b")).outline)
    assert patch.replaced == {"b": '<tr id="b"><td>new</td></tr>'}
    assert (patch.removed, patch.ordered, patch.title) == ([], [], "")


def test_added_removed_and_moved_rows_come_with_their_order() -> None:
    patch = page(row("c"), row("b"), row("d")).patch_from(
        page(row("a"), row("b"), row("d")).outline
    )
    assert list(patch.replaced) == ["c"]
    assert (patch.removed, patch.ordered) == (["a"], [["c", "b", "d"]])


def test_what_is_around_the_rows_is_sent_whole() -> None:
    known = page(row("a")).outline
    for shown in (page(row("a"), head="Open"), page()):
        assert list(shown.patch_from(known).replaced) == ["main"]
    assert page(row("a"), title="P0 &amp; more").patch_from(known).title == "P0 & more"


def test_a_row_that_moves_to_another_list_replaces_what_holds_both() -> None:
    def two_lists(*ids: str) -> RenderedPage:
        first, second = "".join(map(row, ids[:-1])), row(ids[-1])
        return split_page(
            f'<!--part--><main id="main"><ul>{first}</ul><ul>{second}</ul></main><!--/part-->'
        )

    patch = two_lists("a", "c", "b").patch_from(two_lists("a", "b", "c").outline)
    assert list(patch.replaced) == ["main"]


def test_times_that_the_browser_counts_are_no_difference() -> None:
    def shown(text: str) -> RenderedPage:
        return page(row("a", f'<time datetime="2026-11-18" data-ago title="t">{text}</time>'))

    assert shown("4 s ago").outline == shown("9 s ago").outline


def test_a_browser_with_an_unknown_version_gets_every_part() -> None:
    patch = page(row("a")).patch_from(None)
    assert (patch.base, list(patch.replaced)) == ("", ["side", "main"])
    assert "part-->" not in patch.replaced["main"]


def test_a_sentence_shows_its_commands_as_code_and_hides_nothing() -> None:
    shown = mark_commands("no incident <x>; `hermes incident list` shows\u202e them")
    wanted = "No incident &lt;x&gt;; <code>hermes incident list</code> shows\\u202e them"
    assert str(shown) == wanted
    assert str(mark_commands("one ` alone <b>")) == "One ` alone &lt;b&gt;"
