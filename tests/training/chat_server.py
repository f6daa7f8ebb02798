"""A model server on loopback that takes no request a real one would refuse, and says its lines."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Lines = Callable[[Sequence[dict[str, Any]]], str]
"""What the model says, given the conversation so far."""
ROLES = ("system", "user", "assistant", "tool")


def wrong_with(path: str, asked: Any) -> str:
    if path != "/v1/chat/completions":
        return f"there is no {path}"
    if not isinstance(asked, dict) or not isinstance(asked.get("model"), str):
        return "model is required"
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages are required"
    for message in messages:
        if message.get("role") not in ROLES or not isinstance(message.get("content"), str):
            return f"no message: {message}"
    if messages[-1]["role"] == "assistant":
        return "nobody has said anything since the last answer"
    return ""


@contextmanager
def chat_server(lines: Lines) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what it had to complain about."""
    complaints: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            wrong = wrong_with(self.path, asked)
            if wrong:
                complaints.append(wrong)
                self._answer(400, {"error": {"message": wrong, "type": "invalid_request_error"}})
                return
            message = {"role": "assistant", "content": lines(asked["messages"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            body = {"id": "1", "object": "chat.completion", "created": 1, "usage": usage}
            self._answer(200, {**body, "model": asked["model"], "choices": [choice]})

        def do_GET(self) -> None:
            self._answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})

        def _answer(self, status: int, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", complaints
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def writes(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
