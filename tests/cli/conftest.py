"""What the tests of commands share: the command itself, and a server that answers it."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import msgspec
import pytest
from hermes_command import Hermes


@pytest.fixture
def hermes(tmp_path: Path) -> Hermes:
    return Hermes(tmp_path)


class _Answers(BaseHTTPRequestHandler):
    """Enough of an OpenAI-compatible server for one tiny question; the key is `good-key`."""

    def do_POST(self) -> None:
        body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] not in (None, "Bearer good-key"):
            self._reply(401, {"error": {"message": "that key is wrong"}})
            return
        message = {"role": "assistant", "content": "ready"}
        self._reply(
            200,
            {
                "id": "1",
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
            },
        )

    def _reply(self, status: int, body: object) -> None:
        data = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def model_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()
