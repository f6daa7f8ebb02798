"""The dashboard in a real browser: layout, live updates, keys, and without JavaScript."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from api_server import ApiServer, api_server
from recorded_day import COMMAND, IRREVERSIBLE, OPEN_INCIDENT, WAITING, recorded_day
from seeded_home import history, seed_files
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from hermes.core.events import Event
from hermes.core.events.approvals import ApprovalAnswered, ApprovalRequested, ApprovalSettled
from hermes.core.events.incidents import IncidentClosed, IncidentHint, IncidentOpened
from hermes.web.browser_checks import SESSION_COOKIE
from hermes.web.sessions import create_login

PROGRAMS = ("chromium", "chromedriver")
MISSING = [name for name in PROGRAMS if not shutil.which(name)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

MAX_WAIT_S = 60.0
"""Long, because other tests may use the processor; it passes as soon as the page is there."""
POLL_S = 0.05
MIN_TARGET_PX = 44
PAGES = ("/", "/incidents", f"/incidents/{OPEN_INCIDENT}", "/approvals", f"/approvals/{WAITING}")
MORE_PAGES = (
    *("/services", "/trends", "/skills", "/skills/pool-exhausted", "/memory", "/drills", "/audit"),
    *("/memory/fact-000000000001", "/drills/config-typo-after-edit", "/settings", "/schedules"),
    *("/schedules/new?schedule=every+day+at+8&task=Look", "/schedules/job/backups"),
)
WIDTHS = (360, 1440)
THEMES = ("light", "dark")
PROBLEMS_SCRIPT = """
const wide = document.documentElement.scrollWidth > window.innerWidth ? ['scrolls sideways'] : [];
const folded = '.quiet, .skip, details:not([open]) > :not(summary)';
const shown = (e) => e.checkVisibility() && !e.closest(folded);
const size = (e) => e.getBoundingClientRect();
const small = [...document.querySelectorAll('button, summary, .button, .side a, .bottom > a')]
  .filter(shown).filter((e) => size(e).height < arguments[0] - 0.5)
  .map((e) => `${size(e).height} px high: ${e.outerHTML.slice(0, 90)}`);
const names = new Set();
const twice = [...document.querySelectorAll('[id]')].map((e) => e.id)
  .filter((id) => names.has(id) || !names.add(id)).map((id) => `id twice: ${id}`);
const bare = [...document.querySelectorAll('input:not([type=hidden]), textarea, select')]
  .filter((e) => !e.labels.length && !e.ariaLabel).map((e) => `no label: ${e.name}`);
const unnamed = [...document.querySelectorAll('a, button, summary')]
  .filter((e) => !e.textContent.trim() && !e.ariaLabel)
  .map((e) => `no name: ${e.outerHTML.slice(0, 90)}`);
return [...wide, ...small, ...twice, ...bare, ...unnamed];
"""
AXE_FILE = Path(__file__).parent / "axe" / "axe.min.js"
AXE_SCRIPT = """
const done = arguments[arguments.length - 1];
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
axe.run(document, {runOnly: rules, resultTypes: ['violations']}).then((found) => done(
  found.violations.flatMap((each) => each.nodes.map(
    (node) => `${each.id}: ${node.html.slice(0, 120)} ${node.failureSummary.slice(0, 200)}`))));
