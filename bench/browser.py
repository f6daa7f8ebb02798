"""Measures the browser on saved pages, and counts what is left after it was killed.

usage: python bench/browser.py pages FOLDER     every *.html below it: size, time, references
       python bench/browser.py kills [--kills 100]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

sys.path.append(str(Path(__file__).parents[1] / "tests" / "integrations"))
from browser_pages import chromium, page_server

from hermes.core.errors import ToolError
from hermes.integrations.browser.elements import find_point
from hermes.integrations.browser.launch import PROFILE_PREFIX
from hermes.integrations.browser.session import BrowserLimits, ChromiumSession
from hermes.plumbing.addresses import guard_for

VICTIM = Path(__file__).parents[1] / "tests" / "integrations" / "browser_victim.py"
MOMENTS = ("started", "open")
REPEATS, CLICKS = 5, 3
WAIT_S = 20.0


def read_page(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")


async def measure_page(session: ChromiumSession, url: str) -> dict[str, object]:
    shown = await session.navigate(url)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        shown = await session.snapshot()
        times.append(1_000 * (time.perf_counter() - began))
    page = session.front
    assert page is not None
    references = dict(page.references)
    by_mouse, gone = 0, 0
    for element in references.values():
        try:
            by_mouse += await find_point(page, element) is not None
            gone += not await page.call_on(element, "function () { return this.isConnected }")
        except ToolError:
            gone += 1
    failed = await click_some(session, url, len(references))
    return {
        "page": url.rpartition("/")[2][:40],
        "snapshot_ms": round(statistics.median(times), 1),
        "chars": len(shown),
        "references": len(references),
        "by_mouse": by_mouse,
        "not_clickable": gone,
        "clicks": min(CLICKS, len(references)),
        "clicks_failed": failed,
    }


async def click_some(session: ChromiumSession, url: str, count: int) -> int:
    """Really clicks on some elements, each on the page as it was loaded."""
    failed = 0
    for number in range(min(CLICKS, count)):
        await session.navigate(url)
        if session.dialog:
            await session.answer_dialog(accept=True)
        page = session.front
        assert page is not None
        names = list(page.references)
        try:
            await session.click(names[number * (len(names) - 1) // max(CLICKS - 1, 1)])
        except ToolError as error:
            print(f"  {url}: {error}", file=sys.stderr)
            failed += 1
    return failed


async def measure_pages(files: list[Path]) -> None:
    pages = {f"/{number}.html": read_page(file) for number, file in enumerate(files)}
    rows = []
    with page_server(pages) as server, tempfile.TemporaryDirectory() as work:
        limits = BrowserLimits(load_timeout_s=10.0)
        async with chromium(Path(work), guard_for([server.address]), limits) as session:
            for path, file in zip(pages, files, strict=True):
                row = await measure_page(session, server.address + path)
                rows.append(row | {"page": file.name[:40]})
                print(json.dumps(rows[-1]), flush=True)
    milliseconds = [float(str(row["snapshot_ms"])) for row in rows]
    total = {key: sum(float(str(row[key])) for row in rows) for key in rows[0] if key != "page"}
    print(
        f"{len(rows)} pages: snapshot {statistics.median(milliseconds):.0f} ms median, "
        f"{max(milliseconds):.0f} ms at most; {max(int(str(row['chars'])) for row in rows)} "
        f"characters at most; {total['references']:.0f} references, {total['by_mouse']:.0f} by "
        f"mouse, {total['not_clickable']:.0f} not clickable; {total['clicks_failed']:.0f} of "
        f"{total['clicks']:.0f} clicks failed"
    )


def left_processes(folder: Path) -> int:
    needle, found = str(folder / PROFILE_PREFIX).encode(), 0
    for each in Path("/proc").glob("[0-9]*"):
        try:
            found += needle in (each / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def count_kills(kills: int) -> None:
    processes = profiles = 0
    slowest = 0.0
    with page_server({"/": "<h1>Here</h1>"}) as server, tempfile.TemporaryDirectory() as work:
        temporary = Path(tempfile.mkdtemp(dir="/tmp"))
        for number in range(kills):
            victim = subprocess.Popen(
                [sys.executable, str(VICTIM), server.address, work],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "TMPDIR": str(temporary)},
            )
            assert victim.stdout is not None
            word = MOMENTS[number % len(MOMENTS)]
            assert any(line.strip() == word for line in victim.stdout)
            time.sleep(0.01 * (number % 7))  # at different moments
            victim.kill()
            victim.wait()
            victim.stdout.close()
            began = time.monotonic()
            while left_processes(temporary) or any(temporary.iterdir()):
                if time.monotonic() - began > WAIT_S:
                    break
                time.sleep(0.02)
            slowest = max(slowest, time.monotonic() - began)
            processes += left_processes(temporary)
            profiles += len(list(temporary.iterdir()))
        print(
            f"{kills} kills: {processes} processes and {profiles} profiles left; all gone within "
            f"{slowest:.1f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pages").add_argument("folder", type=Path)
    commands.add_parser("kills").add_argument("--kills", type=int, default=100)
    chosen = parser.parse_args()
    if chosen.command == "pages":
        anyio.run(measure_pages, sorted(chosen.folder.glob("*.htm*")))
    else:
        count_kills(chosen.kills)


if __name__ == "__main__":
    main()
