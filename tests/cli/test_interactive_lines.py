"""The chat without a terminal that could be drawn on: lines in, lines out."""

import os
import signal
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

import anyio
import pytest
from terminal.scripted_application import HANG, ScriptedApplication, calls, says

from hermes.cli.chat.banner import ChatInfo
from hermes.cli.chat.interactive import open_session
from hermes.cli.chat.session import ChatDisplay
from hermes.cli.chat.terminals import LineTerminal
from hermes.core.events.approvals import ApprovalSettled
from hermes.core.events.runs import TurnEnded
from hermes.core.events.tools import ToolApproved

pytestmark = pytest.mark.anyio


async def chat(
    script: Sequence[object], source: int, page: StringIO, info: ChatInfo | None = None
) -> ScriptedApplication:
    session = open_session(LineTerminal(source, page, width=0), ChatDisplay())
    application = ScriptedApplication(script, session.approver, ask=session.approver.ask)
    with anyio.fail_after(120):
        await session.run(application, info or ChatInfo(version="1"))
    return application


def piped(text: str) -> int:
    source, sink = os.pipe()
    os.write(sink, text.encode())
    os.close(sink)
    return source


async def test_lines_are_answered_one_after_the_other_and_the_end_leaves() -> None:
    page = StringIO()
    application = await chat([says("one"), says("two")], piped("first\nsec\\\nond"), page)
    asked = [turn[-1].text for turn in application.model.seen]
    assert asked == ["first", "sec\nond"]
    assert page.getvalue().index("one") < page.getvalue().index("two")
    assert "\x1b" not in page.getvalue()


async def test_a_plain_file_can_be_the_input(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("hello\n/usage\n/exit\nnever read\n")
    with (tmp_path / "script").open("rb") as file:
        page = StringIO()
        application = await chat([says("hi")], file.fileno(), page)
    assert len(application.model.seen) == 1
    assert "100 in · 20 out" in page.getvalue()


async def test_an_approval_is_answered_by_the_next_line() -> None:
    page = StringIO()
    script = [calls("terminal", command="ls"), says("done")]
    application = await chat(script, piped("go\no\n"), page)
    assert [e.approved for e in application.journal.events if isinstance(e, ToolApproved)] == [True]
    assert "done" in page.getvalue()


async def test_the_end_of_input_at_an_approval_is_a_no() -> None:
    application = await chat(
        [calls("terminal", command="ls"), says("ok")], piped("go\n"), StringIO()
    )
    settled = [e.outcome for e in application.journal.events if isinstance(e, ApprovalSettled)]
    assert settled in (["withdrawn"], ["denied"])
    assert "tool.started" not in [event.kind for event in application.journal.events]


async def test_ctrl_c_interrupts_a_turn_without_a_screen() -> None:
    source, sink = os.pipe()
    page = StringIO()

    async def until(true: Callable[[], object]) -> None:
        with anyio.fail_after(120):
            while not true():  # noqa: ASYNC110 - a page has no event to wait for
                await anyio.sleep(0.005)

    async with anyio.create_task_group() as group:
        group.start_soon(chat, [HANG], source, page)
        os.write(sink, b"go\n")
        await until(lambda: "hanging on" in page.getvalue())
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: "interrupted" in page.getvalue())
        os.close(sink)
    os.close(source)
    assert page.getvalue().rstrip().endswith(tuple("0123456789abcdef"))  # the run to resume


async def test_half_a_letter_at_the_end_of_a_read_is_put_together() -> None:
    source, sink = os.pipe()
    page = StringIO()
    application: list[ScriptedApplication] = []

    async def run() -> None:
        application.append(await chat([says("ok")], source, page))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        word = "日本\n".encode()
        os.write(sink, word[:4])
        await anyio.wait_all_tasks_blocked()
        os.write(sink, word[4:])
        os.close(sink)
    assert application[0].model.seen[0][-1].text == "日本"
    assert any(isinstance(event, TurnEnded) for event in application[0].journal.events)


async def test_a_prompt_of_an_mcp_server_is_asked_for_in_the_words_of_the_person() -> None:
    page, info = StringIO(), ChatInfo(tools=(("mcp_shop_prompts", ""), ("mcp_shop_orders", "")))
    lines = "/prompt shop triage service=web\n/prompt shop\n/prompt nosuch triage\n"
    application = await chat([says("one"), says("two")], piped(lines), page, info)
    asked = [turn[-1].text for turn in application.model.seen]
    assert asked == [
        "Use the prompt triage of the MCP server shop with service=web.",
        "List the prompts of the MCP server shop.",
    ]
    assert "servers with prompts: shop" in " ".join(page.getvalue().split())
    await chat([], piped("/prompt shop triage\n"), page)
    assert "no MCP server with prompts" in " ".join(page.getvalue().split())
