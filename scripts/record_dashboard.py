"""Takes a screenshot of every page of the dashboard, from a recorded home with a day of incidents.

usage: python scripts/record_dashboard.py [FOLDER]     (default: docs/how-to/dashboard)
The server, the pages and the browser (Debian's chromium) are real. The events are those that the
watch writes, made up by the tests: `recorded_day.py` and `seeded_home.py` in `tests/app/web`.
"""

import base64
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "app" / "web"))

from api_server import ApiServer, api_server
from recorded_day import IRREVERSIBLE, OPEN_INCIDENT, recorded_day
from seeded_home import history, seed_files

from hermes.web.pages import NAVIGATION
from hermes.web.sessions import create_login

ROOT = Path(__file__).resolve().parents[1]
MAX_BYTES = 100_000
QUALITY = 80
WIDE_PX, PHONE_PX = (1440, 900), (360, 780)
MAX_WAIT_S = 60.0
DETAILS = {"incident": f"/incidents/{OPEN_INCIDENT}", "approval": f"/approvals/{IRREVERSIBLE}"}
PHONE_PAGES = {"now-phone": "/", "approval-phone": f"/approvals/{IRREVERSIBLE}"}
LIVE = "return document.getElementById('stream').dataset.state === 'live'"


@contextmanager
def recorded_server(folder: Path) -> Iterator[tuple[ApiServer, str]]:
    """A server over the recorded home, and the path of a link that logs in."""
    seed_files(folder / "home")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(api_server(folder)) as server,
    ):
        code, login = create_login("alice")
        events = sorted([*history(), *recorded_day()], key=lambda event: event.at)
        portal.call(server.journal.append, *events, login)
        yield server, f"/login?code={code}"


@contextmanager
def chromium(profile: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "hide-scrollbars", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={profile}")
    options.binary_location = shutil.which("chromium") or ""
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def take(driver: Any, address: str, file: Path, size: tuple[int, int], theme: str) -> None:
    """Raises `SystemExit` for a picture that is too large for the docs."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    driver.get(address)
    WebDriverWait(driver, MAX_WAIT_S).until(lambda _: driver.execute_script(LIVE))
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    content = base64.b64decode(shot["data"])
    if len(content) > MAX_BYTES:
        raise SystemExit(f"{file.name} has {len(content):,} bytes, at most {MAX_BYTES:,}")
    file.write_bytes(content)
    sys.stdout.write(f"{file.name}: {len(content):,} bytes\n")


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "how-to" / "dashboard"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hermes-") as name:
        folder = Path(name)
        with recorded_server(folder) as (server, link), chromium(folder / "profile") as driver:
            driver.get(server.address + link)
            driver.find_element("css selector", ".gate button").click()
            wide = {entry.name: entry.path for entry in NAVIGATION} | DETAILS
            for page, path in wide.items():
                file = target / f"{page}.webp"
                take(driver, server.address + path, file, WIDE_PX, "light")
            for page, path in PHONE_PAGES.items():
                file = target / f"{page}.webp"
                take(driver, server.address + path, file, PHONE_PX, "dark")


if __name__ == "__main__":
    main()
