"""What a client may get wrong: each ends in a clear word, and nothing is left behind."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import acp
import pytest
from editor_client import (
    Editor,
    call,
    command_line,
    open_editor,
    prompt,
    say,
    spawn_editor,
    start_agent,
    write_replies,
)

from hermes.core.events.approvals import ApprovalSettled
from hermes.core.events.runs import TurnEnded
from hermes.memory.store import open_journal

pytestmark = pytest.mark.anyio
ASKED_COMMAND = "rm -rf build"
"""The rules ask about it."""


async def read_events(home: Path, kind: str) -> list[Any]:
    async with open_journal(home / "home/journal.db") as journal:
        return [each.event async for each in journal.read(kinds=(kind,))]


def pid_in(file: Path) -> int:
    text = file.read_text() if file.exists() else ""
    return int(text) if text.endswith("\n") else 0


def runs(pid: int) -> bool:
    """A process that nobody has waited for yet has no command line any more."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_lines_that_are_no_messages_are_answered_and_passed_over(tmp_path: Path) -> None:
    process = await start_agent(tmp_path, command_line(write_replies(tmp_path / "replies.jsonl")))
    assert process.stdin is not None
    assert process.stdout is not None
    answers: list[dict[str, Any]] = []

    async def ask(line: bytes) -> dict[str, Any]:
        process.stdin.write(line + b"\n")  # type: ignore[union-attr]
        answers.append(json.loads(await process.stdout.readline()))  # type: ignore[union-attr]
        return answers[-1]

    for line, code, words in (
        (b"half a line", -32700, "not JSON"),
        (b'{"jsonrpc": "2.0", "id": NaN}', -32700, "not JSON"),
        (b"[" * 100_000, -32700, "not JSON"),
        (b"[1, 2]", -32600, "must be a JSON object"),
        (b'{"id": {"a": 1}, "result": 1}', -32600, "must be a number or a text"),
        (b'{"method": ["initialize"], "id": 1}', -32600, "must be a text"),
        (b'{"hello": "there"}', -32600, "needs a method or an id"),
        (b'{"id": 1, "method": "session/dance"}', -32601, "Method not found"),
        (b'{"id": 2, "method": "session/new", "params": {}}', -32602, "Invalid params"),
        (b"x" * (64 * 1024 * 1024), -32700, "longer than 16 MB"),
    ):
        error = (await ask(line))["error"]
        assert (error["code"], words in error["message"]) == (code, True), line[:40]
    process.stdin.write(b'{"id": 7, "error": "none"}\n{"id": 8, "result": 1}\n\n')
    greeting = {"id": 3, "method": "initialize", "params": {"protocolVersion": 99}}
    answer = await ask(json.dumps(greeting).encode())
    assert (answer["id"], answer["result"]["protocolVersion"]) == (3, 1)
    process.stdin.write(b'{"id": 4, "method": "session/')  # the end comes within a line
    process.stdin.close()
    assert await process.stdout.read() == b""
    assert await process.wait() == 0


async def test_wrong_requests_are_refused_with_the_reason(tmp_path: Path) -> None:
    editor = Editor()
    async with open_editor(editor, tmp_path, [say("Yes.")]) as connection:
        with pytest.raises(acp.RequestError, match="no way to log in named 'password'"):
            await connection.authenticate(method_id="password")
        await connection.authenticate(method_id="local")
        with pytest.raises(acp.RequestError, match="there is no open session 'run-1'"):
            await prompt(connection, "run-1", "hello")
        with pytest.raises(acp.RequestError, match="existing absolute folder"):
            await connection.new_session(cwd="relative", mcp_servers=[])
        for unknown in ("run-1", "../../etc/passwd"):
            with pytest.raises(acp.RequestError, match="there is no session"):
                await connection.load_session(cwd=str(tmp_path), session_id=unknown, mcp_servers=[])
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        await connection.cancel(session_id=session)
        await connection.cancel(session_id="run-1")
        with pytest.raises(acp.RequestError, match="the prompt is empty"):
            await prompt(connection, session, "  ")
        assert await prompt(connection, session, "are you there?") == "end_turn"
        with pytest.raises(acp.RequestError, match="has no more replies"):
            await prompt(connection, session, "and now?")
    assert editor.text() == "Yes."


async def test_a_prompt_during_a_prompt_is_refused_and_the_first_can_be_cancelled(
    tmp_path: Path,
) -> None:
    editor = Editor(lambda asked, options: asyncio.Event().wait())
    replies = [call("terminal", command=ASKED_COMMAND), say("Next.")]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        first = asyncio.create_task(prompt(connection, session, "clean up"))
        await editor.asking.wait()
        with pytest.raises(acp.RequestError, match="a prompt is being worked on"):
            await prompt(connection, session, "hello?")
        await connection.cancel(session_id=session)
        assert await first == "cancelled"
        assert await prompt(connection, session, "go on") == "end_turn"
    assert [each.outcome for each in await read_events(tmp_path, "approval.settled")] == [
        "withdrawn"
    ]
    assert [each.outcome for each in await read_events(tmp_path, "turn.ended")] == [
        "interrupted",
        "answered",
    ]


async def test_a_client_that_leaves_during_a_request_ends_everything(tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    editor = Editor(lambda asked, options: asyncio.Event().wait())
    background = {"command": "sleep 1234 & echo $! > pid; wait", "background": True}
    replies = [call("terminal", **background), call("terminal", command=ASKED_COMMAND)]
    async with spawn_editor(editor, tmp_path, replies) as (connection, process):
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        turn = asyncio.create_task(prompt(connection, session, "clean up"))
        await editor.asking.wait()
        while not (left := pid_in(tmp_path / "pid")):  # noqa: ASYNC110 - it is another program
            await asyncio.sleep(0.01)
        process.stdin.close()
        assert await process.wait() == 0
        with pytest.raises(ConnectionError):
            await turn
    [settled] = await read_events(tmp_path, "approval.settled")
    assert isinstance(settled, ApprovalSettled)
    assert settled.outcome == "withdrawn"
    [ended] = await read_events(tmp_path, "turn.ended")
    assert isinstance(ended, TurnEnded)
    assert ended.outcome == "interrupted"
    assert not runs(left)
    assert (tmp_path / "build").is_dir()


async def test_a_killed_process_is_resumed_from_the_journal(tmp_path: Path) -> None:
    editor = Editor(lambda asked, options: asyncio.Event().wait())
    replies = [call("terminal", command=ASKED_COMMAND)]
    async with spawn_editor(editor, tmp_path, replies) as (connection, process):
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        turn = asyncio.create_task(prompt(connection, session, "clean up"))
        await editor.asking.wait()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await turn
    later = Editor()
    async with open_editor(later, tmp_path, [say("It was not run.")]) as connection:
        await connection.load_session(cwd=str(tmp_path), session_id=session, mcp_servers=[])
        assert later.text("user_message_chunk") == "clean up"
        assert [each.title for each in later.of_kind("tool_call")] == [ASKED_COMMAND]
        assert await prompt(connection, session, "what happened?") == "end_turn"
        assert later.text() == "It was not run."
