"""The tool `execute_code`: a Python process inside an environment that can call the other tools.

Where processes can be started, over its standard input and output. Elsewhere over files, which
takes a poll for each exchange, and needs nothing but `run`, `read` and `write`.
"""

import contextlib
import json
import secrets
import shlex
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.messages import Risk, ToolCall, Value
from hermes.core.protocols import BackgroundProcess, Environment, StartsProcesses, Tool, ToolContext
from hermes.core.run_ids import new_id
from hermes.tools.declare import ToolRequirements, tool
from hermes.tools.dependencies import ToolDependencies
from hermes.tools.environment_programs import program_source


@asynccontextmanager
async def open_interpreter(
    environment: Environment, token: str, *, timeout: float
) -> AsyncGenerator[BackgroundProcess, None]:
    """The running interpreter; it and everything it started are ended with the block."""
    words = ["python3", "-c", program_source("runner"), token]
    if isinstance(environment, StartsProcesses):
        process = await environment.start(shlex.join(words))
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
                with anyio.move_on_after(2):  # read to the end, it leaves nothing behind
                    while await process.output():
                        pass
    else:
        async with _open_polled(environment, words, timeout) as process:
            yield process


@asynccontextmanager
async def _open_polled(
    environment: Environment, words: list[str], timeout: float
) -> AsyncGenerator[BackgroundProcess, None]:
    folder = f"/tmp/hermes-code-{secrets.token_hex(8)}"  # inside the environment, not on the host
    process = PolledProcess(environment, folder)
    created = await environment.run(f"mkdir -m 700 {folder}")
    if created.exit_code != 0:
        raise EnvironmentFailed(f"no temporary folder can be made: {created.output.strip()}")
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(process.run, shlex.join([*words, folder]), timeout)
            yield process
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await environment.run(f"rm -rf {folder}")


class PolledProcess:
    """A `BackgroundProcess` made of one long `run` and files beside it."""

    pid: int | None = None

    def __init__(self, environment: Environment, folder: str) -> None:
        self.handle = folder
        self._environment = environment
        self._position = self._written = 0
        self._left = b""
        self._exit_code: int | None = None
        self._ended = anyio.Event()

    async def run(self, command: str, timeout: float) -> None:
        result = await self._environment.run(command, timeout=timeout + 5)
        self._left, self._exit_code = result.output.encode(), result.exit_code
        self._ended.set()

    async def output(self) -> bytes:
        pause = 0.01
        while True:
            over = self._ended.is_set()  # checked first: what is written before the end is read
            if data := await self._read():
                return data
            if over:
                data, self._left = self._left, b""
                return data
            with anyio.move_on_after(pause):
                await self._ended.wait()
            pause = min(0.25, pause * 1.5)

    async def write(self, data: bytes) -> None:
        self._written += 1
        await self._environment.write(f"{self.handle}/in-{self._written}", data)

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self._exit_code

    async def kill(self) -> None:
        """Do nothing: the block that started the process ends it."""

    async def _read(self) -> bytes:
        try:
            data = await self._environment.read(f"{self.handle}/out", offset=self._position)
        except ToolError:
            return b""  # not there yet
        self._position += len(data)
        return data


_MAX_TOOL_ANSWER_CHARS = 1_000_000
"""Characters of one tool's result that the code gets."""
_MAX_LINE_BYTES = 16 * 1024 * 1024


