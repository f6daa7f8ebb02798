"""An OpenAI-compatible server that answers at once, so that only the agent's own work is measured.

Each conversation gets `--turns` messages with `--parallel` calls of one tool, then text; one that
may delegate is first made to do so, `--delegate` tasks at once. Which step a request is at is
counted from its messages, so any number of agents may talk to it; STEP in the arguments is that
number, because an agent that repeats itself is stopped.
GET /stats tells what was asked: requests, bytes of the first and last, seconds inside the server.
"""

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Server:
    turns: int
    parallel: int
    tool: str
    arguments: str
    final: str
    delegate: int = 0
    rows: list[dict[str, float]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                started = time.monotonic()
                request, *lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                writer.write(self.respond(request, body))
                await writer.drain()
                if "/chat/completions" in request:
                    self.rows.append({"bytes": len(body), "seconds": time.monotonic() - started})
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def respond(self, request: str, body: bytes) -> bytes:
        if "/chat/completions" in request:
            asked = json.loads(body)
            events = self.answer(asked)
            return _stream(events) if asked.get("stream") else _whole(events)
        if request.startswith("POST /reset"):
            self.rows.clear()
            return _json({})
        if "/stats" in request:
            return _json({"rows": self.rows})
        return _json({"object": "list", "data": [{"id": "bench", "context_length": 200_000}]})

    def answer(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        messages = asked["messages"]
        since = max(i for i, message in enumerate(messages) if message["role"] == "user")
        step = sum(message["role"] == "assistant" for message in messages[since:])
        usage = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}
        offered = [tool["function"]["name"] for tool in asked.get("tools") or ()]
        delegates = self.delegate and "delegate" in offered
        if step >= (1 if delegates else self.turns) or not offered:
            return [{"content": self.final}, usage]
        function = {"name": self.tool, "arguments": self.arguments.replace("STEP", str(step))}
        if delegates:
            tasks = [{"goal": f"Task {n}: run the command."} for n in range(self.delegate)]
            function = {"name": "delegate", "arguments": json.dumps({"tasks": tasks})}
        calls = [
            {"index": i, "id": f"c{step}_{i}", "type": "function", "function": function}
            for i in range(self.parallel)
        ]
        return [{"tool_calls": calls}, usage]


def _json(payload: object) -> bytes:
    body = json.dumps(payload).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _whole(events: list[dict[str, Any]]) -> bytes:
    message, usage = events
    finish = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return _json({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


def _stream(events: list[dict[str, Any]]) -> bytes:
    message, usage = events
    finish = "tool_calls" if "tool_calls" in message else "stop"
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", **message}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": [], "usage": usage},
    ]
    lines = [b"data: " + json.dumps({"id": "x", **chunk}).encode() + b"\n\n" for chunk in chunks]
    lines.append(b"data: [DONE]\n\n")
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"
    head = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return head.encode() + body


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--tool", default="terminal")
    parser.add_argument("--arguments", default='{"command": "true STEP"}')
    parser.add_argument("--final", default="PONG")
    parser.add_argument("--delegate", type=int, default=0)
    options = vars(parser.parse_args())
    port = options.pop("port")
    server = Server(**options)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", port, limit=64 * 2**20)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
