"""Streams through a real nginx with its usual settings."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2 as httpx
import pytest
from api_server import ApiServer, api_server, runs, says

from hermes.core.events.incidents import IncidentAcknowledged

pytestmark = [pytest.mark.anyio, pytest.mark.daemon]

NGINX = Path("/usr/sbin/nginx")
CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen unix:{folder}/socket;
    location / {{ proxy_pass {address}; }}
  }}
}}
"""


def write_config(folder: Path, address: str) -> Path:
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, address=address))
    return config


@asynccontextmanager
async def client_of_nginx(
    folder: Path, server: ApiServer, token: str
) -> AsyncIterator[httpx.AsyncClient]:
    config = write_config(folder, server.address)
    command = [str(NGINX), "-e", str(folder / "error.log"), "-c", str(config), "-p", str(folder)]
    process = await anyio.open_process(command, stderr=subprocess.DEVNULL)
    socket = anyio.Path(folder / "socket")
    try:
        with anyio.fail_after(60):
            while not await socket.exists():
                assert process.returncode is None, "nginx did not start"
                await anyio.sleep(0.02)
        transport = httpx.AsyncHTTPTransport(uds=str(socket))
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=60
        ) as client:
            yield client
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.skipif(not NGINX.exists(), reason="nginx is not installed")
async def test_events_and_answers_pass_nginx_at_once(tmp_path: Path) -> None:
    replies = [runs("rm -rf /srv/important"), says("it was refused")]
    async with api_server(tmp_path, replies) as server:
        token = await server.token()
        async with client_of_nginx(tmp_path / "nginx", server, token) as client:
            with anyio.fail_after(60):
                query = {"kinds": "incident.acknowledged", "after": "0"}
                async with client.stream("GET", "/api/events", params=query) as stream:
                    parts, seen = stream.aiter_text(), ""
                    await anext(parts)
                    await server.journal.append(
                        IncidentAcknowledged(run="incident-1", incident="incident-1", by="alice")
                    )
                    while "alice" not in seen:  # the stream stays open all the while
                        seen += await anext(parts)
                body = {"messages": [{"role": "user", "content": "clean up"}], "stream": True}
                async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
                    parts, seen = stream.aiter_text(), ""
                    while "event: hermes.approval" not in seen:  # the turn waits for a person
                        seen += await anext(parts)
            whole = await client.get("/api/incidents")
            assert whole.status_code == 200
