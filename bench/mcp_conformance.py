"""Runs the official conformance suite of MCP against our client, and against `hermes mcp serve`.

usage: python bench/mcp_conformance.py SUITE [--scenario NAME]

SUITE is the folder in which `npm install @modelcontextprotocol/conformance` was run; the suite
needs Node 22 or newer on the PATH. It is no part of CI: CI has no npm.

The suite names the revisions of the protocol that each scenario belongs to. Drafts and extensions
are run too, and printed apart.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import httpx2

from hermes.app.mcp.servers import open_servers
from hermes.integrations.mcp.connection import ConnectionHooks
from hermes.integrations.mcp.logins import LoginStore
from hermes.integrations.mcp.oauth import log_in, open_redirect_listener
from hermes.integrations.mcp.pins import ServerAddress, ServerPin, make_pin
from hermes.integrations.mcp.servers import NeedsPerson, ServerLimits
from hermes.settings.load import load

PARTS_OF_THE_SUITE = re.compile(
    r"(logging|completion|tools-call|json-schema|elicitation|server-sse|prompts|tasks)-"
    r"|(resources-(read|templates|subscribe|unsubscribe)|input-required-result|sep-2640)"
    r"|http-custom-header-server"
)
"""Scenarios for servers that ask for tools, prompts and resources of the suite."""
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
LIMITS = ServerLimits(restart_delays_s=(), connect_s=60.0)
SCENARIO_TIMEOUT_S = 120.0
"""What the suite gives a client; the suite itself has twice as long."""


Call = tuple[str, dict[str, Any]]
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
        calls = [(each["name"], each["arguments"]) for each in context.get("toolCalls", ())]
        try:
            await _call_all(home, pin, calls)
        except NeedsPerson as error:
            wanted = WANTED_SCOPE.search(str(error))
            if wanted is None:
                raise
            await _log_in(home, url, {**context, "scope": wanted[1]})
            await _call_all(home, pin, calls)


async def _call_all(home: Path, pin: ServerPin, calls: Sequence[Call]) -> None:
    """Each tool once, unless the suite says which calls it wants."""
    async with open_servers(load(home=home), home, None, LIMITS) as servers:
        server = servers.server(pin)
        tools = {tool.name: tool for tool in (await server.listing())[1]}
        for name, arguments in calls or [(name, ARGUMENTS.get(name, {})) for name in tools]:
            if name == "json_schema_echo":
                arguments = {"schema": tools["json_schema_2020_12_tool"].input_schema}
            await server.call(make_pin(tools[name], None, ""), arguments, run="r", ask=_answer)


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


@dataclass(frozen=True)
class Scenario:
    role: str
    name: str
    apart: str = ""
    """Why no released revision requires it."""

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


class Suite:
    def __init__(self, folder: Path) -> None:
        package = folder / "node_modules/@modelcontextprotocol/conformance"
        self._program = str(package / "dist/index.js")
        self._path = f"{folder / 'node_modules/.bin'}:{os.environ['PATH']}"
        self.version = json.loads((package / "package.json").read_text())["version"]

    def scenarios(self) -> list[Scenario]:
        """What the suite lists, without what asks a server for parts of the suite."""
        return [
            each
            for each in self._listed()
            if each.role == "client" or not PARTS_OF_THE_SUITE.match(each.name)
        ]

    def _listed(self) -> Iterator[Scenario]:
        for role in ("client", "server"):
            for line in self._list(f"--{role}"):
                if item := re.match(r" +- (\S+) \[(.*)\]$", line):
                    apart = "" if re.search(r"\d{4}-\d\d-\d\d", item[2]) else item[2]
                    yield Scenario(role, item[1], apart=apart)

    def _list(self, *words: str) -> list[str]:
        done, output = self._run("list", *words)
        if not done:
            sys.exit(f"the suite does not list its scenarios: {output[-2_000:]}")
        return output.splitlines()

    def play(self, scenario: Scenario, target: str) -> tuple[bool, str]:
        words = [scenario.role, "--scenario", scenario.name]
        if scenario.role == "server":  # the suite has no time limit for servers
            return self._run(*words, "--url", target)
        timeout = str(int(SCENARIO_TIMEOUT_S * 1_000))
        return self._run(*words, "--command", target, "--timeout", timeout)

    def _run(self, *words: str) -> tuple[bool, str]:
        limit = 2 * SCENARIO_TIMEOUT_S
        process = subprocess.Popen(
            ["node", self._program, *words],
            env={**os.environ, "PATH": self._path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the client that it started holds the pipe too
            return False, f"{process.communicate()[0]}\nnot done after {limit:.0f} s"
        return process.returncode == 0, output


@contextmanager
def running_server() -> Iterator[str]:
    """The address of the endpoint that `hermes up` has at `/mcp`, without its token."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    server = subprocess.Popen([sys.executable, __file__, "--serve", str(port)])
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            threading.Event().wait(0.1)
        yield f"http://localhost:{port}/mcp"
    finally:
        server.terminate()
        server.wait()


async def serve(port: int) -> None:
    import uvicorn  # noqa: PLC0415 - only here

    from hermes.app.application import open_application  # noqa: PLC0415
    from hermes.app.web.mcp_service import HttpMcpService  # noqa: PLC0415
    from hermes.core.events.incidents import IncidentOpened  # noqa: PLC0415
    from hermes.plumbing.http_service import HttpRefusal, HttpRequest  # noqa: PLC0415

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
            if request.method != "POST":  # the route of the product takes nothing else
                raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "only POST")
            reply = await service.respond(request)
            status, content, kind = reply.status, reply.body, reply.content_type
        except HttpRefusal as refusal:
            status, content, kind = refusal.status, str(refusal).encode(), "text/plain"
        answer = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": int(status), "headers": answer})
        await send({"type": "http.response.body", "body": content})

    config = uvicorn.Config(application, port=port, log_level="critical", lifespan="off")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        async with (
            open_application(load(home=home), origin="mcp", directory=home) as opened,
            anyio.create_task_group() as group,
        ):
            incident = IncidentOpened(run="i", incident="i", title="web is down", severity="P1")
            await opened.bus.publish(incident)
            service = HttpMcpService(opened, group)
            await uvicorn.Server(config).serve()
            group.cancel_scope.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--scenario", default="")
    given = parser.parse_args()
    suite = Suite(given.suite)
    client = f"{sys.executable} {Path(__file__).resolve()} --play"
    required = list[tuple[Scenario, bool]]()
    with running_server() as server:
        for scenario in suite.scenarios():
            if given.scenario not in ("", scenario.name):
                continue
            passed, output = suite.play(scenario, client if scenario.role == "client" else server)
            apart = f"  (not required: {scenario.apart})" if scenario.apart else ""
            print(f"{'passed' if passed else 'FAILED'}  {scenario}{apart}", flush=True)
            if not apart:
                required.append((scenario, passed))
                if not passed:
                    print("    " + output[-2_000:].replace("\n", "\n    "))
    for role in ("client", "server"):
        verdicts = [passed for scenario, passed in required if scenario.role == role]
        print(f"suite {suite.version}, {role}: {sum(verdicts)} of {len(verdicts)} required passed")
    return 0 if all(passed for _, passed in required) else 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--play", url]:
            anyio.run(play_client, url)
        case ["--serve", port]:
            anyio.run(serve, int(port))
        case _:
            sys.exit(main())
