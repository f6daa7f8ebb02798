"""A strict stand-in for the API of GitHub and for a site with skills: no network is used in tests.

It answers only what the documents of the API describe, and breaks what a test asks it to break.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import msgspec

SKILL = """\
---
name: {name}
description: Count the words of a file; use it when somebody asks for {name}.
---
# {name}

Run `wc -w FILE` and tell the number.
"""


def pack(files: dict[str, str | bytes], root: str = "owner-repo-abc") -> bytes:
    """As the API packs a repository: everything in one folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in files.items():
            content = data.encode() if isinstance(data, str) else data
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def commit_of(archive: bytes) -> str:
    return hashlib.sha1(archive).hexdigest()


class HubServer(ThreadingHTTPServer):
    """`archives`: by repository, the versions of it, the newest last."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.archives: dict[str, list[bytes]] = {}
        self.gone: set[str] = set()
        self.site: dict[str, bytes] = {}
        self.fault = ""
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, place: str, files: dict[str, str | bytes]) -> str:
        """A new version; returns its commit."""
        archive = pack(files)
        self.archives.setdefault(place, []).append(archive)
        return commit_of(archive)


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, kind, body = self._answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 429:
            self.send_header("Retry-After", "60")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if not self.headers.get("User-Agent"):
            return 403, "application/json", b'{"message": "a User-Agent is required"}'
        fault = self.server.fault
        if fault == "html":
            return 200, "text/html", b"<html><body>Log in to the network</body></html>"
        if fault == "429":
            return 429, "application/json", b'{"message": "rate limit"}'
        if fault == "nothing":
            return 200, "text/plain", b""
        parts = path.strip("/").split("/")
        if parts[0] != "repos":
            found = self.server.site.get(path)
            return (200, "text/plain", found) if found is not None else (404, "text/plain", b"")
        versions = self.server.archives.get("/".join(parts[1:3]), [])
        commits = {commit_of(each): each for each in versions}
        if not versions:
            return 404, "application/json", b'{"message": "Not Found"}'
        if parts[3] == "commits":
            if self.headers.get("Accept") != "application/vnd.github.sha":
                return 200, "application/json", msgspec.json.encode({"sha": "?"})
            wanted = commit_of(versions[-1]) if parts[4] in ("HEAD", "main") else parts[4]
            known = wanted in commits and wanted not in self.server.gone
            status, body = (200, wanted.encode()) if known else (422, b"No commit found")
            return status, "text/plain", body
        if parts[3] == "tarball" and parts[4] in commits and parts[4] not in self.server.gone:
            return 200, "application/x-gzip", commits[parts[4]]
        return 404, "application/json", b'{"message": "Not Found"}'

    def log_message(self, *_: object) -> None: ...


@contextmanager
def hub_server() -> Iterator[HubServer]:
    with HubServer() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