class CodeResult(Value, kw_only=True, frozen=True):
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

    async def run(self, code: str, tools: list[tuple[str, list[str], str]]) -> CodeResult:
        task = {
            "code": code,
            "tools": tools,
            "output": self._output_limit,
            "seconds": self._timeout,
        }
        exit_code: int | None = None
        interpreter = open_interpreter(
            self._context.environment, self._token.decode(), timeout=self._timeout
        )
        async with interpreter as process:
            with anyio.move_on_after(self._timeout) as limit:
                await self._send(process, task)
                await self._follow(process)
                if self._done is None:
                    exit_code = await process.wait()
        if self._done is None:
            why = self._unfinished(exit_code, timed_out=limit.cancelled_caught)
            self._done = {"error": why}
        return CodeResult(output="".join(self._output), calls=tuple(self._calls), **self._done)

    async def _follow(self, process: BackgroundProcess) -> None:
        buffer = bytearray()
        async with anyio.create_task_group() as group:
            while self._done is None and (chunk := await process.output()):
                buffer += chunk
                if len(buffer) > _MAX_LINE_BYTES:
                    raise ToolError(
                        f"the code sent more than {_MAX_LINE_BYTES:,} bytes in one call"
                    )
                if b"\n" in chunk:
                    *lines, rest = bytes(buffer).split(b"\n")
                    buffer = bytearray(rest)
                    for line in lines:
                        self._take(line, process, group)
        self._noise = (self._noise + buffer)[-2000:]

    def _take(self, line: bytes, process: BackgroundProcess, group: TaskGroup) -> None:
        before, mark, text = line.partition(self._token + b" ")
        self._noise = (self._noise + before)[-2000:]
        message = json.loads(text) if mark else {}
        if "call" in message:
            group.start_soon(self._answer, process, message)
        elif "out" in message:
            self._output.append(message["out"])
        elif "done" in message:
            self._done = message["done"]

    async def _answer(self, process: BackgroundProcess, message: dict[str, Any]) -> None:
        number, name = message["call"], message["name"]
        if len(self._calls) >= self._call_limit:
            text = f"this code made {self._call_limit} tool calls already, which is the limit"
            await self._send(process, {"answer": number, "ok": False, "text": text})
            return
        self._calls.append(name)
        call = ToolCall(f"{self._id}-{number}", name, message["arguments"])
        result = await self._context.call(call)
        text = result.content
        if result.artifact:  # code, unlike a model, can take the whole result
            text = (await self._context.artifacts.load(result.artifact))[:_MAX_TOOL_ANSWER_CHARS]
        answer = {"answer": number, "ok": result.status == "ok", "text": text}
        await self._send(process, answer)

    async def _send(self, process: BackgroundProcess, message: dict[str, Any]) -> None:
        async with self._sending:
            if self._done is not None:
                return
            # A process that no longer reads has ended, and its output shows how.
            with contextlib.suppress(ToolError):
                await process.write(json.dumps(message).encode() + b"\n")

    def _unfinished(self, exit_code: int | None, *, timed_out: bool) -> str:
        if timed_out:
            return f"stopped after {self._timeout:g} seconds; what it had started was ended"
        noise = self._noise.decode("utf-8", "replace").strip()
        return f"Python ended without a word (exit code {exit_code}). {noise}".strip()


def make_execute_code(dependencies: ToolDependencies) -> Tool:
    settings = dependencies.settings

    @tool(
        risk=Risk.CHANGE,
        needs=ToolRequirements(programs=("python3",), how="install Python 3 in the environment"),
    )
    async def execute_code(
        context: ToolContext,
        code: str,
        timeout: Annotated[float, msgspec.Meta(gt=0, description="seconds")] = 120.0,
    ) -> str:
        """Run Python where the commands run, to do in one turn what needs many calls.

        The other tools are functions there: print(terminal("uptime")). They return text, raise
        ToolFailed, and may be called from threads. Print only what you need.
        """
        session = CodeSession(
            context,
            call_limit=settings.code_calls,
            output_limit=settings.code_output,
            timeout=min(timeout, settings.code_timeout),
        )
        result = await session.run(code, _tool_functions(dependencies))
        return _render_result(result)

    return execute_code


def _tool_functions(dependencies: ToolDependencies) -> list[tuple[str, list[str], str]]:
    """Name, parameters in order and description of each tool but this one."""
    return [
        (name, list(_parameter_schema(other)), other.spec.description)
        for name, other in dependencies.tools.items()
        if name != "execute_code"
    ]


def _parameter_schema(other: Tool) -> dict[str, Any]:
    found: dict[str, Any] = other.spec.parameters.get("properties", {})
    return found


def _render_result(result: CodeResult) -> str:
    parts = [result.output.rstrip("\n")]
    if result.value:
        parts.append(f"value: {result.value}")
    if result.calls:
        counted = ", ".join(f"{name} ×{count}" for name, count in Counter(result.calls).items())
        parts.append(f"[calls: {counted}]")
    if result.error:
        parts.append(result.error)
        raise ToolError("\n".join(part for part in parts if part))
    return "\n".join(part for part in parts if part) or "[it printed nothing]"
