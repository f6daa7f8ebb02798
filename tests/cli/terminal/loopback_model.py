"""An OpenAI-compatible server on the loopback, small enough to know by heart.

It answers "<n> words: <the last question>"; a question that contains `run: CMD` makes it call the
terminal with CMD first, `status: CODE` makes it fail with that code, and `hang` makes it silent
until the server is closed.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append(body)  # type: ignore[attr-defined]
        asked = [each["content"] for each in body["messages"] if each["role"] == "user"][-1]
        if failing := re.search(r"status: (\d+)", asked):
            return self._send(int(failing[1]), "application/json", b'{"error": {"message": "no"}}')
        if asked.endswith("hang"):
            self.server.closing.wait()  # type: ignore[attr-defined]
            return None
        done = body["messages"][-1]["role"] == "tool"
        command = None if done else re.search(r"run: (.*)", asked)
        text = f"{len(asked.split())} words: {asked}"
        whole = _calls(command[1]) if command else {"role": "assistant", "content": text}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            answer = {"choices": [{"message": whole, "finish_reason": "stop"}], "usage": usage}
            return self._send(200, "application/json", json.dumps(answer).encode())
        events = [_chunk(delta) for delta in _deltas(whole)]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        events += [{"choices": [], "usage": usage}]
        stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return self._send(200, "text/event-stream", stream.encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: stderr belongs to the test."""


def _calls(command: str) -> dict[str, Any]:
    function = {"name": "terminal", "arguments": json.dumps({"command": command})}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _deltas(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["content"] is None:
        return [{"tool_calls": [{"index": 0, **message["tool_calls"][0]}]}]
    return [{"content": word + " "} for word in message["content"].split(" ")]


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@contextmanager
def serving() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and the requests it has seen."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.seen = []  # type: ignore[attr-defined]
    server.closing = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server.seen  # type: ignore[attr-defined]
    finally:
        server.closing.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()


def options(address: str) -> list[str]:
    """Words for the `hermes` command that make it ask this server."""
    pairs = {
        "model.default": "own:test",
        "model.providers.own.base_url": address,
        "model.providers.own.dialect": "openai",
    }
    return [word for key, value in pairs.items() for word in ("-s", f"{key}={value}")]
