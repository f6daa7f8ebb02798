"""Real pages in a real Chromium: what is shown, what acts change, and pages that misbehave."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser_pages import SharedBrowser, needs_chromium, page_server, reference, shared_browser

from hermes.core.errors import ToolError
from hermes.integrations.browser.session import BrowserLimits

pytestmark = [pytest.mark.command, needs_chromium]

PAGES = {
    "/": """<title>Shop</title><h1>Shop</h1><a href=/two>Second page</a>
        <button onclick="out.textContent='restarted'">Restart</button><p id=out>idle</p>
        <form action=/found><input name=q aria-label=Query></form>
        <select aria-label=Color onchange="out.textContent=this.value"><option>red<option>blue
        </select><div contenteditable role=textbox aria-label=Note></div>
        <input type=checkbox aria-label=Sure><iframe src=/inner title=inner></iframe>""",
    "/two": "<h1>Second</h1><a href=/>First page</a>",
    "/found": "<h1>Found</h1>",
    "/inner": "<button onclick=\"this.textContent='pressed inside'\">Inside</button>",
    "/login": """<form action=/found><input type=password name=p aria-label=Password
        value=hunter2secret><input aria-label=Code autocomplete=one-time-code value=998877>
        <button type=button onclick="document.querySelector('[name=p]').type='text'">Show</button>
        <p>not hunter2secret twice</p><button>Enter it</button></form>""",
    "/alert": "<h1>Before</h1><script>alert('hello there')</script><h1>After</h1>",
    "/confirm": """<p id=out>undecided</p>
        <button onclick="out.textContent=confirm('Delete all?') ? 'deleted' : 'kept'">Delete
        </button>""",
    "/leave": """<input aria-label=Text oninput="onbeforeunload=(e)=>e.preventDefault()">
        <a href=/two>Away</a><h1>Unsaved</h1>""",
    "/popup": "<button onclick=\"window.open('/two')\">Open</button><h1>Opener</h1>",
    "/popups": "<script>for (let i=0;i<9;i++) window.open('/two?'+i)</script><h1>Noisy</h1>",
    "/close": "<button onclick='window.close()'>Close me</button>",
    "/closes": "<button onclick=\"window.open('/close')\">Open</button><h1>Opener</h1>",
    "/busy": "<h1>Spins</h1><img src=/endless.png><button>Still here</button>",
    "/canvas": "<canvas width=300 height=200></canvas>",
    "/focus": """<form action=/found><input aria-label=Trap onfocus="this.form.submit()"></form>""",
    "/focus-gone": """<input aria-label=Trap onfocus="this.remove()"><input aria-label=Other>""",
    "/loud": "<script>console.log('first', {a: 1}); null.x</script><img src=/a.png alt=Logo>",
    "/upload": "<input type=file aria-label=Upload><button>x</button>",
    "/file.bin": "binary",
    "/long": "".join(f"<button>Button number {n} of a very long page</button>" for n in range(900)),
    "/covered": """<button onclick="this.textContent='hit'">Under</button>
        <div style="position:fixed;inset:0;background:#eee">Cookies!</div>""",
    "/parts": """<style>.style {color: red}</style><script>function no() { alert("x") }</script>
        <a href=/two>Read <b>the</b><span hidden>Never</span> manual</a>
        <label>Your name <input></label><input type=submit value=Save><a>Plain</a>
        <img src=/a.png alt="Plan of the rack"><h3>Disks</h3><p aria-hidden=true>Never</p>
        <input type=radio id=fast><label for=fast>Fast</label><p style="display:none">Never</p>
        <div id=host></div><div style="visibility:hidden">Never<i style="visibility:visible">seen
        although around it is hidden</i></div>
        <details><summary>More</summary>in closed details</details>
        <select aria-label=Region><option>north<option>south</select>
        <script>host.attachShadow({mode: 'open'}).innerHTML =
        '<button>In the shadow</button>'</script>""",
    "/clobbered": """<form action=/found><input name=childNodes aria-label=first>
        <input name=nodeType><input name=localName><input name=getAttribute>
        <input name=shadowRoot><input name=parentNode><button name=firstChild>Send it</button>
        </form>""",
    "/modal": """<p>Behind</p><button onclick="d.showModal()">Ask</button>
        <dialog id=d><button>Yes</button></dialog>""",
    "/removes": """<button onclick="victim.remove()">Remove</button>
        <button id=victim>Victim</button>""",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedBrowser]:
    limits = BrowserLimits(load_timeout_s=60.0)
    with (
        page_server(PAGES) as server,
        shared_browser(Path(tmp_path_factory.mktemp("browser")), server, limits) as made,
    ):
        yield made


def test_a_page_is_shown_with_roles_names_values_and_references(browser: SharedBrowser) -> None:
    shown = browser.open("/")
    assert shown.splitlines()[0] == f"{browser.server.address}/"
    assert 'heading "Shop" level 1' in shown
    for words in ('link "Second page" [e', 'textbox "Query" [e', 'checkbox "Sure" [e'):
        assert words in shown
    assert 'button "Inside" [e' in shown.partition("frame ")[2]


def test_an_act_shows_only_what_it_changed(browser: SharedBrowser) -> None:
    shown = browser.open("/")
    changed = browser.click(shown, '"Restart"')
    assert '- text "idle"' in changed
    assert '+ text "restarted"' in changed
    assert "Shop" not in changed
    assert "blue" in browser.type(shown, '"Color"', "blue")
    assert "checked" in browser.click(shown, '"Sure"')
    assert '"typed here"' in browser.type(shown, '"Note"', "typed here")
    assert "pressed inside" in browser.click(shown, '"Inside"')
    with pytest.raises(ToolError, match=r"no choice 'green'.*red \| blue"):
        browser.type(shown, '"Color"', "green")


def test_links_forms_and_back_lead_to_pages_and_references_end(browser: SharedBrowser) -> None:
    first = browser.open("/")
    second = browser.click(first, '"Second page"')
    assert 'heading "Second"' in second
    with pytest.raises(ToolError, match="references end with their page"):
        browser.click(first, '"Restart"')
    again = browser.run(browser.session.back)
    assert 'heading "Shop"' in again
    found = browser.type(again, '"Query"', "two words", submit=True)
    assert "/found?q=two+words" in found


def test_a_password_is_neither_shown_nor_typed_even_when_the_page_reveals_it(
    browser: SharedBrowser,
) -> None:
    shown = browser.open("/login")
    assert "hunter2secret" not in shown
    assert "998877" not in shown
    for name in ('"Password"', '"Code"'):
        with pytest.raises(ToolError, match="a model never types"):
            browser.type(shown, name, "guess")
    revealed = browser.click(shown, '"Show"') + browser.run(browser.session.snapshot, full=True)
    assert "hunter2secret" not in revealed
    with pytest.raises(ToolError, match="a model never types"):
        browser.type(shown, '"Password"', "guess")


def test_a_dialog_on_load_is_shown_and_answered(browser: SharedBrowser) -> None:
    shown = browser.open("/alert")
    assert 'dialog (alert): "hello there"' in shown
    assert "hello there" in browser.run(browser.session.snapshot)
    with pytest.raises(ToolError, match="hello there"):
        browser.run(browser.session.press, "Enter")
    after = browser.run(browser.session.answer_dialog, accept=True)
    assert 'heading "After"' in after
    with pytest.raises(ToolError, match="no dialog"):
        browser.run(browser.session.answer_dialog, accept=True)


def test_a_question_waits_for_its_answer(browser: SharedBrowser) -> None:
    shown = browser.open("/confirm")
    assert "Delete all?" in browser.click(shown, '"Delete"')
    assert "kept" in browser.run(browser.session.answer_dialog, accept=False)
    browser.click(shown, '"Delete"')
    assert "deleted" in browser.run(browser.session.answer_dialog, accept=True)


def test_a_page_with_unsaved_text_asks_before_it_is_left(browser: SharedBrowser) -> None:
    shown = browser.open("/leave")
    browser.click(shown, '"Text"')
    browser.run(browser.session.press, "Space")
    assert "may not be saved" in browser.open("/two")
    stayed = browser.run(browser.session.answer_dialog, accept=False)
    assert "/leave" in stayed
    assert "may not be saved" in browser.click(browser.run(browser.session.snapshot), '"Away"')
    assert 'heading "Second"' in browser.run(browser.session.answer_dialog, accept=True)


def test_a_window_that_a_click_opens_is_followed_and_left(browser: SharedBrowser) -> None:
    shown = browser.open("/popup")
    opened = browser.click(shown, '"Open"')
    assert "a new window was opened" in opened
    assert 'heading "Second"' in opened
    assert 'heading "Opener"' in browser.run(browser.session.back)


def test_windows_that_nobody_asked_for_are_closed(browser: SharedBrowser) -> None:
    shown = browser.open("/popups")
    assert 'heading "Noisy"' in shown
    assert "/popups" in browser.run(browser.session.snapshot)


def test_a_page_that_crashes_is_replaced_by_the_next(browser: SharedBrowser) -> None:
    browser.open("/two")
    page = browser.session.front
    assert page is not None

    async def crash() -> str:
        with pytest.raises(ToolError, match="crashed"):
            await page.call("Page.crash")
        return ""

    browser.run(crash)
    with pytest.raises(ToolError, match="crashed; browser_navigate"):
        browser.run(browser.session.snapshot)
    assert 'heading "Second"' in browser.open("/two")


def test_a_window_that_closes_itself_shows_the_one_before(browser: SharedBrowser) -> None:
    opened = browser.click(browser.open("/closes"), '"Open"')
    left = browser.click(opened, '"Close me"')
    assert "the window was closed; this is the one before" in left
    assert 'heading "Opener"' in left


def test_a_page_that_only_draws_says_so(browser: SharedBrowser) -> None:
    assert "browser_vision looks at it" in browser.open("/canvas")


def test_text_never_ends_up_in_another_field_or_page(browser: SharedBrowser) -> None:
    shown = browser.open("/focus-gone")
    with pytest.raises(ToolError, match="nothing was typed"):
        browser.type(shown, '"Trap"', "mistyped")
    assert "mistyped" not in browser.run(browser.session.snapshot)
    shown = browser.open("/focus")
    browser.type(shown, '"Trap"', "mistyped")
    assert not any("mistyped" in path for path in browser.server.asked)


def test_the_console_and_the_images_are_listed(browser: SharedBrowser) -> None:
    browser.open("/loud")
    lines = browser.portal.call(browser.session.console)
    assert "log: first" in lines
    assert "exception: TypeError" in lines
    assert "/a.png 0×0" in browser.run(browser.session.images)


def test_files_are_neither_uploaded_nor_downloaded(browser: SharedBrowser) -> None:
    shown = browser.open("/upload")
    with pytest.raises(ToolError, match="not uploaded"):
        browser.type(shown, '"Upload', "/etc/passwd")
    assert "uploads are off" in browser.click(shown, '"Upload')
    with pytest.raises(ToolError, match="was not opened"):
        browser.open("/file.bin")


def test_a_long_page_is_cut_and_scrolled(browser: SharedBrowser) -> None:
    shown = browser.open("/long")
    assert len(shown) < 8_200
    assert "of 900; browser_scroll" in shown
    assert "Button number 899" in browser.run(browser.session.scroll, "bottom")
    assert "Button number 899" in browser.run(browser.session.snapshot, full=True)


def test_a_covered_button_is_clicked_all_the_same(browser: SharedBrowser) -> None:
    assert "hit" in browser.click(browser.open("/covered"), '"Under"')


def test_a_screenshot_is_a_small_picture(browser: SharedBrowser) -> None:
    browser.open("/")
    taken = browser.portal.call(browser.session.screenshot)
    assert taken.data.startswith("/9j/")  # JPEG
    assert 500 < taken.width <= 1568


def test_a_page_that_loads_for_ever_is_shown_as_it_is(tmp_path: Path) -> None:
    limits = BrowserLimits(load_timeout_s=0.2)
    with page_server(PAGES) as server, shared_browser(tmp_path, server, limits) as browser:
        shown = browser.open("/busy")
        assert "(still loading)" in shown
        assert reference(shown, '"Still here"')


def test_only_what_a_person_can_see_is_shown_each_with_its_own_name(
    browser: SharedBrowser,
) -> None:
    shown = browser.open("/parts")
    for line in (
        'link "Read the manual" [e',
        'textbox "Your name" [e',
        'button "Save" [e',
        'image "Plan of the rack"',
        'heading "Disks" level 3',
        'radio "Fast" [e',
        'button "In the shadow" [e',
        'text "seen although around it is hidden"',
        'disclosureTriangle "More" [e',
        'combobox "Region" [e',
    ):
        assert line in shown, line
    assert 'option "north" [e' in shown
    for hidden in ("Never", "style", "closed details", "alert("):
        assert hidden not in shown
    assert shown.count("Disks") == 1


def test_a_form_whose_fields_hide_its_properties_is_read(browser: SharedBrowser) -> None:
    shown = browser.open("/clobbered")
    assert 'textbox "first" [e' in shown
    assert 'button "Send it" [e' in shown


def test_a_modal_dialog_is_all_that_is_shown(browser: SharedBrowser) -> None:
    changed = browser.click(browser.open("/modal"), '"Ask"')
    assert 'button "Yes" [e' in changed
    assert "Behind" not in browser.run(browser.session.snapshot)


def test_an_element_that_was_removed_is_gone(browser: SharedBrowser) -> None:
    shown = browser.open("/removes")
    browser.click(shown, '"Remove"')
    with pytest.raises(ToolError, match="gone"):
        browser.click(shown, '"Victim"')