"""


@dataclass
class Browser:
    driver: Any
    server: ApiServer
    portal: BlockingPortal

    def open(self, path: str) -> None:
        self.driver.get(self.server.address + path)

    def record(self, *events: Event) -> None:
        self.portal.call(self.server.journal.append, *events)

    def answers(self, approval: str) -> list[ApprovalAnswered]:
        return self.portal.call(self._read_answers, approval)

    async def _read_answers(self, approval: str) -> list[ApprovalAnswered]:
        read = self.server.journal.read(kinds=("approval.answered",))
        found = [each.event async for each in read if isinstance(each.event, ApprovalAnswered)]
        return [each for each in found if each.approval == approval]

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return WebDriverWait(self.driver, MAX_WAIT_S, POLL_S).until(lambda _: condition(), what)

    def script(self, text: str, *arguments: object) -> Any:
        return self.driver.execute_script(text, *arguments)

    def until_live(self) -> None:
        state = "return document.getElementById('stream').dataset.state === 'live'"
        self.until(lambda: self.script(state), "the page is not live")

    def until_text(self, text: str) -> None:
        shown = "return document.body.innerText.includes(arguments[0])"
        self.until(lambda: self.script(shown, text), f"the page does not show {text!r}")

    def until_element(self, selector: str) -> Any:
        """Also without JavaScript, where a pressed button leads to another page."""
        found = self.until(
            lambda: self.driver.find_elements("css selector", selector), f"no {selector}"
        )
        return found[0]

    def show_as(self, width: int, theme: str) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("dashboard")
    seed_files(folder / "home")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(api_server(folder)) as server,
    ):
        portal.call(server.journal.append, *history(), *recorded_day())
        code, event = create_login("alice")
        portal.call(server.journal.append, event)
        driver = start_chromium(folder / "profile")
        try:
            browser = Browser(driver, server, portal)
            browser.open(f"/login?code={code}")
            driver.find_element("css selector", ".gate button").click()
            browser.until_text("Waiting for an answer")
            yield browser
        finally:
            driver.quit()


def start_chromium(profile: Path) -> Any:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def test_pages_fit_every_screen_without_errors(browser: Browser) -> None:
    browser.driver.get_log("browser")
    cookie = browser.driver.get_cookie(SESSION_COOKIE)
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Lax")
    for width in WIDTHS:
        for theme in THEMES:
            browser.show_as(width, theme)
            for path in PAGES:
                browser.open(path)
                browser.until_live()
                assert browser.script(PROBLEMS_SCRIPT, MIN_TARGET_PX) == [], (path, width, theme)
    assert browser.driver.get_log("browser") == []
    browser.show_as(1440, "light")


def test_pages_of_figures_and_forms_fit_a_phone_and_a_desk(browser: Browser) -> None:
    browser.driver.get_log("browser")
    for width, theme in ((360, "dark"), (1440, "light")):
        browser.show_as(width, theme)
        for path in MORE_PAGES:
            browser.open(path)
            browser.until_live()
            assert browser.script(PROBLEMS_SCRIPT, MIN_TARGET_PX) == [], (path, width, theme)
    assert browser.driver.get_log("browser") == []


def test_pages_keep_the_rules_of_accessibility(browser: Browser) -> None:
    """WCAG 2.2 AA, as far as axe-core can tell: contrast, names, roles, landmarks."""
    axe = AXE_FILE.read_text()
    browser.driver.set_script_timeout(MAX_WAIT_S * 2)
    for width, theme in ((360, "dark"), (1440, "light")):
        browser.show_as(width, theme)
        for path in (*PAGES, *MORE_PAGES):
            browser.open(path)
            browser.until_live()
            browser.script(axe)
            found = browser.driver.execute_async_script(AXE_SCRIPT)
            assert found == [], (path, width, theme)
    browser.script("document.querySelector('main').append(document.createElement('img'))")
    (violation,) = browser.driver.execute_async_script(AXE_SCRIPT)
    assert violation.startswith("image-alt")
    browser.show_as(1440, "light")


def test_a_job_is_added_without_javascript(browser: Browser) -> None:
    browser.show_as(1440, "light")
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open("/schedules/new")
        fields = {"schedule": "every weekday at 9", "task": "Count the plain jobs."}
        for name, text in fields.items():
            browser.driver.find_element("css selector", f"main [name={name}]").send_keys(text)
        browser.driver.find_element("css selector", "main .form-grid .button-main").click()
        browser.until_element("form[action='/schedules/add'] button").click()
        notice = browser.until_element(".notice").text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "count-the-plain-jobs is added" in notice


def test_what_happens_appears_without_a_reload(browser: Browser) -> None:
    browser.open("/")
    browser.until_live()
    browser.script("window.notReloaded = true; document.getElementById('person').open = true")
    title = "mail: 300 messages in the queue"
    browser.record(IncidentOpened(run="inc-mail", incident="inc-mail", title=title, severity="P0"))
    browser.until_text(title)
    assert browser.script("return !!document.querySelector('.bar-alarm')"), "a P0 is in the bar"
    browser.record(IncidentClosed(run="inc-mail", incident="inc-mail", outcome="closed"))
    browser.until(lambda: not browser.script("return !!document.querySelector('.bar-alarm')"), "")
    assert browser.script("return window.notReloaded && document.getElementById('person').open")


def test_a_page_is_asked_for_again_when_a_round_of_checks_is_overdue(browser: Browser) -> None:
    """Otherwise a check that nothing runs any more would stay green. Before that it is not asked
    for: every round is an event, after which the page is shown again."""
    browser.open("/services")
    browser.until_live()
    asked = """return performance.getEntriesByType('resource')
      .some((each) => new URL(each.name).pathname === '/services')"""
    browser.script("window.now = Date.now; Date.now = () => now() + 301000")
    browser.script("return new Promise((done) => setTimeout(done, 1500))")
    assert not browser.script(asked)
    browser.script("Date.now = () => now() + 361000")
    browser.until(lambda: browser.script(asked), "the page is not asked for")


def test_nothing_changes_under_the_hands_of_the_reader(browser: Browser) -> None:
    browser.show_as(1440, "light")  # narrow, the bar at the bottom could cover what is pressed
    browser.open(f"/incidents/{OPEN_INCIDENT}")
    browser.until_live()
    browser.driver.find_element("css selector", "#ruled-out summary").click()
    area = browser.driver.find_element("css selector", "#tell-form textarea")
    area.send_keys("half a wo")
    browser.record(
        IncidentHint(run=OPEN_INCIDENT, incident=OPEN_INCIDENT, person="bob", text="a new hint")
    )
    chip = browser.driver.find_element("id", "new-chip")
    browser.until(chip.is_displayed, "there is no chip")
    assert "new" in chip.text
    assert "a new hint" not in browser.script("return document.body.innerText")
    chip.click()
    browser.until_text("a new hint")
    typed = "return document.querySelector('#tell-form textarea').value"
    assert browser.script(typed) == "half a wo"
    assert browser.script("return document.getElementById('ruled-out').open")


def test_a_request_is_approved_with_the_keyboard_alone(browser: Browser) -> None:
    browser.open("/")
    browser.until_live()
    ActionChains(browser.driver).send_keys("ga").perform()
    browser.until(lambda: browser.driver.current_url.endswith("/approvals"), "g a does not work")
    browser.until_live()
    ActionChains(browser.driver).send_keys("j").perform()
    focused = "return document.activeElement.textContent.trim()"
    assert browser.script(focused) == WAITING
    for _ in range(20):
        if browser.script(focused) == "Approve once":
            break
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    browser.until_text(f"{WAITING}: recorded")
    (answer,) = browser.answers(WAITING)
    assert (answer.by, answer.via, answer.approved) == ("alice", "web", True)


def test_a_request_is_approved_without_javascript(browser: Browser) -> None:
    now = datetime.now(UTC)
    request = ApprovalRequested(
        run="inc-plain",
        at=now,
        approval="ask-plain",
        call_id="c",
        tool="terminal",
        shown=COMMAND,
        hash="ab" * 32,
    )
    browser.record(request)
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open("/approvals/ask-plain")
        assert "not live" in browser.driver.find_element("id", "stream").text
        browser.driver.find_element("css selector", "button[value=once]").click()
        notice = browser.until(
            lambda: browser.driver.find_elements("css selector", ".notice"), "no answer"
        )
        assert "ask-plain: recorded" in notice[0].text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert [each.approved for each in browser.answers("ask-plain")] == [True]


class Connection:
    """Between the browser and the server; it can be cut and restored."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.removeprefix("http://").partition(":")
        self._port, self._passes = int(port), True
        self._open: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._relay, self._host, 0)
        try:
            yield f"http://{self._host}:{server.sockets[0].getsockname()[1]}"
        finally:
            await self.cut()
            server.close()

    async def cut(self) -> None:
        self._passes = False
        for writer in self._open:
            writer.transport.abort()

    async def restore(self) -> None:
        self._passes = True

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._passes:
            writer.transport.abort()
            return
        inner_reader, inner_writer = await asyncio.open_connection(self._host, self._port)
        both = {writer, inner_writer}
        self._open |= both
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._copy, reader, inner_writer)
                await self._copy(inner_reader, writer)
                group.cancel_scope.cancel()
        finally:
            self._open -= both
            for each in both:
                each.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()


