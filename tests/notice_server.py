"""A real HTTP server on loopback that answers, refuses, hangs or dies, as a test wants it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

Answer = Callable[[int], int]
"""Of the number of a request, from 1: the status; 0 hangs until the server ends."""


class NoticeServer:
    """What arrived, in order."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.ends = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/topic"

    @property
    def said(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.bodies]


@contextmanager
def door(answer: Answer = lambda number: 200) -> Iterator[NoticeServer]:
    opened = NoticeServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            opened.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            opened.headers.append(dict(self.headers))
            status = opened.answer(len(opened.bodies))
            if not status:
                opened.ends.wait(300)
                return
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            return  # a client that was killed

    with Server(("127.0.0.1", 0), Handler) as server:
        opened.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield opened
        finally:
            opened.ends.set()
            server.shutdown()
            thread.join()
