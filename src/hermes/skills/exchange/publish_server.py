"""Serves the index and the bundles of a published folder, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from hermes.skills.exchange.bundle import BUNDLE_SUFFIX
from hermes.skills.exchange.index import INDEX_FILE, INDEX_FOLDER


class _PublishedFilesHandler(BaseHTTPRequestHandler):
    folder = Path()
    server_version = "hermes-skills"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        name = self.path.partition("?")[0].removeprefix(f"/{INDEX_FOLDER}/")
        offered = name == INDEX_FILE or (
            name.endswith(BUNDLE_SUFFIX) and "/" not in name and name[0] != "."
        )
        file = self.folder / INDEX_FOLDER / name
        if not offered or file.is_symlink() or not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        self.send_response(200)
        kind = "application/json" if name == INDEX_FILE else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Writes no log."""


def open_publish_server(folder: Path, host: str, port: int) -> ThreadingHTTPServer:
    """Raises `OSError` when the address is taken."""
    handler = type("PublishedFilesHandler", (_PublishedFilesHandler,), {"folder": folder})
    return ThreadingHTTPServer((host, port), handler)


@contextmanager
def serve_folder(folder: Path, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serves the folder until the block ends; yields the address."""
    server = open_publish_server(folder, host, port)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
