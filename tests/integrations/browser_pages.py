"""Local web pages, and one real Chromium that the tests of a file share."""

import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from hermes.environments.local import LocalEnvironment
from hermes.integrations.browser.address_checks import open_address_proxy
from hermes.integrations.browser.launch import find_program, start_local_browser
from hermes.integrations.browser.session import BrowserLimits, ChromiumSession, open_session
from hermes.plumbing.addresses import AddressGuard, guard_for

VARIABLES = {"PATH": os.environ["PATH"]}
needs_chromium = pytest.mark.skipif(not shutil.which("chromium"), reason="not installed: chromium")


class PageServer(ThreadingHTTPServer):
    """Answers with pages by path, and remembers which were asked for."""

    daemon_threads = True

    def __init__(self, pages: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), _PageHandler)
        self.pages, self.asked = pages, list[str]()
        self.released = threading.Event()
        """Until then, what is asked below /endless is not answered."""
        self.upgrades: list[str] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves is no error."""


class _PageHandler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.headers.get("Upgrade") == "websocket":
            self.server.upgrades.append(self.path)
        path = self.path.partition("?")[0]
        if path.startswith("/endless"):
            self.server.released.wait(60)
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to/"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        page = self.server.pages.get(path)
        body = (page if page is not None else f"<h1>{path}</h1>").encode()
        self.send_response(200 if page is not None else 404)
        kind = "text/javascript" if path.endswith(".js") else "text/html; charset=utf-8"
        kind = "application/octet-stream" if path.endswith(".bin") else kind
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextmanager
def page_server(pages: dict[str, str]) -> Iterator[PageServer]:
    server = PageServer(pages)
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()


@asynccontextmanager
async def chromium(
    folder: Path, guard: AddressGuard, limits: BrowserLimits | None = None
) -> AsyncIterator[ChromiumSession]:
    async with (
        LocalEnvironment(folder, VARIABLES) as environment,
        open_address_proxy(guard) as port,
        start_local_browser(environment, find_program(None), port, VARIABLES) as transport,
        open_session(transport, guard, limits) as session,
    ):
        yield session


class SharedBrowser:
    """A browser in an event loop of its own, called from plain tests."""

    def __init__(self, portal: BlockingPortal, session: ChromiumSession, server: PageServer):
        self.portal, self.session, self.server = portal, session, server

    def open(self, path: str) -> str:
        return self.run(self.session.navigate, self.server.address + path)

    def run(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> str:
        async def call() -> str:
            return str(await method(*arguments, **named))

        return self.portal.call(call)

    def click(self, shown: str, words: str) -> str:
        return self.run(self.session.click, reference(shown, words))

    def type(self, shown: str, words: str, text: str, *, submit: bool = False) -> str:
        return self.run(self.session.type, reference(shown, words), text, submit=submit)


def reference(shown: str, words: str) -> str:
    """The reference in the line with these words."""
    line = next(line for line in shown.splitlines() if words in line and "[e" in line)
    return line.partition("[e")[2].partition("]")[0].join(("e", ""))


@contextmanager
def shared_browser(
    folder: Path, server: PageServer, limits: BrowserLimits | None = None
) -> Iterator[SharedBrowser]:
    guard = guard_for([server.address])
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(chromium(folder, guard, limits)) as session,
    ):
        yield SharedBrowser(portal, session, server)
