"""Runs the official conformance suite of MCP against our client, and against `hermes mcp serve`.

usage: python bench/mcp_conformance.py SUITE [--scenario NAME]

SUITE is the folder in which `npm install @modelcontextprotocol/conformance` was run; the suite
needs Node 22 or newer on the PATH. It is no part of CI: CI has no npm.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2

from hermes.app.mcp.servers import open_servers
from hermes.core.errors import HermesError
from hermes.integrations.mcp.connection import ConnectionHooks
from hermes.integrations.mcp.logins import LoginStore
from hermes.integrations.mcp.oauth import log_in, open_redirect_listener
from hermes.integrations.mcp.pins import ServerAddress, ServerPin, make_pin
from hermes.integrations.mcp.servers import NeedsPerson, ServerLimits
from hermes.settings.load import load

CLIENT_SCENARIOS = (
    *("initialize", "tools_call", "sse-retry", "elicitation-sep1034-client-defaults"),
    *(f"auth/metadata-{each}" for each in ("default", "var1", "var2", "var3")),
    *(f"auth/scope-{each}" for each in ("from-www-authenticate", "from-scopes-supported")),
    *(f"auth/scope-{each}" for each in ("omitted-when-undefined", "step-up", "retry-limit")),
    *(f"auth/token-endpoint-auth-{each}" for each in ("basic", "post", "none")),
    *("auth/basic-cimd", "auth/pre-registration"),
    *("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"),
)
"""Those of the released revisions; drafts and extensions are left out."""
SERVER_SCENARIOS = ("server-initialize", "ping", "tools-list", "dns-rebinding-protection")
"""The others ask for tools, prompts and resources of the suite, which Hermes does not have."""
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
LIMITS = ServerLimits(restart_delays_s=(), connect_s=60.0)
SCENARIO_TIMEOUT_S = 120.0


CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address that the suite expects from a client that has a document about itself."""
WANTED_SCOPE = re.compile(r'hermes mcp login suite --scope "([^"]+)"')


async def play_client(url: str) -> None:
    """Lists the tools and calls each. The person of the product is played here: they log in where
    the server wants it, and once more with the rights that a failed call names."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        pin = ServerPin(name="suite", address=ServerAddress(url=url))
        if scenario == "auth/basic-cimd":
            context = {"client_id": CLIENT_DOCUMENT}
        if scenario.startswith("auth/"):
            await _log_in(home, url, context)
        try:
            await _call_all(home, pin)
        except NeedsPerson as error:
            wanted = WANTED_SCOPE.search(str(error))
            if wanted is None:
                raise
            await _log_in(home, url, {**context, "scope": wanted[1]})
            await _call_all(home, pin)


async def _call_all(home: Path, pin: ServerPin) -> None:
    async with open_servers(load(home=home), home, None, LIMITS) as servers:
        server = servers.server(pin)
        for tool in (await server.listing())[1]:
            arguments = ARGUMENTS.get(tool.name, {})
            await server.call(make_pin(tool, None, ""), arguments, run="r", ask=_answer)


async def _log_in(home: Path, url: str, context: dict[str, Any]) -> None:
    keys = ("client_id", "client_secret", "scope")
    client = {key: context[key] for key in keys if context.get(key)}

    async def show(address: str) -> None:
        get = partial(httpx2.get, address, follow_redirects=True)
        threading.Thread(target=get, daemon=True).start()

    async with open_redirect_listener() as (uri, wait):
        hooks = ConnectionHooks("suite", str(home))
        guard: Any = None  # every part of the suite listens on this machine
        login = await log_in(hooks, url, {}, uri, show, wait, guard=guard, client=client)
    LoginStore(home).save("suite", login)


async def _answer(question: str, choices: Any) -> str:
    return next(iter(choices), "")


def run_scenario(suite: Path, *words: str) -> tuple[bool, str]:
    program = suite / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    path = f"{suite / 'node_modules/.bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["node", str(program), *words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=2 * SCENARIO_TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0, (done.stdout + done.stderr)[-2_000:]


def check_clients(suite: Path, only: str) -> list[tuple[str, bool, str]]:
    command = f"{sys.executable} {Path(__file__).resolve()} --play"
    timeout = str(int(SCENARIO_TIMEOUT_S * 1_000))
    return [
        (f"client {name}", *run_scenario(
            suite, "client", "--command", command, "--scenario", name, "--timeout", timeout
        ))
        for name in CLIENT_SCENARIOS
        if only in ("", name)
    ]  # fmt: skip


def check_server(suite: Path, only: str) -> list[tuple[str, bool, str]]:
    """Against the endpoint that `hermes up` has at `/mcp`, without its token."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(port)])
    try:
        url = f"http://localhost:{port}/mcp"
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            threading.Event().wait(0.1)
        return [
            (f"server {name}", *run_scenario(suite, "server", "--url", url, "--scenario", name))
            for name in SERVER_SCENARIOS
            if only in ("", name)
        ]
    finally:
        server.terminate()
        server.wait()


async def serve(port: int) -> None:
    import uvicorn  # noqa: PLC0415 - only here

    from hermes.integrations.mcp.server import HttpEndpoint, build_server  # noqa: PLC0415
    from hermes.plumbing.http_service import HttpRefusal, HttpRequest  # noqa: PLC0415

    async def refuse(*_: object) -> str:
        raise HermesError("only for the suite")

    endpoint = HttpEndpoint(build_server([], refuse, refuse, "1"))

    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = HttpRequest(
            method=scope["method"], path=scope["path"], headers=headers, body=body
        )
        try:
            reply = await endpoint.respond(request)
            status, content, kind = reply.status, reply.body, reply.content_type
        except HttpRefusal as refusal:
            status, content, kind = refusal.status, str(refusal).encode(), "text/plain"
        answer = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": int(status), "headers": answer})
        await send({"type": "http.response.body", "body": content})

    config = uvicorn.Config(application, port=port, log_level="critical", lifespan="off")
    async with endpoint.opened():
        await uvicorn.Server(config).serve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--scenario", default="")
    given = parser.parse_args()
    rows = [*check_clients(given.suite, given.scenario), *check_server(given.suite, given.scenario)]
    for name, passed, output in rows:
        print(f"{'passed' if passed else 'FAILED'}  {name}")
        if not passed:
            print("    " + output.replace("\n", "\n    "))
    print(f"{sum(passed for _, passed, _ in rows)} of {len(rows)} scenarios passed")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--play", url]:
            anyio.run(play_client, url)
        case ["--serve", port]:
            anyio.run(serve, int(port))
        case _:
            main()
