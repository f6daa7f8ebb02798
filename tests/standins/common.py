"""What the stand-in servers share: a local HTTP server and failures that tests ask for.

A stand-in answers as the platform documents it, to exactly the calls that it knows. What it would
refuse is noted in `problems`, which the contract suite compares with an empty list.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from aiohttp import web

from hermes.testing.chat_platform import ChatFailure

RETRY_AFTER_S = 7


class StandinBase:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.private_answers: list[str] = []
        self.typing: list[str] = []
        self.url = ""
        self._failures: list[ChatFailure] = []
        self._changed = anyio.Event()

    def fail_next(self, failure: ChatFailure) -> None:
        self._failures.append(failure)

    def take_failure(self) -> ChatFailure | None:
        return self._failures.pop(0) if self._failures else None

    def complain(self, problem: str) -> None:
        self.problems.append(problem)

    def changed(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    def add_routes(self, app: web.Application) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["StandinBase"]:
        app = web.Application(client_max_size=64 * 2**20)
        self.add_routes(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()


async def send_half(request: web.Request, body: bytes) -> web.StreamResponse:
    """The connection ends in the middle of the answer."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    assert request.transport is not None
    request.transport.close()
    return response


def expect_arguments(
    given: dict[str, object], allowed: dict[str, type | tuple[type, ...]], required: set[str]
) -> list[str]:
    """What is wrong with the arguments of a call."""
    found = [f"unknown argument {name}" for name in given if name not in allowed]
    found += [f"missing argument {name}" for name in required if name not in given]
    for name, kind in allowed.items():
        if name in given and not isinstance(given[name], kind):
            found.append(f"argument {name} is {given[name]!r}")
    return found
