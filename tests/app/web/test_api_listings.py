"""Services, skills, facts, drills, actions, people and channels over the API."""

from pathlib import Path

import anyio
import pytest
from api_server import ApiServer, api_server, runs, says
from test_api_resources import opened

from hermes.core.events.operations import HealthChecked
from hermes.core.events.people import PersonAdded

pytestmark = pytest.mark.anyio


async def finished_turn(server: ApiServer) -> None:
    with anyio.fail_after(60):
        while True:
            newest = await server.journal.last()
            async for _ in server.journal.read(kinds=("turn.ended",)):
                return
            await server.journal.changed(newest)


async def test_services_show_their_incidents_and_the_last_round(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        await server.journal.append(opened("incident-1"))
        await server.journal.append(HealthChecked(run="watch", ok=True, checks=3))
        found = (await client.get("/api/services")).json()
    (service,) = [each for each in found["services"] if each["name"] == "web"]
    assert (service["state"], service["open_incidents"]) == ("incident", 1)
    assert found["round"]["checks"] == 3


async def test_skills_drills_and_channels_are_listed(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        skills = (await client.get("/api/skills", params={"words": "disk"})).json()["skills"]
        assert skills
        assert all("disk" in f"{each['name']} {each['description']}".lower() for each in skills)
        drills = (await client.get("/api/drills")).json()["scenarios"]
        assert drills
        assert {each["played"] for each in drills} == {0}
        channels = (await client.get("/api/channels")).json()["channels"]
        assert "telegram" in {each["name"] for each in channels}


async def test_people_are_listed_without_their_ids(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        await server.journal.append(
            PersonAdded(run="people", name="alice", ids=(("telegram", "123456789"),))
        )
        answer = await client.get("/api/people")
    assert answer.json()["people"][0]["name"] == "alice"
    assert "123456789" not in answer.text


@pytest.mark.command
async def test_actions_of_a_private_conversation_are_shown_to_its_person_alone(
    tmp_path: Path,
) -> None:
    async with api_server(tmp_path, [runs("echo private-word"), says("done")]) as server:
        async with server.client(await server.token("alice")) as client:
            await client.post("/api/runs", json={"text": "say it"})
            await finished_turn(server)
            own = await client.get("/api/audit")
            assert [each["what"] for each in own.json()["actions"]] == ["echo private-word"]
            refused = await client.get("/api/audit", params={"before": "x"})
            assert refused.status_code == 400
        async with server.client(await server.token("bob")) as client:
            others = await client.get("/api/audit")
            assert others.json()["actions"] == []
            assert (await client.get("/api/memory")).json() == {"facts": []}


async def test_lists_need_the_right_to_read(tmp_path: Path) -> None:
    async with (
        api_server(tmp_path) as server,
        server.client(await server.token(rights=("chat",))) as client,
    ):
        for name in ("services", "skills", "memory", "drills", "audit", "people", "channels"):
            assert (await client.get(f"/api/{name}")).status_code == 403, name
