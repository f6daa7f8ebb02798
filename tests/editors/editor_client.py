"""An editor for tests: the client of the library, which starts `hermes acp` as its users do."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import anyio
from acp import schema

import hermes
from hermes.app.editor import serve_streams
from hermes.settings.load import load

Answer = Callable[[Any, list[Any]], Any]


def choose(option: str) -> Answer:
    """Always the same answer to requests for permission."""

    def answer(call: Any, options: list[Any]) -> Any:
        return schema.AllowedOutcome(outcome="selected", option_id=option)

    return answer


class Editor:
    """Remembers what it was shown and asked. `files` are texts that are not saved."""

    def __init__(self, answer: Answer | None = None, files: dict[str, str] | None = None) -> None:
        self.answer = answer or choose("allow_once")
        self.files = files
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[str]]] = []
        self.asking = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> Any:
        self.asked.append((tool_call, [each.option_id for each in options]))
        self.asking.set()
        outcome = self.answer(tool_call, options)
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
        assert self.files is not None
        if path not in self.files:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
        assert self.files is not None
        self.files[path] = content
        return schema.WriteTextFileResponse()

    def of_kind(self, kind: str) -> list[Any]:
        return [each for each in self.updates if each.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each.content.text for each in self.of_kind(kind))

    def forget(self) -> None:
        self.updates.clear()
        self.asked.clear()


def write_replies(file: Path, *replies: dict[str, Any]) -> Path:
    file.write_text("".join(f"{json.dumps(each)}\n" for each in replies))
    return file


def call(name: str, id: str = "c1", **arguments: Any) -> dict[str, Any]:
    """A reply of the model that calls a tool."""
    return {"calls": [{"id": id, "name": name, "arguments": arguments}]}


def say(text: str, reasoning: str = "") -> dict[str, Any]:
    return {"text": text, "reasoning": reasoning}


def command_line(replies: Path) -> list[str]:
    setting = f"model.default=scripted:{replies}"
    return [sys.executable, "-m", "hermes.cli", "-s", setting, "acp"]


def variables(home: Path) -> dict[str, str]:
    return {
        "HERMES_HOME": str(home / "home"),
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(hermes.__file__).parents[1]),
    }


@asynccontextmanager
async def open_editor(
    editor: Editor, home: Path, replies: Sequence[dict[str, Any]], **settings: str
) -> AsyncIterator[Any]:
    """The connection of the editor to an agent in this process."""
    script = write_replies(home / "replies.jsonl", *replies)
    overrides = {"model.default": f"scripted:{script}", **settings}
    loaded = load(home=home / "home", variables=variables(home), overrides=overrides)
    to_agent, from_agent = os.pipe(), os.pipe()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(serve_streams, loaded, to_agent[0], from_agent[1])
            async with _pipe_streams(to_agent[1], from_agent[0]) as (writer, reader):
                connection = acp.connect_to_agent(editor, writer, reader)
                try:
                    await initialize(connection, editor)
                    yield connection
                finally:
                    await connection.close()
    finally:
        os.close(to_agent[0])
        os.close(from_agent[1])


@asynccontextmanager
async def _pipe_streams(
    output: int, input: int
) -> AsyncIterator[tuple[asyncio.StreamWriter, asyncio.StreamReader]]:
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    receiving, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(input, "rb", 0))
    sending, flow = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(output, "wb", 0)
    )
    try:
        yield asyncio.StreamWriter(sending, flow, None, loop), reader
    finally:
        sending.close()
        receiving.close()


@asynccontextmanager
async def spawn_editor(
    editor: Editor, home: Path, replies: Sequence[dict[str, Any]]
) -> AsyncIterator[tuple[Any, asyncio.subprocess.Process]]:
    """The same with `hermes acp` as a process of its own."""
    script = write_replies(home / "replies.jsonl", *replies)
    process = await start_agent(home, command_line(script))
    connection = acp.connect_to_agent(editor, process.stdin, process.stdout)
    try:
        await initialize(connection, editor)
        yield connection, process
    finally:
        await connection.close()
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def initialize(connection: Any, editor: Editor) -> None:
    offered = editor.files is not None
    files = schema.FileSystemCapabilities(read_text_file=offered, write_text_file=offered)
    await connection.initialize(
        protocol_version=acp.PROTOCOL_VERSION,
        client_capabilities=schema.ClientCapabilities(fs=files),
    )


async def start_agent(home: Path, command: Sequence[str]) -> asyncio.subprocess.Process:
    with (home / "stderr").open("ab") as errors:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=variables(home),
            cwd=home,
        )


async def prompt(connection: Any, session: str, text: str) -> str:
    answer = await connection.prompt(session_id=session, prompt=[acp.text_block(text)])
    return str(answer.stop_reason)
