"""The pages of a home with some months of work, as a browser without JavaScript gets them."""

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2 as httpx
from api_server import ApiServer, api_server
from dashboard_client import browser, log_in
from seeded_home import history, seed_files

from hermes.core.events.operations import HealthChecked
from hermes.core.events.people import PersonAdded
from hermes.web.browser_checks import csrf_token

MAX_PAGE_BYTES = 200_000
CONTENT = {
    "/services": ("incident-open-1", "postgres", "silenced", "Who needs whom", "End now"),
    "/trends": ("Time to repair by week", "times as fast", "Learning curve", "shop: checkout slow"),
    "/trends?weeks=4&service=nginx": ("certificate of shop.example expires", "4 weeks"),
    "/skills": ("pool-exhausted", "5 of 5", "validated"),
    "/skills?state=validated&q=pool": ("pool-exhausted",),
    "/skills/pool-exhausted": ("SHOW POOLS", "the evaluation passed", "Retire pool-exhausted"),
    "/memory": ("orders writes to db-7", "alice"),
    "/memory?q=orders": ("orders writes to db-7",),
    "/memory/fact-000000000001": ("Whose word", "Forget it"),
    "/drills": ("config-typo-after-edit", "0.80", "sparkline"),
    "/drills/config-typo-after-edit": ("root cause", "hermes sessions show run-drill-5"),
    "/audit": ("rm -rf /srv", "rule-deny", "not verified since the start"),
    "/audit?verdict=ask": ("systemctl restart pgbouncer",),
    "/settings": ("sre.triage.group.depends_on.nginx", "OPENROUTER_API_KEY", "not set"),
    "/settings?section=web": ("web.port",),
    "/settings?q=midnight": ("No key matches",),
    "/schedules": ("backups", "Europe/Berlin", "delivered", "No process runs the schedule now"),
    "/schedules/job/backups": ("All 3 backups are there.", "every weekday at 9"),
    "/schedules/new": ("What, and when",),
}


@asynccontextmanager
async def seeded(tmp_path: Path) -> AsyncIterator[ApiServer]:
    seed_files(tmp_path / "home")
    async with api_server(tmp_path) as server:
        await server.journal.append(*history())
        yield server


def run_seeded(
    tmp_path: Path, work: Callable[[ApiServer, httpx.AsyncClient, str], Coroutine[None, None, None]]
) -> None:
    """`work` gets the server, the browser of alice, and the token of her forms."""

    async def main() -> None:
        async with seeded(tmp_path) as server:
            secret = await log_in(server)
            async with browser(server, secret) as client:
                await work(server, client, csrf_token(secret))

    anyio.run(main)


