"""What the pages of the dashboard show, and what their forms do, without JavaScript."""

import html
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx2 as httpx
import pytest
from api_server import ApiServer, api_server
from dashboard_client import browser, log_in
from recorded_day import (
    ANNOUNCED,
    COMMAND,
    HASH,
    IRREVERSIBLE,
    OPEN_INCIDENT,
    WAITING,
    past_incident,
    recorded_day,
)

from hermes.core.events import Event
from hermes.core.events.approvals import ActionStopped, ApprovalAnswered, GrantRevoked
from hermes.core.events.incidents import (
    IncidentAcknowledged,
    IncidentChecked,
    IncidentClosed,
    IncidentHint,
    IncidentOpened,
)
from hermes.core.events.people import PEOPLE_RUN, PersonAdded
from hermes.web.pages import MAX_ROWS

MAX_PAGE_BYTES = 200_000
OPEN_PATH = f"/incidents/{OPEN_INCIDENT}"


async def record(server: ApiServer, events: Iterator[Event]) -> None:
    await server.journal.append(*events)


def form_fields(page: str, action: str) -> dict[str, str]:
    """The hidden fields of the form with this action, as a browser sends them."""
    found = re.search(rf'<form method="post" action="{re.escape(action)}".*?</form>', page, re.S)
    assert found is not None, action
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found[0])
    return {name: html.unescape(value) for name, value in hidden}


async def press(
    client: httpx.AsyncClient, path: str, action: str, fields: Mapping[str, str]
) -> httpx.Response:
    """Open the page, and send its form with the button that is pressed."""
    page = await client.get(path)
    assert page.status_code == 200
    return await client.post(action, data={**form_fields(page.text, action), **fields})


async def events_of(server: ApiServer, kind: type[Event]) -> list[Event]:
    return [each.event async for each in server.journal.read() if isinstance(each.event, kind)]


