"""Pages with a thousand rows of hostile names: small, escaped, and readable in pages."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2 as httpx
from api_server import ApiServer, api_server
from dashboard_client import browser, log_in
from seeded_home import incident_events

from hermes.core.events import Event
from hermes.core.events.experiments import DrillEnded
from hermes.core.events.jobs import SCHEDULE_RUN, JobAdded, JobSchedule, JobSpec
from hermes.core.events.memory import FactNoted
from hermes.core.events.operations import MaintenanceAdded
from hermes.core.events.people import PersonAdded
from hermes.core.events.tools import ToolDecided, ToolRequested
from hermes.core.messages import ToolCall
from hermes.web.templating import reveal_controls

ROWS = 1_000
MAX_PAGE_BYTES = 200_000
SCRIPT = '<script>alert("x")</script>'
REVERSED = "\u202egpj.exe\u2066"
NAME = f"{SCRIPT}'\"&{REVERSED}"
PAGES = (
    *("/services", "/trends", "/skills", "/memory", "/memory?q=wicked", "/drills"),
    *("/audit", "/audit?verdict=deny", "/settings", "/settings?section=sre", "/schedules"),
)


def many(now: datetime) -> list[Event]:
    schedule = JobSchedule(text="every day at 8", zone="UTC", crons=("0 8 * * *",))
    events: list[Event] = []
    for number in range(ROWS):
        at = now - timedelta(hours=ROWS - number)
        name = f"{NAME}{number}"
        call = ToolCall(id=f"c{number}", name=NAME, arguments={"command": f"rm {name}"})
        events += [
            *incident_events(f"incident-{number:04}", name, name, "P2", at, 60.0),
            FactNoted(run="r", at=at, fact=f"fact-{number:012x}", memory="semantic",
                      text=f"wicked {name}", about=(name, f"{NAME}{number // 2}"),
                      relation="depends-on", trust="person", actor=NAME),
            ToolRequested(run=f"r{number}", at=at, call=call, command=f"rm {name}", origin=NAME),
            ToolDecided(run=f"r{number}", at=at, call_id=call.id, verdict="deny", rule=NAME),
            DrillEnded(run="r", at=at, scenario=f"s{number % 7}", agent=NAME, reward=number / ROWS),
            JobAdded(run=SCHEDULE_RUN, at=at, by=NAME, spec=JobSpec(
                name=f"job-{number}", schedule=schedule, task=f"{name} " * 20)),
            MaintenanceAdded(run="watch", at=at, window=f"m-{number}", target=name, by=NAME,
                             begins=at, until=now + timedelta(hours=number - ROWS + 40)),
        ]  # fmt: skip
    return [*events, PersonAdded(run="people", name="alice", ids=(("unix", "alice"),))]


def test_a_thousand_hostile_rows_are_small_escaped_pages(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await server.journal.append(*many(datetime.now(UTC)))
            async with browser(server, await log_in(server)) as client:
                for path in PAGES:
                    await check_page(client, path)
                await check_all_pages(server, client)

    anyio.run(main)


async def check_page(client: httpx.AsyncClient, path: str) -> None:
    page = await client.get(path)
    assert page.status_code == 200, (path, page.text[-3000:])
    assert len(page.content) < MAX_PAGE_BYTES, (path, len(page.content))
    assert "<script>" not in page.text and "onerror" not in page.text, path
    assert "\u202e" not in page.text and "\u2066" not in page.text, path
    assert len(re.findall("data-row", page.text)) <= 130, path


async def check_all_pages(server: ApiServer, client: httpx.AsyncClient) -> None:
    """Older rows are on the next pages, each once."""
    for path, row in (("/memory", r'id="fact-([0-9a-f]+)"'), ("/audit", r'id="event-(\d+)"')):
        seen: list[str] = []
        address = path
        while address:
            page = await client.get(address)
            seen += re.findall(row, page.text)
            older = re.search(r'<a class="button" href="([^"]+)" rel="next"', page.text)
            address = f"{path}{older[1].replace('&amp;', '&')}" if older else ""
        assert len(seen) == len(set(seen)) == ROWS, (path, len(seen))


def test_controls_are_shown_and_nothing_else_is_changed() -> None:
    assert reveal_controls(f"a{REVERSED}b") == "a\\u202egpj.exe\\u2066b"
    for text in ("plain", "two\r\nlines\t", "हिन्दी क्\u200dष", "👩\u200d💻"):
        assert reveal_controls(text) == text
    assert reveal_controls(7) == 7
