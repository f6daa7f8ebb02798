"""The document of the API against the routes that are served, and against a real server."""

import re
from pathlib import Path

import pytest
from api_server import api_server, says

from hermes.app.web.server import open_api
from hermes.core.bus import Bus
from hermes.memory.store import open_journal
from hermes.settings.load import load
from hermes.web.alert_server import AlertEndpoints, WatchStatus

pytestmark = [pytest.mark.anyio, pytest.mark.command]

DOCUMENTED_AREAS = (
    "alerts",
    "api",
    "channels",
    "healthz",
    "readyz",
    "hooks",
    "metrics",
    "openapi.json",
    "v1",
)
"""First words of paths; the pages of the dashboard are for people."""


async def test_every_route_is_documented_and_every_documented_route_is_served(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.jsonl"
    script.touch()
    loaded = load(home=tmp_path, variables={}, overrides={"model.default": f"scripted:{script}"})
    async with open_api(loaded) as routes, open_journal(loaded.store) as journal:
        settings = loaded.settings.web
        service = AlertEndpoints(Bus(journal), settings, "", WatchStatus()).service(
            settings, routes
        )
    served = {
        f"{method} {route.path}"
        for route in service.routes
        for method in route.methods
        if route.path.split("/")[1] in DOCUMENTED_AREAS
    }
    async with api_server(tmp_path) as server, server.client("") as client:
        document = (await client.get("/openapi.json")).json()
    documented = {
        f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found
    }
    assert document["openapi"] == "3.1.0"
    assert documented == served
    assert len(served) >= 30


async def test_every_reference_and_placeholder_of_the_document_is_defined(tmp_path: Path) -> None:
    async with api_server(tmp_path) as server, server.client("") as client:
        text = (await client.get("/openapi.json")).text
        document = (await client.get("/openapi.json")).json()
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names == set(document["components"]["schemas"])
    for path, found in document["paths"].items():
        for operation in found.values():
            named = {
                each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"
            }
            assert named == set(re.findall(r"\{(\w+)\}", path))


@pytest.mark.parametrize("start", [0, 1], ids=["valid", "invalid"])
async def test_generated_requests_get_documented_answers_and_no_server_error(
    tmp_path: Path, start: int
) -> None:
    # Every test process loads this file, and only the one that runs this test needs schemathesis.
    from api_fuzzing import fuzz_api  # noqa: PLC0415 - see above

    async with api_server(tmp_path, [says("all is well")] * 50) as server:
        result = await fuzz_api(server, 3, start)
    assert result.problems == []
    assert max(result.statuses) < 500
    assert sum(result.statuses.values()) >= 60
