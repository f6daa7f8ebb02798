"""Incidents and approvals over the API, by people with and without the right to answer."""

from pathlib import Path

import anyio
import pytest
from api_server import ApiServer, api_server, runs, says

from hermes.core.events.incidents import IncidentOpened

pytestmark = pytest.mark.anyio


def opened(incident: str) -> IncidentOpened:
    return IncidentOpened(
        run=incident, incident=incident, title=f"{incident} is down", severity="P2", service="web"
    )


async def waiting_approval(server: ApiServer, token: str) -> dict[str, str]:
    with anyio.fail_after(60):
        while True:
            newest = await server.journal.last()
            async for _ in server.journal.read(kinds=("approval.requested",)):
                async with server.client(token) as client:
                    answer = await client.get("/api/approvals")
                approval: dict[str, str] = answer.json()["approvals"][0]
                return approval
            await server.journal.changed(newest)


async def test_incidents_are_listed_in_pages_newest_first(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        for number in range(5):
            await server.journal.append(opened(f"incident-{number}"))
        first = (await client.get("/api/incidents", params={"limit": 2})).json()["incidents"]
        assert [each["incident"] for each in first] == ["incident-4", "incident-3"]
        query = {"limit": 2, "before": "incident-3"}
        second = (await client.get("/api/incidents", params=query)).json()["incidents"]
        assert [each["incident"] for each in second] == ["incident-2", "incident-1"]
        assert (await client.get("/api/incidents", params={"limit": "0"})).status_code == 400
        whole = (await client.get("/api/incidents/incident-2")).json()
        assert whole["title"] == "incident-2 is down"
        assert (await client.get("/api/incidents/nonsense")).status_code == 404
        report = await client.get("/api/incidents/incident-2/report")
        assert report.text.startswith("Incident: incident-2 is down\n")


async def test_a_wrong_method_names_the_right_ones_and_is_no_refused_alert(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        wrong = await client.delete("/api/incidents")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
        assert "hermes_alerts_refused_total{" not in (await client.get("/metrics")).text
        await client.delete("/alerts")
        assert "hermes_alerts_refused_total{" in (await client.get("/metrics")).text


async def test_an_incident_is_acknowledged_by_the_person_of_the_token(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token("bob")) as client:
        await server.journal.append(opened("incident-1"))
        done = await client.post("/api/incidents/incident-1/ack")
        assert (done.status_code, done.json()["by"]) == (200, "bob")
        closed = await client.post("/api/incidents/incident-1/close", json={"text": "a cable"})
        assert closed.json()["state"] == "closed"
        again = await client.post("/api/incidents/incident-1/close", json={})
        assert again.status_code == 409


@pytest.mark.command
async def test_an_approval_answered_over_the_api_starts_the_command(tmp_path: Path) -> None:
    target = tmp_path / "work" / "doomed"
    replies = [runs(f"rm -rf {target}"), says("removed")]
    async with api_server(tmp_path, replies) as server:
        target.mkdir()
        token = await server.token("alice")
        async with server.client(token) as client, anyio.create_task_group() as group:
            answers: list[str] = []

            async def ask() -> None:
                body = {"messages": [{"role": "user", "content": "remove it"}]}
                done = await client.post("/v1/chat/completions", json=body)
                answers.append(done.json()["choices"][0]["message"]["content"])

            group.start_soon(ask)
            approval = await waiting_approval(server, token)
            path = f"/api/approvals/{approval['id']}"
            for unseen in ("another", ""):
                wrong = await client.post(path, json={"verb": "once", "hash": unseen})
                assert wrong.status_code == 409, unseen
            assert target.exists()
            done = await client.post(path, json={"verb": "once", "hash": approval["hash"]})
            assert done.status_code == 200, done.text
    assert answers == ["removed"]
    assert not target.exists()


async def test_a_token_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        await server.journal.append(opened("incident-1"))
        async with server.client(await server.token(rights=("read",))) as client:
            assert (await client.post("/api/incidents/incident-1/ack")).status_code == 403
            answer = {"verb": "once", "hash": "x"}
            assert (await client.post("/api/approvals/x", json=answer)).status_code == 403
