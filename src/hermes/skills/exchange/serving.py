"""A tiny server for a published folder: its index and its bundles, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from hermes.skills.exchange.bundle import SUFFIX
from hermes.skills.exchange.index import INDEX, PLACE


class _Shelf(BaseHTTPRequestHandler):
    folder = Path()
    server_version = "hermes-skills"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        name = self.path.partition("?")[0].removeprefix(f"/{PLACE}/")
        offered = name == INDEX or (name.endswith(SUFFIX) and "/" not in name and name[0] != ".")
        file = self.folder / PLACE / name
        if not offered or file.is_symlink() or not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        self.send_response(200)
        kind = "application/json" if name == INDEX else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *given: Any) -> None:
        """Quiet: whoever wants a log puts a real server in front."""


def open_server(folder: Path, host: str, port: int) -> ThreadingHTTPServer:
    """Raises `OSError` when the address is taken."""
    shelf = type("Shelf", (_Shelf,), {"folder": folder})
    return ThreadingHTTPServer((host, port), shelf)


@contextmanager
def served(folder: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The address under which it can be reached, until the block ends."""
    server = open_server(folder, host, port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
