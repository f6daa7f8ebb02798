"""The stream of the dashboard carries what differs on the page that reads it."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2 as httpx
from api_server import api_server
from dashboard_client import browser, log_in

from hermes.core.events.access import ACCESS_RUN, WebSessionEnded
from hermes.core.events.incidents import IncidentGraded, IncidentOpened

MAX_WAIT_S = 60.0


def opened(id: str, title: str) -> IncidentOpened:
    return IncidentOpened(run=id, incident=id, title=title, severity="P2")


def read_mark(page: str, name: str) -> str:
    found = re.search(rf'data-{name}="([^"]+)"', page)
    assert found is not None
    return found[1]


async def read_changes(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: ") and name == "change":
            yield json.loads(line.removeprefix("data: "))


def test_the_stream_carries_only_the_changed_rows_and_ends_with_the_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server:
            await server.journal.append(opened("inc-a", "disk full"), opened("inc-b", "slow <b>"))
            async with browser(server, await log_in(server)) as client:
                page = (await client.get("/incidents")).text
                version = read_mark(page, "version")
                reading = {
                    "after": read_mark(page, "position"),
                    "version": version,
                    "page": "/incidents?state=all",
                }
                async with client.stream("GET", "/live", params=reading) as answer:
                    changes = read_changes(answer)
                    await server.journal.append(opened("inc-c", "<script>alert(1)</script>"))
                    patch = (await anext(changes))["patch"]
                    assert patch["from"] == version
                    assert set(patch["replaced"]) == {"row-inc-c", "side-incidents", "bottom"}
                    assert "<script>" not in patch["replaced"]["row-inc-c"]
                    assert patch["ordered"] == [["row-inc-c", "row-inc-b", "row-inc-a"]]

                    again = await client.get("/incidents", headers={"x-page-version": version})
                    assert again.json()["to"] == patch["to"]
                    unknown = await client.get("/incidents", headers={"x-page-version": "other"})
                    assert read_mark(unknown.text, "version") == patch["to"]

                    change = IncidentGraded(
                        run="inc-a", incident="inc-a", severity="P1", before="P2"
                    )
                    await server.journal.append(change)
                    second = (await anext(changes))["patch"]
                    assert (second["from"], list(second["replaced"])) == (
                        patch["to"],
                        ["row-inc-a"],
                    )

                    session = [
                        each.event.session
                        async for each in server.journal.read(kinds=("web-session.started",))
                    ][-1]
                    await server.journal.append(
                        WebSessionEnded(run=ACCESS_RUN, session=session, by="root")
                    )
                    await server.journal.append(opened("inc-d", "after the end"))
                    with anyio.fail_after(MAX_WAIT_S):
                        assert [each async for each in changes if "patch" in each] == []

    anyio.run(main)


def test_a_tab_on_a_page_that_is_gone_is_only_told_what_happened(tmp_path: Path) -> None:
    async def main() -> None:
        async with api_server(tmp_path) as server, browser(server, await log_in(server)) as client:
            for path in ("/incidents/inc-none", "/nowhere", "https://other.example/incidents/x"):
                async with client.stream("GET", "/live", params={"page": path}) as answer:
                    changes = read_changes(answer)
                    await server.journal.append(opened("inc-a", "disk full"))
                    change = await anext(changes)
                    assert "patch" not in change
                    assert "incident.opened" in change["kinds"]

    anyio.run(main)
