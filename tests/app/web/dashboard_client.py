"""A browser without JavaScript, as far as requests are concerned, and how it logs in."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2 as httpx
from api_server import ApiServer

from hermes.web.browser_checks import SESSION_COOKIE
from hermes.web.sessions import create_login


@asynccontextmanager
async def browser(
    server: ApiServer, secret: str = "", **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    cookie = {"cookie": f"{SESSION_COOKIE}={secret}"} if secret else {}
    more = {
        "origin": server.address,
        **cookie,
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    # Nothing is encrypted here, and loading certificates takes longer than a request.
    async with httpx.AsyncClient(
        base_url=server.address, headers=more, timeout=60, verify=False
    ) as client:
        yield client


async def log_in(server: ApiServer, person: str = "alice") -> str:
    code, event = create_login(person)
    await server.journal.append(event)
    async with browser(server) as client:
        answer = await client.post("/login", data={"code": code})
    assert answer.status_code == 303, answer.text
    found = re.match(rf"{SESSION_COOKIE}=([^;]+); ", answer.headers["set-cookie"])
    assert found is not None
    return found[1]
