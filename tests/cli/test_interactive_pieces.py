"""The parts of the chat that need no terminal: greeting, commands, files, faces."""

import json
from pathlib import Path

import anyio
import pytest

from hermes.cli.chat.banner import ChatInfo, render_banner
from hermes.cli.chat.session import find_slash_command, nearest_slash_command
from hermes.cli.chat.slash_commands import (
    SLASH_COMMANDS,
    save_conversation,
)
from hermes.cli.render.answer_stream import OutputFragment, style_fragment
from hermes.cli.render.lines import spinner_frame
from hermes.cli.render.rich_output import render_markdown_block
from hermes.cli.render.terminal_text import TextStyle, display_width
from hermes.cli.render.transcript import Transcript, TranscriptFollower
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.runs import MessageAdded, TurnEnded, TurnStarted
from hermes.core.messages import CompletionDelta, Message, ToolCall, ToolResult
from hermes.memory.journal.in_memory import InMemoryJournal

RICH = ChatInfo(
    version="1.2.3",
    model="openrouter:some-vendor/some-model-with-a-very-long-name-indeed",
    directory="/srv/projects/日本語/deep/deeper/deepest/of/all/the/folders",
    environment="docker (python:3.12)",
    tools=tuple((f"tool_{number:02}", "does") for number in range(40)),
    skills=(("restart-nginx", "how to"),),
)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("facts", [RICH, ChatInfo()])
def test_the_banner_fits_its_terminal(width: int, facts: ChatInfo) -> None:
    rows = render_banner(
        facts, run="run-20300101-000000-abcdef", width=width, style=TextStyle()
    ).split("\n")
    assert all(display_width(row) <= width for row in rows)
    assert any("run-20300101-000000-abcdef" in row for row in rows)


def test_the_banner_counts_what_it_cannot_name() -> None:
    shown = render_banner(RICH, run="r", width=40, style=TextStyle())
    assert "40: tool_00" in shown
    assert " more" in shown
    assert "restart-nginx" in shown


def test_a_terminal_that_tells_no_width_gets_a_banner_of_eighty_columns() -> None:
    assert render_banner(RICH, run="r", width=0, style=TextStyle()) == render_banner(
        RICH, run="r", width=80, style=TextStyle()
    )


def test_without_colour_there_is_not_one_escape() -> None:
    assert "\x1b" not in render_banner(RICH, run="r", width=80, style=TextStyle())
    assert "\x1b" in render_banner(RICH, run="r", width=80, style=TextStyle(colour=True))


def test_what_a_skill_is_called_cannot_steer_the_terminal() -> None:
    facts = ChatInfo(skills=(("\x1b[2Jevil", ""),), model="m\x1b]0;t\x07")
    assert "\x1b" not in render_banner(facts, run="r", width=80, style=TextStyle())


def test_every_command_of_the_chat_is_in_the_table_once() -> None:
    names = [word for each in SLASH_COMMANDS for word in (each.name, *each.aliases)]
    assert len(names) == len(set(names))
    wanted = "help clear new model tools skills compress usage undo retry save personality status"
    assert set(f"{wanted} history resume title stop verbose exit quit".split()) <= set(names)
    assert all(each.help for each in SLASH_COMMANDS)


def test_an_alias_finds_its_command() -> None:
    assert find_slash_command(SLASH_COMMANDS, "quit") is find_slash_command(SLASH_COMMANDS, "exit")
    assert find_slash_command(SLASH_COMMANDS, "nothing") is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("modle", "model"), ("hist", "history"), ("udno", "undo"), ("xyzzy", "")]
)
def test_the_nearest_command_is_suggested(typed: str, meant: str) -> None:
    assert nearest_slash_command(SLASH_COMMANDS, typed) == meant


MESSAGES = (
    Message(role="user", text="what is ```here```?"),
    Message(role="assistant", calls=(ToolCall("1", "look", {"path": "."}),)),
    Message(role="tool", result=ToolResult(call_id="1", content="```\nfence\n```")),
    Message(role="assistant", text="a fence"),
)


def test_a_conversation_is_saved_as_markdown_or_json_by_its_extension(tmp_path: Path) -> None:
    save_conversation(str(tmp_path / "talk.md"), run="r", messages=MESSAGES)
    text = (tmp_path / "talk.md").read_text()
    assert "## user\n\nwhat is" in text
    assert "````\n```\nfence\n```\n````" in text
    save_conversation(str(tmp_path / "talk.json"), run="r", messages=MESSAGES)
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved["run"] == "r"
    assert [each["role"] for each in saved["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert (tmp_path / "talk.json").stat().st_mode & 0o777 == 0o600


def test_saving_never_writes_over_a_file_and_says_so(tmp_path: Path) -> None:
    taken = tmp_path / "talk.md"
    taken.write_text("mine")
    said = save_conversation(str(taken), run="r", messages=MESSAGES)
    assert taken.read_text() == "mine"
    assert "exists and was left alone" in said
    assert str(tmp_path / "talk-2.md") in said
    assert (tmp_path / "talk-2.md").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot write"):
        save_conversation(str(tmp_path / "no" / "talk.md"), run="r", messages=MESSAGES)


def test_markdown_is_set_for_the_width_and_links_show_their_address() -> None:
    shown = render_markdown_block(
        "- **one** [two](http://x.example/y)\n- " + "long " * 30, width=40, colour=False
    )
    assert "**" not in shown
    assert "http://x.example/y" in shown
    assert "\x1b" not in shown
    assert all(display_width(row) <= 40 for row in shown.split("\n"))


def test_square_brackets_of_the_model_are_text_not_markup() -> None:
    assert "[red]x[/red] :smile:" in render_markdown_block(
        "[red]x[/red] :smile:", width=60, colour=True
    )


def test_only_the_mark_of_a_tool_line_is_coloured() -> None:
    painted, _ = style_fragment(
        OutputFragment("tool", "💻 ls  ✓ 0.1 s"),
        style=TextStyle(colour=True),
        width=80,
        block_mode=True,
    )
    assert painted == "💻 ls\x1b[32m  ✓\x1b[0m \x1b[2m0.1 s\x1b[0m"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_face_moves_fits_and_tells_the_time(width: int) -> None:
    frames = {
        spinner_frame("running something rather long to read", n * 0.2, width) for n in range(12)
    }
    assert len(frames) > 4
    assert all(display_width(frame) <= width + 4 for frame in frames)
    assert spinner_frame("x", 75.0, 80).endswith("1 min 15 s")
    assert spinner_frame("", 1.0, 80) == ""


@pytest.mark.anyio
async def test_a_watcher_that_falls_behind_reads_on_from_the_journal() -> None:
    bus = Bus(InMemoryJournal(), backlog=4)
    told: list[OutputFragment] = []
    slow = anyio.Event()

    async def tell(pieces: list[OutputFragment]) -> None:
        told.extend(pieces)
        await slow.wait()

    watcher = TranscriptFollower(bus, Transcript("r"), tell)
    answer = Message(role="assistant", text="one two three four five six")
    async with anyio.create_task_group() as group:
        await group.start(watcher.run)
        await bus.publish(TurnStarted(run="r", turn=1))
        for word in answer.text.split():
            bus.glimpse("r", CompletionDelta(word + " "))
        await bus.publish(MessageAdded(run="r", message=answer))
        await bus.publish(TurnEnded(run="r", turn=1, outcome="answered"))
        slow.set()
        with anyio.fail_after(120):
            await watcher.wait_until_shown()
        group.cancel_scope.cancel()
    assert [piece.text for piece in told if piece.kind == "text"] == [answer.text]
    assert told[-1].kind == "usage"