def test_every_page_shows_the_recorded_day(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            expected = {
                "/": ("shop: checkout slow", COMMAND, "briefing", "21", "resolved by Hermes"),
                "/incidents": ("shop: checkout slow", "redis restarted 4 times", "resolved"),
                "/incidents?state=open": ("shop: checkout slow",),
                "/incidents?q=redis": ("redis restarted 4 times",),
                OPEN_PATH: ("pool exhausted", "SHOW POOLS", "lock waits", "The pool was 50", "bob"),
                f"{OPEN_PATH}?show=people": ("acknowledged by bob",),
                f"{OPEN_PATH}/report": ("pgbouncer",),
                "/incidents/inc-20260305-000001-a1b2c1": ("systemctl restart queue", "in force"),
                "/approvals": (COMMAND, "9c41e2d07b5a", "service-change", "supervisorctl restart"),
                f"/approvals/{IRREVERSIBLE}": ("May this run?", "xargs -0 rm", "2 of alice"),
            }
            async with browser(server, await log_in(server)) as client:
                for path, texts in expected.items():
                    page = await client.get(path)
                    assert page.status_code == 200, (path, page.text)
                    for text in texts:
                        assert text in html.unescape(page.text), (path, text)
                    assert " style=" not in page.text
                    assert "<script>" not in page.text
                assert "redis" not in (await client.get("/incidents?state=open")).text
                assert "investigate" not in timeline(
                    (await client.get(f"{OPEN_PATH}?show=people")).text
                )
                for path in ("/incidents/inc-none", "/approvals/ask-none", f"{OPEN_PATH}x/report"):
                    assert (await client.get(path)).status_code == 404

    anyio.run(main)


def timeline(page: str) -> str:
    return page[page.index('<ol class="events">') :].partition("</ol>")[0]


def test_empty_pages_say_what_will_be_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            secret = await log_in(server)
            async with browser(server, secret) as client:
                assert "No open incident" in (await client.get("/")).text
                assert "No incident yet" in (await client.get("/incidents")).text
                assert "Nothing waits for an answer" in (await client.get("/approvals")).text

    anyio.run(main)


def test_text_of_others_is_only_text(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            bad = '<script>alert(1)</script><b onclick="x">'
            opened = IncidentOpened(
                run="inc-1", incident="inc-1", title=bad, severity="P0", service=bad, reason=bad
            )
            await server.journal.append(opened)
            async with browser(server, await log_in(server)) as client:
                for path in ("/", "/incidents", "/incidents/inc-1", "/incidents/inc-1/report"):
                    page = (await client.get(path)).text
                    assert "<script>alert" not in page
                    assert "<b onclick" not in page
                    assert "bar-alarm" in page, "a P0 is in the bar of every page"

    anyio.run(main)


@pytest.mark.parametrize(
    ("approval", "verb", "approved", "scope"),
    [
        (WAITING, "session", True, "session"),
        (WAITING, "deny", False, "once"),
        (ANNOUNCED, "go", True, "once"),
    ],
)
def test_a_plain_form_answers_a_request(
    tmp_path: Path, approval: str, verb: str, approved: bool, scope: str
) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            async with browser(server, await log_in(server)) as client:
                action = f"/approvals/{approval}"
                answer = await press(client, "/approvals", action, {"verb": verb, "note": "yes"})
                assert answer.status_code == 303, answer.text
                shown = await client.get(answer.headers["location"])
                assert f"{approval}: recorded" in shown.text
            (event,) = await events_of(server, ApprovalAnswered)
            assert isinstance(event, ApprovalAnswered)
            assert (event.approval, event.approved, event.scope) == (approval, approved, scope)
            assert (event.by, event.via, event.note) == ("alice", "web", "yes")

    anyio.run(main)


@pytest.mark.parametrize("page", ["/approvals", f"/approvals/{IRREVERSIBLE}"])
def test_what_cannot_be_undone_is_recorded_when_it_is_confirmed(tmp_path: Path, page: str) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            action = f"/approvals/{IRREVERSIBLE}"
            async with browser(server, await log_in(server)) as client:
                asked = await press(client, page, action, {"verb": "once"})
                assert asked.headers["location"] == f"{action}?confirm=once"
                forged = {"verb": "once", "confirmation": "0" * 64}
                assert "?confirm" in (await press(client, page, action, forged)).headers["location"]
                other = await press(client, f"{action}?confirm=once", action, {"verb": "always"})
                assert other.headers["location"] == f"{action}?confirm=always"
                assert not await events_of(server, ApprovalAnswered)
                shown = (await client.get(f"{action}?confirm=once")).text
                assert (
                    "It cannot be undone. May it run?" in shown and "Yes, approve it once" in shown
                )
                done = await press(client, f"{action}?confirm=once", action, {"verb": "once"})
                assert done.headers["location"] == "/approvals"
            (event,) = await events_of(server, ApprovalAnswered)
            assert isinstance(event, ApprovalAnswered)
            assert (event.approval, event.approved, event.by) == (IRREVERSIBLE, True, "alice")

    anyio.run(main)


def test_an_irreversible_action_is_denied_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            async with browser(server, await log_in(server)) as client:
                action = f"/approvals/{IRREVERSIBLE}"
                done = await press(client, "/approvals", action, {"verb": "deny"})
                assert done.headers["location"] == "/approvals"
            (event,) = await events_of(server, ApprovalAnswered)
            assert isinstance(event, ApprovalAnswered) and not event.approved

    anyio.run(main)


def test_an_announced_action_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            async with browser(server, await log_in(server)) as client:
                answer = await press(client, "/", "/theme", {"theme": "dark"})
                assert answer.headers["set-cookie"].startswith("theme=dark;")
                await press(client, "/approvals", f"/approvals/{ANNOUNCED}", {"verb": "stop"})
            assert len(await events_of(server, ActionStopped)) == 1

    anyio.run(main)


def test_an_answer_to_something_else_is_refused(tmp_path: Path) -> None:
    wrong = [
        ({"verb": "once", "hash": HASH[::-1]}, 409),
        ({"verb": "once", "hash": ""}, 409),
        ({"verb": "sudo"}, 409),
        ({"verb": "once", "csrf": "0" * 64}, 403),
    ]

    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            async with browser(server, await log_in(server)) as client:
                for fields, status in wrong:
                    answer = await press(client, "/approvals", f"/approvals/{WAITING}", fields)
                    assert answer.status_code == status
            assert not await events_of(server, ApprovalAnswered)

    anyio.run(main)


def test_who_may_not_act_sees_why_and_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            bob = PersonAdded(run=PEOPLE_RUN, name="bob", ids=(("unix", "bob"),), by="root")
            await server.journal.append(bob)
            async with browser(server, await log_in(server, "mallory")) as client:
                page = (await client.get(f"/approvals/{WAITING}")).text
                assert re.search(r'value="once" disabled title="[^"]+mallory', page)
                assert "You may not approve it" in page
                action = f"/approvals/{WAITING}"
                refused = await press(client, action, action, {"verb": "once"})
                assert refused.status_code == 409
                refused = await press(client, OPEN_PATH, OPEN_PATH, {"verb": "close"})
                assert refused.status_code == 409
            assert not await events_of(server, ApprovalAnswered)

    anyio.run(main)


def test_an_incident_is_acknowledged_told_and_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            opened = IncidentOpened(run="inc-1", incident="inc-1", title="web down", severity="P1")
            await server.journal.append(opened)
            async with browser(server, await log_in(server)) as client:
                done = await press(client, "/", "/now/inc-1/acknowledge", {})
                assert done.status_code == 303
                path = "/incidents/inc-1"
                await press(client, path, path, {"verb": "tell", "text": "it is the cable"})
                done = await press(client, path, path, {"verb": "close", "text": "new cable"})
                page = (await client.get(done.headers["location"])).text
                assert "closed by alice" in page
                assert "Open it again" in page
            (ack,) = await events_of(server, IncidentAcknowledged)
            (hint,) = await events_of(server, IncidentHint)
            (closed,) = await events_of(server, IncidentClosed)
            assert isinstance(hint, IncidentHint)
            assert (hint.person, hint.text) == ("alice", "it is the cable")
            assert ack is not None
            assert isinstance(closed, IncidentClosed)
            assert (closed.by, closed.reason) == ("alice", "new cable")

    anyio.run(main)


def test_a_grant_is_revoked(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await record(server, recorded_day())
            async with browser(server, await log_in(server)) as client:
                action = "/grants/grant-20260306-031500-4f2a1c/revoke"
                assert (await press(client, "/approvals", action, {})).status_code == 303
                assert action not in (await client.get("/approvals")).text
            assert len(await events_of(server, GrantRevoked)) == 1

    anyio.run(main)


def test_a_thousand_incidents_are_pages_of_a_hundred(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            begin = datetime.now(UTC) - timedelta(days=30)
            for number in range(1000):
                at = begin + timedelta(minutes=number)
                events = past_incident(at, number, f"incident {number}", "P2", "web", "skill")
                await record(server, events)
            async with browser(server, await log_in(server)) as client:
                path, seen = "/incidents", list[str]()
                while path:
                    page = await client.get(path)
                    assert len(page.content) <= MAX_PAGE_BYTES
                    rows = re.findall(r'<tr id="row-([^"]+)"', page.text)
                    assert len(rows) <= MAX_ROWS
                    seen += rows
                    next_page = re.search(r'href="([^"]+)" rel="next"', page.text)
                    path = html.unescape(next_page[1]) if next_page else ""
                assert len(seen) == len(set(seen)) == 1000
                assert len((await client.get("/")).content) <= MAX_PAGE_BYTES

    anyio.run(main)


def test_an_incident_with_ten_thousand_events_is_one_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            opened = IncidentOpened(run="inc-1", incident="inc-1", title="web down", severity="P1")
            detail = "the answer took longer than it may " * 4
            checks = [
                IncidentChecked(
                    run="inc-1", incident="inc-1", check=f"check {n}", ok=False, detail=detail
                )
                for n in range(5000)
            ]
            hints = [
                IncidentHint(run="inc-1", incident="inc-1", person="bob", text=f"{n} {detail * 5}")
                for n in range(5000)
            ]
            await server.journal.append(opened, *checks, *hints)
            async with browser(server, await log_in(server)) as client:
                page = await client.get("/incidents/inc-1")
                assert len(page.content) <= MAX_PAGE_BYTES
                assert timeline(page.text).count("<li") == MAX_ROWS
                older = re.search(r'href="(\?show=all&amp;before=\d+)', page.text)
                assert older is not None
                earlier = await client.get("/incidents/inc-1" + html.unescape(older[1]))
                assert timeline(earlier.text).count("<li") == MAX_ROWS
                assert timeline(earlier.text) != timeline(page.text)

    anyio.run(main)
