"""One run of the model's code: what it prints, which tools it calls, how it ends."""

import contextlib
import json
import secrets
from typing import Any

import anyio
from anyio.abc import TaskGroup

from hermes.core.errors import ToolError
from hermes.core.ids import new_id
from hermes.core.messages import ToolCall, Value
from hermes.core.protocols import Process, ToolContext
from hermes.tools.interpreter import interpreter

_ANSWER = 1_000_000
"""Characters of one tool's result that the code gets."""
_LONGEST_LINE = 16 * 1024 * 1024


class Ended(Value, kw_only=True, frozen=True):
    output: str
    calls: tuple[str, ...] = ()
    value: str = ""
    error: str = ""


class CodeSession:
    def __init__(
        self, context: ToolContext, *, call_limit: int, output_limit: int, timeout: float
    ) -> None:
        self._context = context
        self._call_limit = call_limit
        self._output_limit = output_limit
        self._timeout = timeout
        self._id = new_id("code")
        self._token = f"\x1e{secrets.token_hex(8)}".encode()
        self._calls: list[str] = []
        self._output: list[str] = []
        self._noise = b""
        self._done: dict[str, Any] | None = None
        self._sending = anyio.Lock()

    async def run(self, code: str, tools: list[tuple[str, list[str], str]]) -> Ended:
        task = {
            "code": code,
            "tools": tools,
            "output": self._output_limit,
            "seconds": self._timeout,
        }
        exit_code: int | None = None
        place = interpreter(self._context.environment, self._token.decode(), timeout=self._timeout)
        async with place as process:
            with anyio.move_on_after(self._timeout) as limit:
                await self._send(process, task)
                await self._follow(process)
                if self._done is None:
                    exit_code = await process.wait()
        if self._done is None:
            why = self._unfinished(exit_code, timed_out=limit.cancelled_caught)
            self._done = {"error": why}
        return Ended(output="".join(self._output), calls=tuple(self._calls), **self._done)

    async def _follow(self, process: Process) -> None:
        buffer = bytearray()
        async with anyio.create_task_group() as group:
            while self._done is None and (piece := await process.output()):
                buffer += piece
                if len(buffer) > _LONGEST_LINE:
                    raise ToolError(f"the code sent more than {_LONGEST_LINE:,} bytes in one call")
                if b"\n" in piece:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        self._take(line, process, group)
        self._noise = (self._noise + buffer)[-2000:]

    def _take(self, line: bytes, process: Process, group: TaskGroup) -> None:
        before, mark, text = line.partition(self._token + b" ")
        self._noise = (self._noise + before)[-2000:]
        message = json.loads(text) if mark else {}
        if "call" in message:
            group.start_soon(self._answer, process, message)
        elif "out" in message:
            self._output.append(message["out"])
        elif "done" in message:
            self._done = message["done"]

    async def _answer(self, process: Process, message: dict[str, Any]) -> None:
        number, name = message["call"], message["name"]
        if len(self._calls) >= self._call_limit:
            text = f"this code made {self._call_limit} tool calls already, which is the limit"
            await self._send(process, {"answer": number, "ok": False, "text": text})
            return
        self._calls.append(name)
        call = ToolCall(f"{self._id}-{number}", name, message["arguments"])
        result = await self._context.call(call)
        text = result.content
        if result.artifact:  # code, unlike a model, can take the whole of it
            text = (await self._context.artifacts.load(result.artifact))[:_ANSWER]
        answer = {"answer": number, "ok": result.status == "ok", "text": text}
        await self._send(process, answer)

    async def _send(self, process: Process, message: dict[str, Any]) -> None:
        async with self._sending:
            if self._done is not None:
                return
            # One that does not listen any more has ended, and its output tells how.
            with contextlib.suppress(ToolError):
                await process.write(json.dumps(message).encode() + b"\n")

    def _unfinished(self, exit_code: int | None, *, timed_out: bool) -> str:
        if timed_out:
            return f"stopped after {self._timeout:g} seconds; what it had started was ended"
        noise = self._noise.decode("utf-8", "replace").strip()
        return f"Python ended without a word (exit code {exit_code}). {noise}".strip()
