"""Jobs over the API: added, changed, paused, run and removed, as by the command."""

from pathlib import Path

import pytest
from api_server import api_server

from hermes.core.events.jobs import JobAdded
from hermes.core.events.people import PersonAdded

pytestmark = pytest.mark.anyio

DISK = {"schedule": "every weekday at 9", "zone": "Europe/Berlin", "command": "df -h"}


async def test_a_job_is_added_listed_changed_and_removed(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token("bob")) as client:
        added = await client.post("/api/jobs", json={**DISK, "name": "disk"})
        assert added.status_code == 200, added.text
        assert added.json()["author"] == "bob"
        assert added.json()["zone"] == "Europe/Berlin"
        assert len(added.json()["next"]) == 5
        twice = await client.post("/api/jobs", json={**DISK, "name": "disk"})
        assert twice.status_code == 409
        listed = (await client.get("/api/jobs")).json()
        assert {"disk", "health", "briefing"} <= {each["job"] for each in listed["jobs"]}
        assert listed["scheduler_running"] is False
        change = {"schedule": "every day at 10", "overlap": "queue"}
        changed = (await client.patch("/api/jobs/disk", json=change)).json()
        assert changed["spec"]["schedule"]["zone"] == "Europe/Berlin"
        assert changed["spec"]["command"] == "df -h"
        assert changed["spec"]["overlap"] == "queue"
        assert (await client.delete("/api/jobs/disk")).json() == {"job": "disk", "removed": True}
        assert (await client.get("/api/jobs/disk")).status_code == 404


async def test_a_built_in_job_is_paused_and_nothing_else(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        paused = await client.patch("/api/jobs/briefing", json={"paused": True, "reason": "away"})
        assert (paused.json()["paused"], paused.json()["next"]) == (True, [])
        resumed = await client.patch("/api/jobs/briefing", json={"paused": False})
        assert resumed.json()["paused"] is False
        assert (await client.patch("/api/jobs/briefing", json={"task": "x"})).status_code == 409
        assert (await client.delete("/api/jobs/briefing")).status_code == 409


async def test_a_run_by_hand_is_in_the_history(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token("bob")) as client:
        await client.post("/api/jobs", json={**DISK, "name": "disk"})
        asked = (await client.post("/api/jobs/disk/run")).json()
        (row,) = (await client.get("/api/jobs/disk/history")).json()["history"]
        assert (row["occurrence"], row["outcome"], row["by"]) == (asked["occurrence"], "due", "bob")
        assert (await client.get("/api/jobs/nonsense/history")).status_code == 404


async def test_words_are_explained_or_refused(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token()) as client:
        asked = {"text": "every weekday at 9", "zone": "Europe/Berlin"}
        meaning = (await client.post("/api/jobs/parse", json=asked)).json()
        assert meaning["zone"] == "Europe/Berlin"
        assert len(meaning["times"]) == 5
        for text in ("whenever you like", "0 9 * * * *", ""):
            refused = await client.post("/api/jobs/parse", json={"text": text})
            assert refused.status_code == 422
            assert refused.json()["detail"]
        assert (await client.post("/api/jobs", json={"schedule": "soon"})).status_code == 422
        found = [each async for each in server.journal.read(kinds=("job.added",))]
        assert not any(isinstance(each.event, JobAdded) for each in found)


async def test_who_is_no_person_changes_no_job(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server:
        await server.journal.append(PersonAdded(run="people", name="alice", ids=(("unix", "a"),)))
        async with server.client(await server.token("mallory")) as client:
            refused = await client.post("/api/jobs", json={**DISK, "name": "disk"})
            assert refused.status_code == 409
            assert (await client.post("/api/jobs/briefing/run")).status_code == 409
        async with server.client(await server.token("alice", rights=("read",))) as client:
            assert (await client.post("/api/jobs", json=DISK)).status_code == 403
            assert (await client.get("/api/jobs")).status_code == 200


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:18666/heartbeat",
        "http://localhost/x",
        "http://[::1]/x",
        "https://10.0.0.7/x",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "http://[::1/x",
    ],
)
async def test_a_heartbeat_to_a_private_address_is_refused(tmp_path: Path, url: str) -> None:
    async with api_server(tmp_path) as server, server.client(await server.token("bob")) as client:
        refused = await client.post("/api/jobs", json={**DISK, "name": "d", "heartbeat_url": url})
        assert refused.status_code == 409, refused.text
        await client.post("/api/jobs", json={**DISK, "name": "d"})
        changed = await client.patch("/api/jobs/d", json={"heartbeat_url": url})
        assert changed.status_code == 409, changed.text
        public = {"heartbeat_url": "https://hc.example.org/ping"}
        assert (await client.patch("/api/jobs/d", json=public)).status_code == 200