def test_a_lost_stream_is_shown_as_lost_and_resumes_where_it_was(browser: Browser) -> None:
    lost = "return !document.getElementById('lost').hidden && document.body.matches('.stale')"
    connection = Connection(browser.server.address)
    with browser.portal.wrap_async_context_manager(connection.serving()) as address:
        browser.driver.get(f"{address}/incidents")
        browser.until_live()
        assert not browser.script(lost)
        browser.portal.call(connection.cut)
        browser.until(lambda: browser.script(lost), "the page does not say that it is not live")
        browser.record(
            IncidentOpened(
                run="inc-lost", incident="inc-lost", title="opened meanwhile", severity="P2"
            )
        )
        browser.portal.call(connection.restore)
        browser.until_live()
        browser.until_text("opened meanwhile")
        assert not browser.script(lost)
        browser.open("/")  # nothing of the page tries to connect any more
    browser.driver.get_log("browser")


def test_two_tabs_have_one_stream_and_take_over(browser: Browser) -> None:
    driver = browser.driver
    browser.open("/")
    browser.until_live()
    first = driver.current_window_handle
    own = "return document.body.dataset.stream === 'own'"
    browser.until(lambda: browser.script(own), "the first tab has no stream")
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    browser.open("/approvals")
    browser.until_live()
    browser.record(
        ApprovalSettled(run=OPEN_INCIDENT, approval=IRREVERSIBLE, outcome="denied", by=("bob",))
    )
    browser.until(lambda: not driver.find_elements("css selector", f"article#{IRREVERSIBLE}"), "")
    assert not browser.script(own), "both tabs read the stream"
    driver.switch_to.window(first)
    driver.close()
    driver.switch_to.window(second)
    browser.until(lambda: browser.script(own), "nobody has taken over the stream")
    browser.until_live()