def visible(page: httpx.Response) -> str:
    """Without tags, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def test_every_page_shows_what_the_home_has(tmp_path: Path) -> None:
    async def work(server: ApiServer, client: httpx.AsyncClient, csrf: str) -> None:
        for path, texts in CONTENT.items():
            page = await client.get(path)
            assert page.status_code == 200, (path, visible(page))
            for text in texts:
                assert text in page.text, (path, text)
            assert " style=" not in page.text and "<script>" not in page.text, path
            assert len(page.content) < MAX_PAGE_BYTES, path
            ids = re.findall(r' id="([^"]+)"', page.text.partition("<main")[2])
            assert len(ids) == len(set(ids)), path

    run_seeded(tmp_path, work)


MISSING = {
    "/trends?weeks=5": 400,
    "/skills?state=nonsense": 400,
    "/skills/nonsense": 409,
    "/memory/fact-nonsense": 409,
    "/memory/fact-secret000001": 409,
    "/drills/nonsense": 404,
    "/audit?before=x": 400,
    "/audit?verdict=maybe": 400,
    "/services?skip=-1": 400,
    "/schedules/job/nonsense": 404,
}


def test_programs_get_the_same_lists(tmp_path: Path) -> None:
    """The views are shared: what a page shows must fit the types of the API."""

    async def main() -> None:
        async with seeded(tmp_path) as server, server.client(await server.token()) as client:
            for name in ("services", "skills", "memory", "drills", "audit", "people", "channels"):
                answer = await client.get(f"/api/{name}")
                assert answer.status_code == 200, (name, answer.text)
            links = (await client.get("/api/services")).json()["links"]
            assert {"nginx", "shop", "orders"} == {each["service"] for each in links}

    anyio.run(main)


def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    async def work(server: ApiServer, client: httpx.AsyncClient, csrf: str) -> None:
        answers = {path: (await client.get(path)).status_code for path in MISSING}
        assert answers == MISSING

    run_seeded(tmp_path, work)


def test_forms_do_what_they_say_and_name_the_person(tmp_path: Path) -> None:
    async def work(server: ApiServer, client: httpx.AsyncClient, csrf: str) -> None:
        async def press(path: str, **fields: str) -> str:
            done = await client.post(path, data={"csrf": csrf, **fields})
            assert done.status_code == 303, visible(done)
            return visible(await client.get(done.headers["location"]))

        shown = await press("/services/maintenance", target="db-*", length="2h", reason="disks")
        assert "Alerts of db-* are silenced until" in shown and "by alice" in shown
        assert "db-* is over" in await press("/services/maintenance/end", window="db-*")
        shown = await press("/skills/pool-exhausted/retire", reason="too old")
        assert "pool-exhausted is retired" in shown and "too old" in shown
        assert "is draft" in await press("/skills/pool-exhausted/retire", back="yes")
        shown = await press("/memory/fact-000000000001/forget")
        assert "is forgotten" in shown and "orders writes" not in shown
        assert "events were checked" in await press("/audit/verify")
        assert "log: a test message was sent" in await press("/settings/channels/log/test")
        assert "backups is paused" in await press("/schedules/job/backups/pause")
        assert "backups is resumed" in await press("/schedules/job/backups/resume", back="job")
        assert "backups is removed" in await press("/schedules/job/backups/remove")
        by = {
            each.event.by
            async for each in server.journal.read(
                kinds=("skill.changed", "memory.forgotten", "job.paused", "maintenance.ended")
            )
            if hasattr(each.event, "by")
        }
        assert by == {"alice", "hermes"}

    run_seeded(tmp_path, work)


def test_a_job_is_added_after_its_meaning_was_shown(tmp_path: Path) -> None:
    draft = {"schedule": "every weekday at 9", "task": "Look at the queues.", "zone": "UTC"}

    async def work(server: ApiServer, client: httpx.AsyncClient, csrf: str) -> None:
        page = await client.get("/schedules/new", params=draft)
        assert "look-at-the-queues" in page.text and page.text.count("09:00") >= 5
        before = await server.journal.last()
        refused = await client.get("/schedules/new", params={**draft, "schedule": "soonish"})
        assert refused.status_code == 200 and "Not understood" in refused.text
        assert "Add this job" not in refused.text
        assert await server.journal.last() == before
        done = await client.post("/schedules/add", data={"csrf": csrf, **draft})
        assert done.status_code == 303
        assert "look-at-the-queues is added" in (await client.get("/schedules")).text
        again = await client.post("/schedules/job/look-at-the-queues/run", data={"csrf": csrf})
        assert again.status_code == 409 and "No process runs the schedule" in again.text

    run_seeded(tmp_path, work)


def test_a_form_without_its_token_or_by_a_stranger_changes_nothing(tmp_path: Path) -> None:
    fields = {"target": "x", "length": "1h", "schedule": "every day at 8", "task": "t"}
    paths = (
        *("/services/maintenance", "/skills/pool-exhausted/retire", "/schedules/add"),
        *("/memory/fact-000000000001/forget", "/schedules/job/backups/pause"),
        "/settings/channels/log/test",
    )

    async def work(server: ApiServer, client: httpx.AsyncClient, csrf: str) -> None:
        before = await server.journal.last()
        for path in (*paths, "/audit/verify"):
            assert (await client.post(path, data=fields)).status_code == 403, path
        assert await server.journal.last() == before
        await server.journal.append(PersonAdded(run="people", name="bob", ids=(("unix", "bob"),)))
        before = await server.journal.last()
        for path in paths:
            stranger = await client.post(path, data={"csrf": csrf, **fields})
            assert stranger.status_code == 409 and "alice" in stranger.text, path
        assert await server.journal.last() == before
        assert "disabled" in (await client.get("/services")).text

    run_seeded(tmp_path, work)


def test_checks_of_yesterday_say_nothing_about_now(tmp_path: Path) -> None:
    async def main() -> None:
        seed_files(tmp_path / "home")
        async with api_server(tmp_path) as server:
            at = datetime.now(UTC) - timedelta(hours=9)
            await server.journal.append(HealthChecked(run="watch", at=at, ok=True, checks=4))
            async with browser(server, await log_in(server)) as client:
                now, services = (await client.get("/")).text, (await client.get("/services")).text
        assert "nothing has been checked since" in now and "all 4 checks pass" not in now
        assert "chip-good" not in now + services
        assert "not checked" in services and "no state is known" in services

    anyio.run(main)
