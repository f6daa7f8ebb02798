"""The first request of a conversation: its size, and which tools it offers in a new home."""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermes.app import open_application
from hermes.core.errors import HermesError
from hermes.settings.load import load

pytestmark = pytest.mark.anyio

MAX_FIRST_REQUEST_BYTES = 10_000


@pytest.fixture
def requests() -> Iterator[tuple[str, list[bytes]]]:
    """The address of a model server that refuses every request, and what it received."""
    received: list[bytes] = []

    class RefusingModel(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "no"}}')

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), RefusingModel) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", received
        server.shutdown()


async def first_request(home: Path, work: Path, address: str, received: list[bytes]) -> bytes:
    received.clear()
    overrides = {
        "model.default": "own:own",
        "model.providers.own.base_url": address,
        "model.providers.own.dialect": "openai",
        "model.providers.own.key_variable": "none",
    }
    loaded = load(home=home, variables={"PATH": os.environ["PATH"]}, overrides=overrides)
    async with open_application(loaded, directory=work) as application:
        conversation = await application.begin("hello")
        with pytest.raises(HermesError):
            await conversation.say("hello")
    return received[0]


def tool_names(request: bytes) -> set[str]:
    tools: list[dict[str, Any]] = json.loads(request)["tools"]
    return {each["function"]["name"] for each in tools}


async def test_the_first_request_is_small(
    tmp_path: Path, requests: tuple[str, list[bytes]]
) -> None:
    request = await first_request(tmp_path / "home", tmp_path, *requests)
    named = request.replace(os.fsencode(tmp_path), b"/srv/project")  # however long it is here
    assert len(named) <= MAX_FIRST_REQUEST_BYTES
    system = json.loads(request)["messages"][0]["content"]
    assert "disk-full-runaway-log" in system, "bundled skills are named"
    assert "kubernetes-rollback" not in system, "there is no cluster"


async def test_tools_that_could_only_refuse_are_not_offered(
    tmp_path: Path, requests: tuple[str, list[bytes]]
) -> None:
    home = tmp_path / "home"
    assert not tool_names(await first_request(home, tmp_path, *requests)) & {
        "session_search",
        "skill_call",
    }
    (home / "search.db").touch()
    assert "session_search" in tool_names(await first_request(home, tmp_path, *requests))
